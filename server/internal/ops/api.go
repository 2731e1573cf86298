package ops

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/relay"
	"github.com/millrace-io/millrace/server/internal/server/demo"
)

// A Report is the answer to /api/streams.
type Report struct {
	Server  ServerReport       `json:"server"`
	Streams []relay.StreamInfo `json:"streams"`
	Nodes   []NodeReport       `json:"nodes,omitempty"` // what the other nodes of a cluster say
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

// ServeStreams answers GET /api/streams. It tells the publishers' addresses only if other machines cannot ask, and to
// none that asks through a proxy: they are for the operator. A node gets what this one knows itself.
func (o *Observer) ServeStreams(w http.ResponseWriter, r *http.Request) {
	if !o.Budget.Lend(w, r, o.Hub.Count()*streamBytes) {
		return
	}
	report := o.report()
	if _, ok := access.NodeOf(r); !ok {
		if o.addNodes(&report); !o.Budget.Lend(w, r, report.nodeStreams()*streamBytes) {
			return
		}
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if !o.Gate.Policy().Loopback || err == nil && !client.Addr().IsLoopback() {
			report.hideAddresses()
		} else {
			report.Server.Operator = true
		}
	}
	writeJSON(w, report)
}

// ServeOperator is ServeStreams for the admin listener.
func (o *Observer) ServeOperator(w http.ResponseWriter, r *http.Request) {
	if !o.Budget.Lend(w, r, o.Hub.Count()*streamBytes) {
		return
	}
	report := o.report()
	report.Server.Operator = true
	if o.addNodes(&report); o.Budget.Lend(w, r, report.nodeStreams()*streamBytes) {
		writeJSON(w, report)
	}
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

// addNodes asks the other nodes for theirs.
func (o *Observer) addNodes(report *Report) {
	if o.Cluster != nil {
		report.Nodes = o.Cluster.others.get(o.Draining)
	}
}

// report describes the server and its streams.
func (o *Observer) report() Report {
	streams, relayed, mem := o.Hub.Streams(), o.Hub.Stats(), o.Budget.Memory.Stats()
	policy := o.Gate.Policy()
	return Report{
		Server: ServerReport{
			Version: o.Version, Node: o.Self, Uptime: time.Since(o.Started).Seconds(),
			Streams: len(streams), Viewers: o.Hub.Viewers(), BytesOut: relayed.BytesOut,
			Memory: mem.Used, MemoryOf: mem.Limit, MemoryHi: mem.High,
			Files: o.Files.Offer(), Blobs: o.Blobs != nil,
			Publish: policy.Publishing(), Read: policy.Reading(), Loopback: policy.Loopback,
			RTMP: o.RTMP.Number, RTMPS: o.RTMPS.Number, RTMPLoopback: o.RTMP.Loopback, RTMPSLoopback: o.RTMPS.Loopback,
			MemoryOwners: o.memoryOwners(relayed, mem.Heap),
		},
		Streams: streams,
	}
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

func hideAddresses(streams []relay.StreamInfo) {
	for i := range streams {
		if p := &streams[i].Publisher; *p != demo.Name {
			*p = ""
		}
	}
}
