package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/millrace-io/millrace/bench/measure"
)

// A placement says which node the viewers connect to. The publishers connect to node 0.
type placement struct {
	name    string
	nodes   int // number of nodes in the cluster; 0: a single server
	viewers int // index of the viewers' node; -1: no viewers
}

var placements = []placement{
	{"a server alone", 0, 0},
	{"the node of the publishers", 2, 0},
	{"another node", 2, 1},
	{"nowhere", 2, -1},
}

// Indexes of the probes in costRound.
const (
	atOwner = iota
	atEdge
	atRedis
)

// costRound starts separate servers for each placement, and runs the same load test on all of them
// at the same time. Result i belongs to placements[i].
func (b *bench) costRound(ctx context.Context, c testCase) ([]*result, error) {
	var loads []func() (*result, error)
	for _, p := range placements {
		start := func() (*site, error) {
			if p.nodes == 0 {
				return b.alone(ctx)
			}
			return b.nodes(ctx, p.nodes, false)
		}
		s, err := start()
		if err != nil {
			return nil, err
		}
		defer s.close()
		c, watched := c, s.nodes[max(p.viewers, 0)]
		if p.viewers < 0 {
			c.viewers = 0
		} else if err := checkDelivery(ctx, s.nodes[0], watched); err != nil {
			return nil, err
		}
		target := newSpread(c.names(), s.nodes[:1], []*node{watched})
		probes := []probe{cpuOf(s.nodes[0].Server), cpuOf(s.nodes[len(s.nodes)-1].Server),
			cpuOf(s.redis)}
		loads = append(loads, func() (*result,
			error) {
			return turn(ctx, c, target, options.seconds, probes...)
		})
	}
	return together(loads)
}

func together(loads []func() (*result, error)) ([]*result, error) {
	results, errs := make([]*result, len(loads)), make([]error, len(loads))
	var running sync.WaitGroup
	for i, load := range loads {
		running.Go(func() { results[i], errs[i] = load() })
	}
	running.Wait()
	return results, errors.Join(errs...)
}

// rounds calls f once per round. In the returned slice, element [i][k] is result i of round k.
func (b *bench) rounds(ctx context.Context, c testCase,
	f func(context.Context, testCase) ([]*result, error)) (
	[][]*result, error,
) {
	var all [][]*result
	for round := range b.Rounds {
		results, err := f(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c, err)
		}
		if all == nil {
			all = make([][]*result, len(results))
		}
		for i, r := range results {
			all[i] = append(all[i], r)
			b.Logf("cluster: round %d, %s, load %d: %.2f GB, lost %v, ended %v, CPU s %.2f",
				round+1, c, i+1,
				r.bytes/1e9, r.lost(), r.ended(), r.grown)
		}
	}
	return all, nil
}

func (b *bench) cost(ctx context.Context) error {
	cases, err := parseCases(options.cases)
	if err != nil {
		return err
	}
	var edges []edgeLoad
	for _, c := range cases {
		results, err := b.rounds(ctx, c, b.costRound)
		if err != nil {
			return err
		}
		if err := b.Add(costTable(c, results)); err != nil {
			return err
		}
		edges = append(edges, newEdgeLoad(c, results[2]))
	}
	b.costs.learn(edges)
	return nil
}

// cpuPerStream returns the CPU time per stream that a probe has measured, in ms per second.
func cpuPerStream(c testCase, results []*result, probe int) measure.Series {
	return series(results,
		func(r *result) float64 {
			return r.grown[probe] * 1000 / r.seconds / float64(c.streams)
		})
}

func costTable(c testCase, results [][]*result) *measure.Table {
	t := measure.NewTable("cluster-cost-"+c.String(), fmt.Sprintf(
		"A cluster's nodes, streams x viewers of each: %s, %.2f Mbit/s a stream, %d s a turn", c,
		bitRate/1e6, options.seconds),
		"viewers at", "CPU s/GB of that server", "x a server alone", "CPU s/GB of the owner",
		"CPU s/GB of Redis",
		"CPU ms a stream and second of the owner", "latency p50 ms", "latency p99 ms", "tags lost",
		"ended early")
	t.Bar = 1
	t.Note = "A gigabyte is 10⁹ bytes of payload delivered to viewers. All rows are measured at the same time, on " +
		"servers of their own, and x is the ratio within a round. The owner is the node that has the publishers: " +
		"without viewers anywhere it costs what the last row says, and what it costs more while the viewers are at " +
		"another node is what that node costs it. Nodes flush at moments of their own, which the latency of one start " +
		"depends on."
	cpu := func(i, probe int) measure.Series {
		return series(results[i], func(r *result) float64 { return r.perGB(probe) })
	}
	for i, p := range placements {
		if p.viewers < 0 {
			t.Row(p.name, "-", "-", "-", "-", cpuPerStream(c, results[i], atOwner), "-", "-", "-",
				"-")
			continue
		}
		server, owner := cpu(i, p.viewers), any("-")
		if p.viewers != atOwner {
			owner = cpu(i, atOwner)
		}
		t.Row(p.name, server, server.Over(cpu(0, 0)), owner, cpu(i, atRedis),
			cpuPerStream(c, results[i], atOwner),
			series(results[i], func(r *result) float64 {
				return milliseconds(r.Viewers.Latency.P50)
			}),
			series(results[i], func(r *result) float64 {
				return milliseconds(r.Viewers.Latency.P99)
			}),
			series(results[i], (*result).lost).Max(), series(results[i], (*result).ended).Max())
	}
	return t
}

