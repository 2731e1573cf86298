// Package flvstream derives facts about a stream from its FLV tags. It finds the tags that later
// viewers need first, the tags at which viewers can start, and the tracks that exist. It also
// adjusts the tags of a publisher so that they continue the tags of the previous publisher. The
// types process the tags of a stream in order. Except for [Facts], only one goroutine at a time may
// use a value of these types.
//
// Half of the code keeps headers and metadata correct when publishers and tracks change.
package flvstream
