// Package flvstream derives facts about a stream from its FLV tags: which tags later viewers need
// first, where viewers can start, which tracks exist, and how the tags of one publisher continue
// those of another. Its types receive the tags in order. Each belongs to one goroutine at a time.
package flvstream
