package cluster

import (
	"context"
	"flag"
	"fmt"
	"math"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// costs are the measured inputs of the model.
type costs struct {
	stream float64 // CPU ms per second of a node for each stream that it receives
	sent   float64 // CPU s of a node for each 10⁹ bytes that it sends
	// CPU µs of Redis per operation. For heard, the operation is the delivery of a heartbeat to one
	// node.
	claim, renew, lookup, heard float64
}

// An edgeLoad is the load and the CPU time of an edge, as medians of all rounds.
type edgeLoad struct {
	streams float64
	gb      float64 // 10⁹ bytes sent per second
	cpu     float64 // CPU seconds per second
}

func newEdgeLoad(c testCase, edge []*result) edgeLoad {
	return edgeLoad{
		streams: float64(c.streams),
		gb: series(edge,
			func(r *result) float64 { return r.bytes / 1e9 / r.seconds }).Median(),
		cpu: series(edge,
			func(r *result) float64 { return r.grown[atEdge] / r.seconds }).Median(),
	}
}

// learn computes c.stream and c.sent from the first and the last load, which should have different
// numbers of viewers per stream. Each of the two loads gives an equation:
//
//	cpu = streams*stream + gb*sent
//
// If the equations have no unique positive solution, learn leaves c unchanged.
func (c *costs) learn(loads []edgeLoad) {
	a, b := loads[0], loads[len(loads)-1]
	det := a.streams*b.gb - b.streams*a.gb
	stream, sent := (a.cpu*b.gb-b.cpu*a.gb)/det, (a.streams*b.cpu-b.streams*a.cpu)/det
	if stream > 0 && sent > 0 && !math.IsInf(stream, 0) && !math.IsInf(sent, 0) {
		c.stream, c.sent = stream*1000, sent
	}
}

type model struct {
	viewers, streams, spread int
	mbit, cores, use, extra  float64
	nics                     string
	costs                    costs
}

func (m *model) flags(f *flag.FlagSet) {
	f.IntVar(&m.viewers, "viewers", 1_000_000, "of the model")
	f.IntVar(&m.streams, "streams", 1000, "of the model")
	f.Float64Var(&m.mbit, "mbit", 2, "bit rate of each stream of the model, in Mbit/s")
	f.IntVar(&m.spread, "spread", 0, "nodes that the balancer gives the viewers of a stream to; 0: all")
	f.StringVar(&m.nics, "nic", "10,25", "network of a node in Gbit/s each way, more with commas")
	f.Float64Var(&m.cores, "cores", 8, "processors of a node")
	f.Float64Var(&m.use, "use", 0.7, "share of processors and network that is used")
	f.Float64Var(&m.extra, "extra", 2,
		"times the CPU that was measured: loopback has no network card")
	// The default values were measured on an idle machine; see bench/results.
	f.Float64Var(&m.costs.stream, "cost-stream", 0.5,
		"CPU ms a second for a stream that a node receives, unless it is measured")
	f.Float64Var(&m.costs.sent, "cost-sent", 0.6, "CPU s/GB sent, unless it is measured")
	f.Float64Var(&m.costs.claim, "cost-claim", 20,
		"CPU µs of Redis for a claim, unless it is measured")
	f.Float64Var(&m.costs.renew, "cost-renew", 10,
		"CPU µs of Redis for a renewal, unless it is measured")
	f.Float64Var(&m.costs.lookup, "cost-lookup", 15,
		"CPU µs of Redis for a lookup, unless it is measured")
	f.Float64Var(&m.costs.heard, "cost-heard", 5,
		"CPU µs of Redis for a heartbeat that a node hears, unless it is measured")
}

// A plan is the result of the model for one number of nodes.
type plan struct {
	nodes    int
	pulls    float64 // streams that nodes pull from other nodes, in all
	in, out  float64 // Gbit/s of one node
	cpu      float64 // processors of one node
	between  float64 // Gbit/s between nodes, in all
	renewals float64 // renewals of leases per second
	heard    float64 // heartbeats per second that Redis delivers
	// Lookups per second if all viewers use HLS: one per lease for each stream that a node pulls.
	lookups    float64
	redis      float64 // processors that Redis uses, excluding lookups
	ofOneOwner float64 // Gbit/s of one stream from its owner to other nodes
}

// renewals is the number of times that a lease is renewed during its duration.
const renewals = 3

// planFor returns the plan for a number of nodes to which viewers connect at random.
func (m *model) planFor(nodes int) plan {
	n, streams, viewers, gbit := float64(nodes), float64(m.streams), float64(m.viewers), m.mbit/1000
	p := plan{nodes: nodes}
	within := n
	if m.spread > 0 {
		within = min(n, float64(m.spread))
	}
	// watching is the expected number of nodes that have viewers of a stream.
	watching := within * (1 - math.Pow(1-1/within, viewers/streams))
	// The owner does not pull. Each node has the same probability of being the owner.
	pulled := watching * (1 - 1/n)
	p.pulls = streams * pulled
	p.between = p.pulls * gbit
	p.ofOneOwner = pulled * gbit
	p.in = (streams + p.pulls) * gbit / n
	p.out = (viewers + p.pulls) * gbit / n
	p.cpu = m.extra * ((streams+p.pulls)/n*m.costs.stream/1000 + p.out/8*m.costs.sent)
	lease := benchLease.Seconds()
	p.renewals = streams * renewals / lease
	p.heard = n * n * renewals / lease
	p.lookups = p.pulls / lease
	p.redis = (p.renewals*m.costs.renew + p.heard*m.costs.heard) / 1e6
	return p
}

const mostModelled = 4096

// plan returns the plan with the fewest nodes that can serve all viewers, and the resource with the
// highest utilization. The network speed of a node is nic, in Gbit/s.
func (m *model) plan(nic float64) (p plan, limit string, err error) {
	for n := 1; n <= mostModelled; n++ {
		p = m.planFor(n)
		shares := []struct {
			what  string
			share float64
		}{{"network, out", p.out / nic}, {"network, in", p.in / nic}, {"CPU", p.cpu / m.cores}}
		worst := shares[0]
		for _, s := range shares {
			if s.share > worst.share {
				worst = s
			}
		}
		if worst.share <= m.use {
			return p, worst.what, nil
		}
	}
	return plan{}, "", fmt.Errorf("%d nodes are not enough for %d viewers at %.0f Gbit/s",
		mostModelled, m.viewers, nic)
}

// nodesOfRedis returns the largest number of nodes that one Redis processor can serve with a
// utilization of m.use. It counts only lease renewals and heartbeats.
func (m *model) nodesOfRedis() float64 {
	renew := m.planFor(1).renewals * m.costs.renew / 1e6
	return math.Sqrt(max(0, m.use-renew) * 1e6 / m.costs.heard * benchLease.Seconds() / renewals)
}

func (b *bench) model(context.Context) error {
	m := options.model
	m.costs = b.costs
	t, err := m.table()
	if err != nil {
		return err
	}
	return b.Add(t)
}

func (m *model) table() (*measure.Table, error) {
	if m.viewers < 1 || m.streams < 1 || m.spread < 0 || m.mbit <= 0 || m.cores <= 0 ||
		m.use <= 0 || m.extra <= 0 {
		return nil, fmt.Errorf("the model's numbers must be above 0")
	}
	columns := []string{"of the model"}
	var plans []plan
	var limits []string
	for _, text := range strings.Split(m.nics, ",") {
		var nic float64
		if _, err := fmt.Sscan(text, &nic); err != nil || nic <= 0 {
			return nil, fmt.Errorf("-nic %q: want Gbit/s, more with commas", m.nics)
		}
		p, limit, err := m.plan(nic)
		if err != nil {
			return nil, err
		}
		columns = append(columns, fmt.Sprintf("%g Gbit/s a node", nic))
		plans, limits = append(plans, p), append(limits, limit)
	}
	t := measure.NewTable("cluster-model",
		fmt.Sprintf("On paper: %d viewers of %d streams of %g Mbit/s",
			m.viewers, m.streams, m.mbit), columns...)
	row := func(name string, f func(plan) any) {
		cells := []any{name}
		for _, p := range plans {
			cells = append(cells, f(p))
		}
		t.Row(cells...)
	}
	row("nodes", func(p plan) any { return p.nodes })
	limited := []any{"what limits a node"}
	for _, l := range limits {
		limited = append(limited, l)
	}
	t.Row(limited...)
	row("viewers a node", func(p plan) any {
		return math.Round(float64(m.viewers) / float64(p.nodes))
	})
	row("streams a node receives, its own and pulled", func(p plan) any {
		return math.Round((float64(m.streams) + p.pulls) / float64(p.nodes))
	})
	row("sent by a node, Gbit/s", func(p plan) any { return p.out })
	row("received by a node, Gbit/s", func(p plan) any { return p.in })
	row("processors that a node uses", func(p plan) any { return p.cpu })
	row("between all nodes, Gbit/s", func(p plan) any { return p.between })
	row("the same, of all that is sent, %", func(p plan) any {
		return 100 * p.between / (p.out * float64(p.nodes))
	})
	row("one owner sends one stream to nodes with, Gbit/s",
		func(p plan) any { return p.ofOneOwner })
	row("Redis: renewals a second", func(p plan) any { return p.renewals })
	row("Redis: heartbeats delivered a second", func(p plan) any { return math.Round(p.heard) })
	row("Redis: processors", func(p plan) any { return p.redis })
	row("if all watch HLS: lookups a second", func(p plan) any { return math.Round(p.lookups) })
	row("if all watch HLS: processors for these",
		func(p plan) any { return p.lookups * m.costs.lookup / 1e6 })
	row("nodes at which heartbeats alone fill one Redis",
		func(plan) any { return math.Round(m.nodesOfRedis()) })
	t.Note = fmt.Sprintf(
		"Assumed: all streams have as many viewers and the same bit rate; the balancer sends viewers "+
			"and publishers to any node with the same chance%s; viewers watch FLV without TLS and keep up. A node needs "+
			"%.2f CPU ms a second for each stream that it receives and %.2f CPU s/GB for what it sends, times %g, because "+
			"the measurement was on loopback; it has %g processors, and uses %.0f%% of them and of its network. Another "+
			"node costs an owner as much as a viewer. A lease of %v is renewed %d times in its time, at %.3g µs of Redis; "+
			"as often each node is heard by all others, at %.3g µs for each that hears it. A node that answers for HLS "+
			"looks up each stream once a lease, at %.3g µs.",
		map[bool]string{true: "", false: fmt.Sprintf(", and those of a stream to one of %d",
			m.spread)}[m.spread == 0],
		m.costs.stream, m.costs.sent, m.extra, m.cores, 100*m.use, benchLease, renewals,
		m.costs.renew, m.costs.heard, m.costs.lookup)
	return t, nil
}
