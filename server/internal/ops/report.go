package ops

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
)

// A Report is the answer to /api/streams.
type Report struct {
	Server  ServerReport      `json:"server"`
	Streams []live.StreamInfo `json:"streams"`
	Nodes   []NodeReport      `json:"nodes,omitempty"` // what the other nodes of a cluster say
}

// A ServerReport says what a server is and does.
type ServerReport struct {
	MemoryOwners map[string]int64 `json:"memory_by_owner"` // as the metric memory_owner_bytes

	// Operator says that the client is an operator: it is on this machine, or asks the admin listener.
	Operator bool `json:"operator"`

	Version  string  `json:"version"`
	Node     string  `json:"node,omitempty"` // this server's address for the other nodes of its cluster
	Uptime   float64 `json:"uptime_seconds"`
	Streams  int     `json:"streams"`
	Viewers  int     `json:"viewers"`
	BytesOut int64   `json:"bytes_out"`
	Memory   int64   `json:"memory_bytes"`      // in use
	MemoryOf int64   `json:"memory_budget"`     // of so many; 0: no budget
	MemoryHi int64   `json:"memory_high_water"` // the most that was in use
	Files    string  `json:"files"`             // what there is at /files/: off, named (no lists) or listed
	Blobs    bool    `json:"blobs"`             // there are some at /blobs/, or may be
	Publish  string  `json:"publish"`           // who may: open, token, hook or off
	Read     string  `json:"read"`              // who may: open or token
	RTMP     int     `json:"rtmp"`              // the port of RTMP; 0: there is none
	RTMPS    int     `json:"rtmps"`             // the same over TLS
	Loopback bool    `json:"loopback"`          // only this machine reaches the server, unless through a proxy

	RTMPLoopback  bool `json:"rtmp_loopback"`  // the same of RTMP
	RTMPSLoopback bool `json:"rtmps_loopback"` // and of RTMP over TLS
}

// A NodeReport is what another node says of itself, or why it does not.
type NodeReport struct {
	Node    string            `json:"node"`
	Error   string            `json:"error,omitempty"`
	Server  ServerReport      `json:"server"`
	Streams []live.StreamInfo `json:"streams"`
}

// streamBytes is what the description of one stream, or viewer, holds, as a value and as JSON.
const streamBytes = 2 << 10

// nodeStreams returns how many streams the reports of other nodes have.
func (r *Report) nodeStreams() (n int) {
	for i := range r.Nodes {
		n += len(r.Nodes[i].Streams)
	}
	return n
}

// hideAddresses takes the publishers' addresses out. What is shared with other reports stays as it is.
func (r *Report) hideAddresses() {
	hideAddresses(r.Streams)
	r.Nodes = slices.Clone(r.Nodes)
	for i := range r.Nodes {
		r.Nodes[i].Streams = slices.Clone(r.Nodes[i].Streams)
		hideAddresses(r.Nodes[i].Streams)
	}
}

func hideAddresses(streams []live.StreamInfo) {
	for i := range streams {
		if p := &streams[i].Publisher; *p != demo.Name {
			*p = ""
		}
	}
}

// writeJSON answers 200 with JSON.
func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)+1)) // by which another node knows that it has all
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(text, '\n'))
}
