package cluster

import (
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/server/internal/streamname"
)

const (
	// maxEpoch is the greatest epoch that a float64, the number of Lua and of JavaScript, can count
	// to: as microseconds it is in the year 2255.
	maxEpoch = 1<<53 - 1
	// maxAddress is longer than a host name can be, with its scheme and port.
	maxAddress = 300
)

// String returns the event as published: "NODE EPOCH STREAM" for a stream, "NODE" for a node that
// is alive.
func (e Event) String() string {
	if e.Stream == "" {
		return e.Owner.Node
	}
	return e.Owner.Node + " " + strconv.FormatUint(e.Owner.Epoch, 10) + " " + e.Stream
}

// parseEvent parses the result of String, and reports whether text is an event. Words after the
// stream are from a later version, and ignored.
func parseEvent(text string) (e Event, ok bool) {
	node, rest, ofStream := strings.Cut(text, " ")
	if !isAddress(node) {
		return Event{}, false
	}
	if !ofStream {
		return Event{Owner: Owner{Node: node}}, true
	}
	number, rest, _ := strings.Cut(rest, " ")
	stream, _, _ := strings.Cut(rest, " ")
	epoch, err := strconv.ParseUint(number, 10, 64)
	if err != nil || epoch > maxEpoch || streamname.Check(stream) != nil {
		return Event{}, false
	}
	return Event{Stream: stream, Owner: Owner{Node: node, Epoch: epoch}}, true
}

// isAddress reports whether node may be asked for streams.
func isAddress(node string) bool {
	scheme, host, _ := strings.Cut(node, "://")
	return (scheme == "http" || scheme == "https") && host != "" && len(node) <= maxAddress &&
		!strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' })
}
