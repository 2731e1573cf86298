package load

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// loadOn runs a load against a relay in a synctest bubble, where a minute takes no time and nothing
// is late.
func loadOn(t *testing.T, s *relayServer, cfg Config) Report {
	t.Helper()
	cfg.URL, cfg.Dial = "http://127.0.0.1", s.dial
	rep, err := Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestRunCountsWhatIsDelivered(t *testing.T) {
	for _, hijack := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newRelay(t, 1000)
			s.hijack = hijack
			rep := loadOn(t, s, Config{Streams: 3, Viewers: 4, Duration: 20 * time.Second})

			if rep.Publishers.Connected != 3 || rep.Viewers.Connected != 12 ||
				rep.Viewers.Wanted != 12 {
				t.Errorf("connected: %+v %+v, want 3 publishers and 12 viewers", rep.Publishers,
					rep.Viewers)
			}
			if v := rep.Viewers; v.Lost != 0 || v.Jumps != 0 || v.Repeated != 0 ||
				len(v.Ended) != 0 {
				t.Errorf("a perfect relay shows losses: %+v", v)
			}
			if len(rep.Publishers.Ended) != 0 || rep.Interrupted || rep.Measured != 20*time.Second {
				t.Errorf("ended early: %+v", rep)
			}
			want := 12 * 20 * 2_150_000 / 8.0
			if got := float64(rep.Bytes); got < want*0.97 || got > want*1.03 {
				t.Errorf("delivered %.0f bytes, want about %.0f", got, want)
			}
			// Time does not advance while bytes move. Each tag therefore arrives alone, at the time
			// at which it was sent, and two tags are no further apart than audio frames.
			if g := rep.Viewers.Gap; g.Max > 24*time.Millisecond || g.P50 < 10*time.Millisecond ||
				g.Count == 0 {
				t.Errorf("the gap is %+v, want 10 to 24 ms", g)
			}
			if l := rep.Viewers.Latency; l.Max != 0 || l.Count == 0 {
				t.Errorf("the latency is %+v, want 0", l)
			}
		})
	}
}

func TestStalledViewersLoseAndOthersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rep := loadOn(t, newRelay(t, 100), Config{
			Streams: 1, Viewers: 10, Stalled: 2, StallFor: 10 * time.Second,
			Duration: 30 * time.Second,
		})
		if v := rep.Viewers; v.Wanted != 8 || v.Lost != 0 || v.Jumps != 0 {
			t.Errorf("viewers that read: %+v", v)
		}
		v := rep.Stalled
		if v.Wanted != 2 || v.Connected != 2 || v.Jumps < 2 || v.Lost < 2*73*5 {
			t.Errorf("viewers that stalled: %+v", v)
		}
		if v.Tags < 2*73*15 {
			t.Errorf("stalled viewers did not go on: %d tags", v.Tags)
		}
	})
}

func TestLoadsThatFail(t *testing.T) {
	refuse := func(s *relayServer) { s.refuse = true }
	const brief = time.Millisecond
	for name, test := range map[string]struct {
		prepare   func(*relayServer)
		cfg       Config
		says      string
		connected int // number of publishers
		most      time.Duration
	}{
		"the name is taken": {refuse, Config{Viewers: 2},
			"no publisher reached http://127.0.0.1: refused: 409 Conflict (another publisher", 0,
			2 * persistFor},
		"one of the names is taken": {func(s *relayServer) { s.taken = "load-1" },
			Config{Streams: 3, Viewers: 2},
			"1 of 3 publishers failed", 2, time.Minute},
		"the load is shorter than a publisher's patience": {refuse,
			Config{Viewers: 1, Ramp: brief, Settle: brief, Duration: persistFor / 2},
			"409 Conflict", 0, persistFor},
		"the publisher is thrown out": {func(s *relayServer) { s.evicts = true }, Config{},
			"refused: 403 Forbidden", 1, time.Second},
		"the stream has no publisher": {func(*relayServer) {}, Config{Viewers: 2, NoPublish: true},
			"no viewer got anything from http://127.0.0.1: they still wait", 0, time.Minute},
		"the server knows no such stream": {func(s *relayServer) { s.unknown = true },
			Config{Viewers: 2, NoPublish: true},
			"no viewer had an answer from http://127.0.0.1: refused: 404 Not Found (the stream has no", 0, time.Second},
		"the server is not there": {func(s *relayServer) { s.gone = true }, Config{Viewers: 2},
			"no publisher reached http://127.0.0.1: timeout", 0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newRelay(t, 1000)
			test.prepare(s)
			cfg := test.cfg
			cfg.URL, cfg.Dial, cfg.Streams = "http://127.0.0.1", s.dial, max(cfg.Streams, 1)
			began := time.Now()
			rep, err := Run(t.Context(), cfg, nil)
			if err == nil || !strings.Contains(err.Error(), test.says) ||
				rep.Publishers.Connected != test.connected {
				t.Errorf("%s: error %v, report %+v", name, err, rep.Publishers)
			}
			if took := time.Since(began); took > test.most {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// A name that becomes free a moment later is not an error.
func TestPublisherThatIsLetInLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRelay(t, 1000)
		s.refusals.Store(3)
		if rep := loadOn(t, s, Config{Streams: 1, Viewers: 2}); rep.Publishers.Connected != 1 ||
			rep.Viewers.Tags == 0 {
			t.Errorf("%+v, want one publisher, and tags for its viewers", rep)
		}
	})
}

// The server sees the regular end of each body, not a broken connection.
func TestPublishersEndTheirBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRelay(t, 1000)
		loadOn(t, s, Config{Streams: 3, Viewers: 1})
		synctest.Wait()
		if n := s.whole.Load(); n != 3 {
			t.Errorf("%d of 3 bodies had an end", n)
		}
	})
}

