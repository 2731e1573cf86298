package cluster

import (
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/server/internal/streamname"
)

const (
	// maxEpoch is the largest epoch that a float64 holds exactly. The limit is needed because Lua
	// and JavaScript represent numbers as float64. Epochs are times in microseconds, so maxEpoch is
	// reached in the year 2255.
	maxEpoch = 1<<53 - 1
	// maxAddress limits the length of a node's address. The limit is longer than any host name with
	// its scheme and port.
	maxAddress = 300
)

// String returns the event as it is published: "NODE EPOCH STREAM" for a stream, and "NODE" for a
// node that is alive.
func (e Event) String() string {
	if e.Stream == "" {
		return e.Owner.Node
	}
	return e.Owner.Node + " " + strconv.FormatUint(e.Owner.Epoch, 10) + " " + e.Stream
}

// parseEvent parses the text of an event: "NODE EPOCH STREAM", or "NODE" if a node announces that
// it is alive. It returns false if the text is not an event. Later versions of the server may
// append more words, which parseEvent ignores.
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

func isAddress(node string) bool {
	scheme, host, _ := strings.Cut(node, "://")
	return (scheme == "http" || scheme == "https") && host != "" && len(node) <= maxAddress &&
		!strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' })
}
