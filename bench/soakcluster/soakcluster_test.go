package soakcluster

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/fmp4"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/need"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A small run passes, with a node that is killed and one that is upgraded.
func TestRun(t *testing.T) {
	need.Program(t, "redis-server")
	need.Program(t, "nginx")
	if _, err := measure.NginxModule("stream"); err != nil {
		need.Missing(t, err.Error())
	}
	cfg := Defaults()
	cfg.For, cfg.Streams, cfg.Viewers = rest+17*time.Second, 11, 1
	cfg.Kill, cfg.Upgrade, cfg.Failover, cfg.Keep = 6*time.Second, 11*time.Second, 0, t.TempDir()
	rep, err := Run(t.Context(), cfg, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", rep)
	for _, f := range rep.Faults {
		t.Error(f)
	}
	for _, what := range rep.Missing {
		t.Errorf("there was no connection of %s", what)
	}
	if f := rep.Done["failures"]; f["kills"] == 0 || f["upgrades"] == 0 {
		t.Errorf("failures: %v, want kills and upgrades", f)
	}
}

func testRun() *run {
	cfg := Defaults()
	return &run{cfg: cfg, began: time.Now(), faults: faults{any: make(chan struct{})}}
}

// A follower accepts one session after the other, and detects gaps, wrong bytes and a wrong order.
func TestFollower(t *testing.T) {
	type step struct {
		session int
		tags    []int // numbers; 0 begins another connection
	}
	for name, test := range map[string]struct {
		steps []step
		lost  []uint64
		err   error
		wrong bool
	}{
		"one session":             {steps: []step{{0, []int{1, 2, 3}}}},
		"from the middle":         {steps: []step{{0, []int{5, 6}}}},
		"two sessions":            {steps: []step{{0, []int{1, 2}}, {1, []int{1, 2}}}},
		"a gap":                   {steps: []step{{0, []int{1, 4, 5, 9}}}, lost: []uint64{2, 3}},
		"a gap between sessions":  {steps: []step{{0, []int{1, 2}}, {1, []int{7, 8}}}},
		"back":                    {steps: []step{{0, []int{1, 2, 2}}}, err: errOrder},
		"back to an old session":  {steps: []step{{1, []int{1}}, {0, []int{2}}}, err: errOrder},
		"wrong bytes":             {steps: []step{{0, []int{1, -2}}}, wrong: true},
		"a new session goes back": {steps: []step{{0, []int{8, 9}}, {1, []int{3, 4}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStream(testRun(), 3)
			began := time.Now().Add(-time.Hour)
			for i := range 2 {
				s.sessions = append(s.sessions,
					session{began: began.Add(time.Duration(i) * time.Minute), node: i})
			}
			f := newFollower(s, "FLV", 2)
			var err error
			for _, step := range test.steps {
				sent := s.sessions[step.session].began.Add(time.Second)
				synth := s.synth()
				all := make([]load.Tag, 10)
				for i := range all {
					all[i] = synth.Next(sent)
					all[i].Payload = append([]byte(nil), all[i].Payload...)
				}
				for _, number := range step.tags {
					tag := all[max(number, -number)-1]
					if number < 0 {
						tag.Payload[len(tag.Payload)-1]++
					}
					if err == nil {
						err = f.tag(tag.Kind, tag.Payload)
					}
				}
			}
			if test.wrong {
				if err == nil || errors.Is(err, errOrder) {
					t.Errorf("error %v, want wrong bytes", err)
				}
			} else if !errors.Is(err, test.err) {
				t.Errorf("error %v, want %v", err, test.err)
			}
			var lost []uint64
			for _, g := range s.gaps {
				lost = append(lost, g.lost)
				if g.from != 0 || g.to != 2 {
					t.Errorf("a gap from node %d to %d, want 0 to 2", g.from, g.to)
				}
			}
			if len(lost) != len(test.lost) || len(lost) > 0 && lost[0] != test.lost[0] {
				t.Errorf("lost %v, want %v", lost, test.lost)
			}
		})
	}
}

// A gap is a fault, unless one of its nodes has failed or a node has counted it.
func TestJudgeGaps(t *testing.T) {
	at := time.Now()
	old, soon := at.Add(-time.Hour), at.Add(2*time.Second)
	for name, test := range map[string]struct {
		event event
		gap   gap
		fault bool
	}{
		"nothing happened":      {gap: gap{from: 0, to: 1}, fault: true},
		"the publisher's node":  {event: event{at, 0, "killed"}, gap: gap{from: 0, to: 1}},
		"the viewer's node":     {event: event{at, 1, "upgrade"}, gap: gap{from: 0, to: 1}},
		"the third node":        {event: event{at, 2, "killed"}, gap: gap{from: 0, to: 1}, fault: true},
		"a node behind nginx":   {event: event{at, 2, "killed"}, gap: gap{from: 0, to: -1}},
		"Redis":                 {event: event{at, redisNode, "fails"}, gap: gap{to: -1}, fault: true},
		"long ago":              {event: event{old, 0, "killed"}, gap: gap{from: 0, to: 1}, fault: true},
		"counted by some node":  {event: event{at, 2, "lost"}, gap: gap{from: 0, to: 1}},
		"counted too long ago":  {event: event{old, 2, "lost"}, gap: gap{from: 0, to: 1}, fault: true},
		"counted a moment late": {event: event{soon, 2, "lost"}, gap: gap{from: 0, to: 1}},
	} {
		r := testRun()
		s := newStream(r, 0)
		test.gap.since, test.gap.at, test.gap.lost = at, at, 1
		s.gaps, r.streams = []gap{test.gap}, []*stream{s}
		if test.event.what != "" {
			r.events.list = []event{test.event}
		}
		if r.judgeGaps(); (len(r.faults.texts) > 0) != test.fault {
			t.Errorf("%s: faults %q, want one: %v", name, r.faults.texts, test.fault)
		}
	}
}

// Config.check names the limit.
func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"10s to a week":      func(c *Config) { c.For = time.Second },
		"1 to 1000":          func(c *Config) { c.Streams = 0 },
		"1 to 100":           func(c *Config) { c.Viewers = 101 },
		"160000 to 20000000": func(c *Config) { c.Rate = 1 },
		"at least 64 MiB":    func(c *Config) { c.Memory = 1 << 20 },
	} {
		cfg := Defaults()
		change(&cfg)
		if _, err := Run(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// The parser of MP4 refuses a file that was cut off.
func TestCutFile(t *testing.T) {
	var file fmp4.Reader
	box := []byte("\x00\x00\x00\x10free12345678")
	if err := file.Bytes(box, nil); err != nil {
		t.Error(err)
	}
	for n := 1; n < len(box); n++ {
		if err := file.Bytes(box[:n], nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
