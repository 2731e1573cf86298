// Package flvstream derives facts about a stream from its FLV tags. It finds the tags that later
// viewers need first, the tags at which viewers can start, and the tracks that exist. It also makes
// the tags of one publisher continue another publisher's tags. Its types receive the tags in order.
// Each value belongs to one goroutine at a time.
package flvstream
