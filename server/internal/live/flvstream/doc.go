// Package flvstream derives facts about a stream from its FLV tags: which tags later viewers need
// first, where viewers can start, which tracks exist, and how one publisher's tags continue
// another's. Its types receive one tag after the other, and belong to one goroutine at a time.
package flvstream
