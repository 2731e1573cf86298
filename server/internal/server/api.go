package server

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/relay"
)

// apiReport is the answer to /api/streams.
type apiReport struct {
	Server  apiServer          `json:"server"`
	Streams []relay.StreamInfo `json:"streams"`
	Nodes   []nodeReport       `json:"nodes,omitempty"` // what the other nodes of a cluster say
}

type apiServer struct {
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

// apiStreams answers GET /api/streams. It tells the publishers' addresses only if other machines cannot ask, and to none that
// asks through a proxy: they are for the operator. A node gets what this one knows itself.
func (s *Server) apiStreams(w http.ResponseWriter, r *http.Request) {
	if !s.budget.Lend(w, r, s.relay.Count()*streamBytes) {
		return
	}
	report := s.report()
	if _, ok := access.NodeOf(r); !ok {
		if s.addNodes(&report); !s.budget.Lend(w, r, report.nodeStreams()*streamBytes) {
			return
		}
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if !s.gate.Policy().Loopback || err == nil && !client.Addr().IsLoopback() {
			report.hideAddresses()
		} else {
			report.Server.Operator = true
		}
	}
	writeJSON(w, report)
}

// adminStreams is apiStreams for the admin listener.
func (s *Server) adminStreams(w http.ResponseWriter, r *http.Request) {
	if !s.budget.Lend(w, r, s.relay.Count()*streamBytes) {
		return
	}
	report := s.report()
	report.Server.Operator = true
	if s.addNodes(&report); s.budget.Lend(w, r, report.nodeStreams()*streamBytes) {
		writeJSON(w, report)
	}
}

// streamBytes is what the description of one stream, or viewer, holds, as a value and as JSON.
const streamBytes = 2 << 10

// nodeStreams returns how many streams the reports of other nodes have.
func (r *apiReport) nodeStreams() (n int) {
	for i := range r.Nodes {
		n += len(r.Nodes[i].Streams)
	}
	return n
}

// addNodes asks the other nodes for theirs.
func (s *Server) addNodes(report *apiReport) {
	if s.node != nil {
		report.Nodes = s.node.reports.get(s.draining)
	}
}

// report describes the server and its streams.
func (s *Server) report() apiReport {
	streams, relayed, mem := s.relay.Streams(), s.relay.Stats(), s.budget.Memory.Stats()
	policy := s.gate.Policy()
	return apiReport{
		Server: apiServer{
			Version: s.cfg.Version, Node: s.cfg.self(), Uptime: time.Since(s.started).Seconds(),
			Streams: len(streams), Viewers: s.relay.Viewers(), BytesOut: relayed.BytesOut,
			Memory: mem.Used, MemoryOf: mem.Limit, MemoryHi: mem.High,
			Files: s.files.Offer(), Blobs: s.blobs != nil,
			Publish: policy.Publishing(), Read: policy.Reading(), Loopback: policy.Loopback,
			RTMP: s.rtmp.port, RTMPS: s.rtmps.port, RTMPLoopback: s.rtmp.loopback, RTMPSLoopback: s.rtmps.loopback,
			MemoryOwners: s.memoryOwners(relayed, mem.Heap),
		},
		Streams: streams,
	}
}

// hideAddresses takes the publishers' addresses out. What is shared with other reports stays as it is.
func (r *apiReport) hideAddresses() {
	hideAddresses(r.Streams)
	r.Nodes = slices.Clone(r.Nodes)
	for i := range r.Nodes {
		r.Nodes[i].Streams = slices.Clone(r.Nodes[i].Streams)
		hideAddresses(r.Nodes[i].Streams)
	}
}

func hideAddresses(streams []relay.StreamInfo) {
	for i := range streams {
		if p := &streams[i].Publisher; *p != demoName {
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
