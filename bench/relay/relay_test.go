package relay

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

func TestParseCase(t *testing.T) {
	if c, err := ParseCase("50x4"); err != nil || c.Streams != 50 || c.Viewers != 4 || c.String() != "50x4" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, s := range []string{"", "50", "x", "1x", "x1", "0x1", "1x0", "-1x1", "ax1", "1x1x1"} {
		if c, err := ParseCase(s); err == nil {
			t.Errorf("%q is %+v", s, c)
		}
	}
}

func TestParseContenders(t *testing.T) {
	all, err := ParseContenders("nginx, node,plain-share,millrace,millrace@0,bare,bare-loop-nagle,bare@20ms", Builder{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name())
	}
	want := "nginx-rtmp; node-media-server; Go, shared slices, hijack, net.Buffers; millrace, 50ms;" +
		" millrace, 0s; bare, a goroutine a viewer; bare, one loop, Nagle on; bare, a goroutine a viewer, 20ms"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, s := range []string{"", "apache", "nginx@1s", "node@1s", "plain-x", "bare-x", "millrace@soon"} {
		if _, err := ParseContenders(s, Builder{}, nil); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

// TestContendersRelay puts a small load on each that can run here.
func TestContendersRelay(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs servers")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to build with")
	}
	all, err := ParseContenders("nginx,node,plain,plain-share,millrace,bare,bare-loop,bare@20ms", Builder{Dir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Run(c.Name(), func(t *testing.T) {
			if err := c.Prepare(t.Context()); err != nil {
				t.Skip(err)
			}
			tryContender(t, c)
		})
	}
}

func tryContender(t *testing.T, c Contender) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	kase := Case{Streams: 2, Viewers: 3}
	s, err := c.Start(ctx, t.TempDir(), kase)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	p := Plan{Case: kase, Seconds: 3, BitRate: 2_150_000}
	rep, err := load.Run(ctx, p.config(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(6 * 3 * p.BitRate / 8)
	if v := rep.Viewers; v.Connected != 6 || len(v.Ended) != 0 || rep.Bytes < want/2 || rep.Bytes > want*2 {
		t.Errorf("%d bytes, want about %d; %+v", rep.Bytes, want, v)
	}
}

// TestCountCalls counts those of a program that makes about one a tag.
func TestCountCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs a server")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to build with")
	}
	bare := Bare{Builder: Builder{Dir: t.TempDir()}}
	p := Plan{Case: Case{Streams: 2, Viewers: 3}, Seconds: 2, BitRate: 2_150_000, Log: t.Logf}
	p.Contenders = []Contender{bare}
	calls, err := p.CountCalls(t.Context())
	if errors.Is(err, ErrNotCounted) {
		t.Skip(err)
	}
	const tagsPerMB = 73 * 8e6 / 2.15e6
	if n := calls[bare.Name()]; err != nil || n < tagsPerMB || n > 10*tagsPerMB {
		t.Errorf("%.0f system calls a MB, %v", n, err)
	}
}

// TestTable has a contender that needs twice our CPU time in one round, and four times as much in the other.
func TestTable(t *testing.T) {
	us, other := Millrace{Latency: defaultLatency}, Plain{}
	p := Plan{Contenders: []Contender{other, Millrace{}, us}, Rounds: 2}
	var turns []Turn
	for round, cpu := range []float64{2, 8} {
		for _, c := range p.Contenders {
			report := load.Report{Server: &load.Usage{CPUPerGB: cpu}}
			if c.Name() == us.Name() {
				report.Server.CPUPerGB = float64(round + 1)
			}
			turns = append(turns, Turn{Contender: c.Name(), Round: round, Report: report})
		}
	}
	var b strings.Builder
	p.WriteTable(&b, turns, map[string]float64{other.Name(): 321})
	for _, want := range []string{"| CPU, x millrace, 50ms | system calls a MB |", "| 3 (2 to 4)            | 321               |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &b)
		}
	}
	p.Contenders = p.Contenders[:1]
	b.Reset()
	if p.WriteTable(&b, turns, nil); strings.Contains(b.String(), "CPU, x") || strings.Contains(b.String(), "calls") {
		t.Errorf("columns of nobody:\n%s", &b)
	}
}