// If tags have no numbers, the report says that losses are unknown, not that there are none.
func TestUnnumberedViewersHaveNoLosses(t *testing.T) {
	for _, v := range []Viewers{{Tags: 7}, {Tags: 7, Numbered: true}} {
		text, err := json.Marshal(Report{Viewers: v})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Viewers map[string]any }
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"lost", "jumps", "repeated", "latency"} {
			if value, ok := got.Viewers[field]; !ok || (value != nil) != v.Numbered {
				t.Errorf("numbered %v: %s is %v", v.Numbered, field, value)
			}
		}
		if got.Viewers["tags"] != 7.0 {
			t.Errorf("%s, want 7 tags", text)
		}
	}
}

func TestInterruptedLoadReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := newRelay(t, 1000)
		var last Progress
		rep, err := Run(ctx, Config{Streams: 1, URL: "http://127.0.0.1", Dial: s.dial, Viewers: 2,
			Duration: time.Hour}, func(p Progress) {
			if last = p; p.Elapsed >= 10*time.Second {
				cancel()
			}
		})
		if err != nil || !rep.Interrupted || rep.Measured < 7*time.Second ||
			rep.Measured > 9*time.Second {
			t.Errorf("error %v, report %+v", err, rep)
		}
		if !last.Measuring || last.Publishers != 1 || last.Viewers != 2 || last.Tags == 0 ||
			last.Total != time.Hour+2*time.Second {
			t.Errorf("the progress is %+v, want the state after two seconds", last)
		}
		if _, err := json.Marshal(rep); err != nil {
			t.Error(err)
		}
	})
}

// A load with nothing left to measure ends, says so, and reports what it has measured.
func TestLoadThatHasNothingLeftEnds(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  Config
		end  func(*relayServer)
		says string
	}{
		"viewers are disconnected": {
			Config{Viewers: 3}, func(s *relayServer) { s.end() },
			"every viewer ended before the load did: closed by the server",
		},
		"all viewers stall": {
			Config{Viewers: 2, Stalled: 2, StallFor: time.Second}, func(s *relayServer) { s.end() },
			"every viewer ended before the load did",
		},
		"the server is gone": {Config{Viewers: 3}, func(s *relayServer) { s.server.Close() },
			"every publisher ended before the load did: "},
		"publishers are alone": {Config{}, func(s *relayServer) { s.server.Close() },
			"every publisher ended before the load did: "},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newRelay(t, 1000)
			s.hijack = true
			cfg := test.cfg
			cfg.URL, cfg.Dial, cfg.Streams, cfg.Duration = "http://127.0.0.1", s.dial, 2, time.Hour
			began := time.Now()
			rep, err := Run(t.Context(), cfg, func(p Progress) {
				if p.Elapsed >= 10*time.Second {
					test.end(s)
				}
			})
			if err == nil || !strings.Contains(err.Error(), test.says) || !rep.EndedEarly ||
				rep.Interrupted {
				t.Errorf("%s: error %v, report %+v", name, err, rep)
			}
			if took := time.Since(began); took > 15*time.Second || rep.Measured < 7*time.Second ||
				cfg.Viewers > 0 && rep.Bytes == 0 {
				t.Errorf("%s: took %v, report %+v", name, took, rep)
			}
		})
	}
}

func TestConfigRefusesWhatCannotBeMeant(t *testing.T) {
	const here = "http://127.0.0.1:8080"
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Streams: 1, URL: here}, ""},
		{Config{URL: here}, "0 streams"},
		{Config{Streams: 1, URL: "http://localhost"}, ""},
		{Config{Streams: 1, URL: "http://[::1]:80", Viewers: 3, NoPublish: true}, ""},
		{Config{Streams: 1, URL: "http://192.0.2.1:8080"}, "another machine"},
		{Config{Streams: 1, URL: "http://192.0.2.1:8080", AllowRemote: true}, ""},
		{Config{Streams: 1, URL: "http://example.com"}, "--remote"},
		{Config{Streams: 1, URL: "https://127.0.0.1"}, "want http://HOST:PORT"},
		{Config{URL: here, Streams: 2001}, "2001 streams"},
		{Config{URL: here, Streams: 1000, Viewers: 51}, "51 viewers"},
		{Config{Streams: 1, URL: here, NoPublish: true}, "neither"},
		{Config{Streams: 1, URL: here, Viewers: 2, Stalled: 3}, "3 stalled viewers out of 2"},
		{Config{Streams: 1, URL: here, BitRate: 1000}, "bit rate of 1000"},
		{Config{Streams: 1, URL: here, KeyInterval: time.Hour}, "keyframe interval"},
		{Config{Streams: 1, URL: here, Duration: 25 * time.Hour}, "25h0m0s"},
		{Config{Streams: 1, URL: here, Duration: -1}, "-1ns"},
		{Config{URL: here, Names: []string{"a//b"}}, `stream name "a//b"`},
		{Config{URL: here, Names: []string{"a", ".."}}, `stream name ".."`},
		{Config{URL: here, Names: []string{"a b"}}, `stream name "a b"`},
		{Config{URL: here, Names: []string{"A-Z/a_z/0.9"}}, ""},
		{Config{Streams: 1, URL: here, ServerPIDs: []int{1 << 30}}, "--server-pid 1073741824"},
	} {
		err := c.cfg.Check()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v, want it accepted", c.cfg, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%+v: error %v, want one with %q", c.cfg, err, c.want)
		}
	}
}
