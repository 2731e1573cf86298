package cluster

import (
	"flag"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
	"github.com/millrace-io/millrace/internal/load"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestCases(t *testing.T) {
	all, err := parseCases("1x200, 50x4")
	if err != nil || !slices.Equal(all, []testCase{{1, 200}, {50, 4}}) ||
		all[1].String() != "50x4" {
		t.Errorf("parseCases: %v, %v", all, err)
	}
	for _, s := range []string{"", "50", "x", "1x", "x1", "0x1", "1x0", "1x1,", "1x1x1"} {
		if all, err := parseCases(s); err == nil {
			t.Errorf("%q is accepted as %v", s, all)
		}
	}
}

// defaults returns the model with the defaults of the command line.
func defaults(t *testing.T, args ...string) *model {
	t.Helper()
	m := new(model)
	f := flag.NewFlagSet("", flag.ContinueOnError)
	m.flags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return m
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

// The cost of a stream and of a byte is learned from the load of an edge with two different loads.
func TestCostsAreLearnt(t *testing.T) {
	want := costs{stream: 0.7, sent: 0.5}
	under := func(streams, gb float64) edgeLoad {
		return edgeLoad{streams, gb, streams*want.stream/1000 + gb*want.sent}
	}
	var c costs
	c.learn([]edgeLoad{under(1, 0.05), under(50, 0.06)})
	if !near(c.stream, want.stream) || !near(c.sent, want.sent) {
		t.Errorf("%+v, want %+v", c, want)
	}
	before := c
	for _, useless := range [][]edgeLoad{{under(1, 0.05)}, {under(1, 1), under(2, 2)},
		{{1, 0.05, 1}, {50, 0.05, 0.1}}} {
		if c.learn(useless); c != before {
			t.Errorf("%v changed what was learnt to %+v", useless, c)
		}
	}
}

func TestModel(t *testing.T) {
	m := defaults(t, "-viewers", "1000", "-streams", "10", "-mbit", "1", "-extra", "1")
	m.costs = costs{stream: 1, sent: 0.8, renew: 10, heard: 2, lookup: 5}
	if p := m.planFor(1); p.pulls != 0 || p.between != 0 || !near(p.in, 0.01) || !near(p.out, 1) ||
		!near(p.cpu, 10*0.001+0.125*0.8) || !near(p.renewals, 6) || !near(p.heard, 0.6) ||
		p.lookups != 0 {
		t.Errorf("one node: %+v", p)
	}
	// With so many viewers, each node has some.
	if p := m.planFor(2); !near(p.pulls, 10) || !near(p.between, 0.01) ||
		!near(p.out, (1+0.01)/2) || !near(p.ofOneOwner, 0.001) || !near(p.heard, 2.4) ||
		!near(p.lookups, 2) {
		t.Errorf("two nodes: %+v", p)
	}
	m.spread = 1 // one node, which happens to be the owner
	if p := m.planFor(4); !near(p.pulls, 10*3./4) {
		t.Errorf("all viewers of a stream at one of four nodes: %+v", p)
	}
	m.spread, m.viewers = 0, 10 // one viewer per stream
	if p := m.planFor(4); !near(p.pulls, 10*3./4) {
		t.Errorf("one viewer at one of four nodes: %+v", p)
	}
}

func TestPlans(t *testing.T) {
	m := defaults(t)
	for nic, want := range map[float64]string{10: "network, out", 1000: "CPU"} {
		p, limit, err := m.plan(nic)
		if err != nil || limit != want && limit != "CPU" {
			t.Errorf("%v Gbit/s: limited by %s, %v", nic, limit, err)
		}
		if p.out > m.use*nic || p.cpu > m.use*m.cores {
			t.Errorf("%v Gbit/s: %+v is too much for a node", nic, p)
		}
		if less := m.planFor(p.nodes - 1); less.out <= m.use*nic && less.in <= m.use*nic &&
			less.cpu <= m.use*m.cores {
			t.Errorf("%v Gbit/s: %d nodes would do as well as %d", nic, less.nodes, p.nodes)
		}
	}
	if _, _, err := m.plan(0.001); err == nil {
		t.Error("a million viewers on 4,096 slow modems")
	}
	for _, bad := range [][]string{{"-nic", "x"}, {"-nic", "0"}, {"-viewers", "0"}, {"-use", "0"},
		{"-mbit", "-1"}} {
		if _, err := defaults(t, bad...).table(); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// A counter forwards data in both directions, and counts the bytes of one direction.
func TestCounter(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		question := make([]byte, 3)
		io.ReadFull(conn, question)
		conn.Write(append(question, " is heard"...))
	}()
	c, err := countBytes(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	conn, err := net.Dial("tcp", c.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "abc")
	const want = "abc is heard"
	if got, err := io.ReadAll(conn); string(got) != want || err != nil ||
		c.bytes.Load() != int64(len(want)) {
		t.Errorf("%q, %v, counted %d, want the bytes that were sent", got, err, c.bytes.Load())
	}
}

// Streams and viewers are distributed over the nodes in turn.
func TestSpread(t *testing.T) {
	nodes := []*node{{addr: "a"}, {addr: "b"}, {addr: "c"}}
	s := newSpread([]string{"x", "y"}, nodes, nodes[1:])
	if s.streams["x"].in != 0 || s.streams["y"].in != 1 || len(s.in) != 3 || len(s.out) != 2 {
		t.Errorf("%+v, want x at the first node and y at the second", s)
	}
}

// TestProgram runs every part briefly.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	_, err := measure.Find("redis-server", "redis-server")
	benchtest.Need(t, err)
	var out strings.Builder
	args := []string{"-rounds", "1", "-seconds", "2", "-case", "1x4,3x2", "-capacity", "3x3",
		"-trials", "2",
		"-outage", "6s"}
	if err := Program.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1x4,", "3x2,", "Bytes between nodes", "The age of frames",
		"The same load",
		"kill -9 of the owner", "killed, started again empty", "What Redis uses",
		"On paper: 1000000 viewers"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
}

// A viewer detects a wrong byte, because the synthetic stream can be verified.
func TestEncodersBeginAnew(t *testing.T) {
	one, other := load.NewSynth(0, bitRate, keyInterval), load.NewSynth(0, bitRate, keyInterval)
	for range 3 {
		one.Next(time.Now())
	}
	tag := one.Next(time.Now())
	if seq, _, err := other.Verify(tag.Kind, tag.Payload); seq != 4 || err != nil {
		t.Errorf("tag %d, %v, want 4", seq, err)
	}
	tag.Payload[len(tag.Payload)-1]++
	if _, _, err := other.Verify(tag.Kind, tag.Payload); err == nil {
		t.Error("another byte is not seen")
	}
}
