// Package push sends streams on to other servers, over RTMP, RTMPS or HTTP-FLV.
//
// A [Route] says which streams are sent to which address. A [Pusher] connects to the server of each
// route as long as a stream of that name is published, and connects again after a failure.
//
// For the hub, a connection is a viewer that does not count towards the limits on viewers: it gets
// the same memory, in the same writes, as other viewers of the format, and a server that does not
// read fast enough misses frames up to a keyframe. In a cluster, only the node that owns a stream
// sends it on.
//
// The keys of the streams at the other servers are secret. They are in no log line, error or
// metric: a Route is shown without its key.
package push
