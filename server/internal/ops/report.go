package ops

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
)

// A Report is the response to /api/streams.
type Report struct {
	Server  ServerReport      `json:"server"`
	Streams []live.StreamInfo `json:"streams"`
	Nodes   []NodeReport      `json:"nodes,omitempty"` // the other nodes of the cluster
}

// A ServerReport describes a server.
type ServerReport struct {
	MemoryOwners map[string]int64 `json:"memory_by_owner"` // as the metric memory_owner_bytes

	// Operator says whether the web page shows figures for the operator, such as memory and
	// traffic. It is set on the admin listener. On the main listener, it is set if other machines
	// cannot reach the listener and the request comes from this machine.
	Operator bool `json:"operator"`

	Version string `json:"version"`
	// Node is this node's address for the other nodes.
	Node     string  `json:"node,omitempty"`
	Uptime   float64 `json:"uptime_seconds"`
	Streams  int     `json:"streams"`
	Viewers  int     `json:"viewers"`
	BytesOut int64   `json:"bytes_out"`
	Memory   int64   `json:"memory_bytes"`      // bytes in use
	MemoryOf int64   `json:"memory_budget"`     // 0 if there is no budget
	MemoryHi int64   `json:"memory_high_water"` // the maximum of Memory so far
	Files    string  `json:"files"`             // off, named (files without listings) or listed
	Blobs    bool    `json:"blobs"`             // whether /blobs/ is enabled
	Publish  string  `json:"publish"`           // who may publish: open, token, hook or off
	Read     string  `json:"read"`              // who may watch: open or token
	RTMP     int     `json:"rtmp"`              // port of the RTMP listener, or 0
	RTMPS    int     `json:"rtmps"`             // port of the RTMPS listener, or 0
	// Loopback is set if only this machine can reach the main listener.
	Loopback bool `json:"loopback"`

	RTMPLoopback  bool `json:"rtmp_loopback"`  // as Loopback, for the RTMP listener
	RTMPSLoopback bool `json:"rtmps_loopback"` // as Loopback, for the RTMPS listener

	// Posters is set if the page may show posters. With a hook, each poster would be a play.
	Posters bool `json:"posters,omitempty"`
}

// A NodeReport describes another node and its streams. If the node has sent no report, Error is the
// reason.
type NodeReport struct {
	Node    string            `json:"node"`
	Error   string            `json:"error,omitempty"`
	Server  ServerReport      `json:"server"`
	Streams []live.StreamInfo `json:"streams"`
}

// streamBytes is an upper limit for the memory in bytes that the response to /api/streams needs per
// stream. It includes the Go value and the JSON.
const streamBytes = 2 << 10

func (r *Report) nodeStreams() (n int) {
	for i := range r.Nodes {
		n += len(r.Nodes[i].Streams)
	}
	return n
}

// hideAddresses removes the addresses of publishers from the report. Several reports share the
// lists of streams of other nodes. hideAddresses therefore replaces these lists with changed
// copies.
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

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // v has only numbers and strings
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	// With the length, another node can detect an incomplete response.
	h.Set("Content-Length", strconv.Itoa(len(text)+1))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(text, '\n'))
}