const mostNodes = 3

// capacity runs the same load test at the same time on clusters of 1, 2, ..., mostNodes nodes.
func (b *bench) capacity(ctx context.Context) error {
	cases, err := parseCases(options.capacity)
	if err != nil {
		return err
	}
	for _, c := range cases {
		results, err := b.rounds(ctx, c, func(ctx context.Context, c testCase) ([]*result, error) {
			var loads []func() (*result, error)
			for n := range mostNodes {
				s, err := b.nodes(ctx, n+1, false)
				if err != nil {
					return nil, err
				}
				defer s.close()
				probes := []probe{cpuOf(s.redis)}
				for _, n := range s.nodes {
					probes = append(probes, cpuOf(n.Server))
				}
				target := newSpread(c.names(), s.nodes, s.nodes)
				loads = append(loads, func() (*result,
					error) {
					return turn(ctx, c, target, options.seconds, probes...)
				})
			}
			return together(loads)
		})
		if err != nil {
			return err
		}
		if err := b.Add(capacityTable(c, results)); err != nil {
			return err
		}
	}
	return nil
}

func capacityTable(c testCase, results [][]*result) *measure.Table {
	t := measure.NewTable("cluster-capacity-"+c.String(), fmt.Sprintf(
		"The same load on one to three nodes, streams x viewers of each: %s, %.2f Mbit/s a stream, %d s a turn", c, bitRate/1e6,
		options.seconds),
		"nodes", "viewers a CPU second", "x one node", "CPU s/GB of all nodes", "CPU s/GB of Redis",
		"busiest node x mean",
		"tags lost", "ended early")
	t.Bar = 1
	t.Note = "All rows are measured at the same time, on nodes of their own. The streams are published at the nodes " +
		"in turn, and the viewers of each stream watch at the nodes in turn: with n nodes each stream is pulled by n-1. " +
		"Viewers a CPU second: how many viewers the CPU time of all nodes serves that one processor has."
	nodesOf := func(r *result) (sum, most float64) {
		for _, v := range r.grown[1:] {
			sum += v
			most = max(most, v)
		}
		return sum, most
	}
	perSecond := func(r *result) float64 {
		sum, _ := nodesOf(r)
		return float64(c.streams*c.viewers) * r.seconds / sum
	}
	base := series(results[0], perSecond)
	for i, of := range results {
		s := series(of, perSecond)
		t.Row(strconv.Itoa(i+1), s, s.Over(base),
			series(of, func(r *result) float64 {
				sum, _ := nodesOf(r)
				return sum / (r.bytes / 1e9)
			}),
			series(of, func(r *result) float64 { return r.perGB(0) }),
			series(of, func(r *result) float64 {
				sum, most := nodesOf(r)
				return most / sum * float64(len(r.grown)-1)
			}),
			series(of, (*result).lost).Max(), series(of, (*result).ended).Max())
	}
	return t
}

// copies measures how often each byte of a stream is sent between nodes.
func (b *bench) copies(ctx context.Context) error {
	t := measure.NewTable("cluster-copies",
		fmt.Sprintf("Bytes between nodes, a stream of %.2f Mbit/s", bitRate/1e6),
		"edges", "viewers at each", "x the stream's bytes, an edge")
	t.Note = "An edge is a node that has viewers and not the publisher. A proxy counts what the owner sends, the " +
		"framing of HTTP and FLV included; the stream's bytes are what one viewer gets, payloads alone."
	for _, edges := range []int{1, 2} {
		for _, viewers := range []int{1, 100} {
			var ratio measure.Series
			for range b.Rounds {
				r, err := b.count(ctx, edges, viewers)
				if err != nil {
					return err
				}
				// r.bytes counts the stream's bytes once for each viewer at each edge.
				ratio = append(ratio, r.grown[0]*float64(viewers)/r.bytes)
			}
			b.Logf("cluster: %d edges with %d viewers: %v copies", edges, viewers, ratio)
			t.Row(strconv.Itoa(edges), viewers, ratio)
		}
	}
	return b.Add(t)
}

// count measures how many bytes the owner of a stream sends to the edges. Each edge has the given
// number of viewers.
func (b *bench) count(ctx context.Context, edges, viewers int) (*result, error) {
	s, err := b.nodes(ctx, 1+edges, true)
	if err != nil {
		return nil, err
	}
	defer s.close()
	c := testCase{1, edges * viewers}
	return turn(ctx, c, newSpread(c.names(), s.nodes[:1], s.nodes[1:]), options.seconds,
		func() (float64, error) {
			return float64(s.nodes[0].bytes.Load()), nil
		})
}
