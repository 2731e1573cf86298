// Package flvstream has facts about a stream of FLV tags: what later viewers need before they can
// start, where they can start, which tracks there are, and how one publisher's tags continue those of
// another. Its types are given one tag after the other, and belong to one goroutine at a time.
package flvstream
