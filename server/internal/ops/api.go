package ops

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/live/push"
)

// ServeStreams serves GET /api/streams. Other nodes get the streams of this node, with the
// addresses of publishers. Other clients get the streams of all nodes, with these addresses only if
// other machines cannot reach the server and the client runs on this machine.
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

// ServeOperator serves GET /api/streams on the admin listener, with the addresses of publishers.
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

// ServePushes serves GET /api/pushes on the admin listener: the streams that are sent on.
func (o *Observer) ServePushes(w http.ResponseWriter, r *http.Request) {
	list := append([]push.Info{}, o.Push.Stats().Pushes...) // never null
	if o.Budget.Lend(w, r, len(list)*streamBytes) {
		writeJSON(w, map[string]any{"pushes": list})
	}
}

func (o *Observer) addNodes(report *Report) {
	if o.Cluster != nil {
		report.Nodes = o.Cluster.others.get(o.Draining)
	}
}

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
			Posters: !o.Gate.HasHook(),
			RTMP:    o.RTMP.Number, RTMPS: o.RTMPS.Number, RTMPLoopback: o.RTMP.Loopback,
			RTMPSLoopback: o.RTMPS.Loopback,
			MemoryOwners:  o.memoryOwners(relayed, mem.Heap),
		},
		Streams: streams,
	}
}
