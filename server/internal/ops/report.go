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
	Nodes   []NodeReport      `json:"nodes,omitempty"` // the other nodes of the cluster
}

// A ServerReport describes a server.
type ServerReport struct {
	MemoryOwners map[string]int64 `json:"memory_by_owner"` // as the metric memory_owner_bytes

	// Operator says that the client is an operator: it is on this machine, or asks the admin
	// listener.
	Operator bool `json:"operator"`

	Version string `json:"version"`
	// This server's address for the other nodes of its cluster.
	Node     string  `json:"node,omitempty"`
	Uptime   float64 `json:"uptime_seconds"`
	Streams  int     `json:"streams"`
	Viewers  int     `json:"viewers"`
	BytesOut int64   `json:"bytes_out"`
	Memory   int64   `json:"memory_bytes"`      // in use
	MemoryOf int64   `json:"memory_budget"`     // of so many; 0: no budget
	MemoryHi int64   `json:"memory_high_water"` // the most that was in use
	Files    string  `json:"files"`             // state of /files/: off, named (no lists) or listed
	Blobs    bool    `json:"blobs"`             // there are some at /blobs/, or may be
	Publish  string  `json:"publish"`           // who may: open, token, hook or off
	Read     string  `json:"read"`              // who may: open or token
	RTMP     int     `json:"rtmp"`              // the port of RTMP; 0: off
	RTMPS    int     `json:"rtmps"`             // the same over TLS
	// Only this machine reaches the server, unless through a proxy.
	Loopback bool `json:"loopback"`

	RTMPLoopback  bool `json:"rtmp_loopback"`  // the same of RTMP
	RTMPSLoopback bool `json:"rtmps_loopback"` // and of RTMP over TLS
}

// A NodeReport is another node's report, or the reason why there is none.
type NodeReport struct {
	Node    string            `json:"node"`
	Error   string            `json:"error,omitempty"`
	Server  ServerReport      `json:"server"`
	Streams []live.StreamInfo `json:"streams"`
}

// streamBytes is the memory of the description of one stream or viewer, as a value and as JSON.
const streamBytes = 2 << 10

// nodeStreams returns how many streams the reports of other nodes have.
func (r *Report) nodeStreams() (n int) {
	for i := range r.Nodes {
		n += len(r.Nodes[i].Streams)
	}
	return n
}

// hideAddresses removes the publishers' addresses. It does not change parts that are shared with
// other reports.
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
	// Shows another node that it has received all.
	h.Set("Content-Length", strconv.Itoa(len(text)+1))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(text, '\n'))
}
