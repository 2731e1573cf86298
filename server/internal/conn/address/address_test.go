package address

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
)

func TestKey(t *testing.T) {
	for of, want := range map[string]string{
		"192.0.2.1":               "192.0.2.1",
		"::ffff:192.0.2.1":        "192.0.2.1",
		"2001:db8:1:2:3:4:5:6":    "2001:db8:1:2::",
		"2001:db8:1:2::":          "2001:db8:1:2::",
		"fe80::1%eth0":            "fe80::",
		"2001:db8:1:3:ffff::ffff": "2001:db8:1:3::",
	} {
		if got := Key(netip.MustParseAddr(of)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts as %v, want %s", of, got, want)
		}
	}
}

// Without limits, and for this machine, there are no accounts. A nil account can be used like any
// other.
func TestNoLimits(t *testing.T) {
	for of, l := range map[string]Limits{"192.0.2.1": {}, "127.0.0.2": {1, 1, 1}, "::1": {1, 1, 1},
		"::ffff:127.0.0.1": {1, 1, 1}} {
		table := New(l)
		for range 3 {
			a, err := table.Acquire(netip.MustParseAddr(of))
			if a != nil || err != nil {
				t.Fatalf("%s: %v, %v, want no account and no error", of, a, err)
			}
			a.Add(1 << 40)
			a.Pace(t.Context(), 1<<40)
			if err := errors.Join(a.Viewer(), a.Check()); err != nil {
				t.Error(err)
			}
		}
		if a, err := table.Acquire(netip.Addr{}); a != nil || err != nil {
			t.Errorf("no address: %v, %v", a, err)
		}
		if st := table.Stats(); st != (Stats{}) {
			t.Errorf("%+v, want nothing counted", st)
		}
	}
}

// refuses reports an error unless err names the flag.
func refuses(t *testing.T, err error, flag string) {
	t.Helper()
	if r := refuse.Of(err); r == nil || r.RetryAfter <= 0 || !strings.Contains(r.Reason, flag) {
		t.Errorf("%v, want a refusal that names %s", err, flag)
	}
}

func TestConnections(t *testing.T) {
	table := New(Limits{Connections: 2})
	one, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::ffff:2")
	a, err1 := table.Acquire(one)
	b, err2 := table.Acquire(other)
	if a == nil || a != b || err1 != nil || err2 != nil {
		t.Fatal("one network has two accounts", err1, err2)
	}
	_, err := table.Acquire(one)
	refuses(t, err, "--max-address-connections")
	elsewhere, err := table.Acquire(netip.MustParseAddr("2001:db8:0:1::1"))
	if err != nil || elsewhere == a {
		t.Error("another network has the same account", err)
	}
	a.Release()
	if _, err := table.Acquire(one); err != nil {
		t.Error("a place that was released is not free:", err)
	}
	table.SetLimits(Limits{Connections: 3})
	if _, err := table.Acquire(one); err != nil {
		t.Error("the limit is not higher:", err)
	}
	table.SetLimits(Limits{Connections: 1})
	_, err = table.Acquire(one)
	refuses(t, err, "--max-address-connections")
	for range 3 {
		a.Release()
	}
	elsewhere.Release()
	if st := table.Stats(); st != (Stats{}) {
		t.Errorf("accounts are left of addresses that have used nothing: %+v", st)
	}
}

func TestViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		addr := netip.MustParseAddr("192.0.2.1")
		table := New(Limits{Viewers: 2})
		come := func() int {
			a, _ := table.Acquire(addr)
			defer a.Release()
			n := 0
			for a.Viewer() == nil {
				n++
			}
			refuses(t, a.Viewer(), "--max-address-viewers")
			return n
		}
		const atOnce = 2 * int(burst/time.Second)
		if n := come(); n != atOnce {
			t.Errorf("%d come at once, want %d", n, atOnce)
		}
		if st := table.Stats(); st.Idle != 1 {
			t.Errorf("the address is forgotten: %+v", st)
		}
		time.Sleep(3 * time.Second)
		if n := come(); n != 6 {
			t.Errorf("%d come after three seconds, want 6", n)
		}
		time.Sleep(time.Hour)
		if n := come(); n != atOnce {
			t.Errorf("%d come after an hour, want %d", n, atOnce)
		}
	})
}

func TestBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1000
		table := New(Limits{Bytes: rate})
		a, _ := table.Acquire(netip.MustParseAddr("192.0.2.1"))
		defer a.Release()
		for range 10 {
			if err := a.Check(); err != nil {
				t.Fatal(err)
			}
			a.Add(rate)
		}
		a.Add(1)
		refuses(t, a.Check(), "--max-address-bytes")
		refuses(t, a.Viewer(), "--max-address-bytes")
		time.Sleep(time.Millisecond)
		if err := a.Viewer(); err != nil {
			t.Error(err)
		}
		a.Add(1 << 60) // no address is refused for longer than maxExcess - refuseAfter
		time.Sleep(maxExcess - refuseAfter)
		if err := a.Check(); err != nil {
			t.Error(err)
		}
	})
}

// Downloads of an address share its rate, each makes progress, and they do not block its requests.
func TestDownloadsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, step, downloads, steps = 1000, 500, 10, 20
		table := New(Limits{Bytes: rate})
		began := time.Now()
		var all sync.WaitGroup
		for range downloads {
			all.Go(func() {
				a, _ := table.Acquire(netip.MustParseAddr("192.0.2.1"))
				defer a.Release()
				for range steps {
					a.Pace(t.Context(), step)
					if err := a.Check(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		want := time.Duration(downloads*steps*step/rate)*time.Second - burst
		if took := time.Since(began); took < want-time.Second || took > want+time.Second {
			t.Errorf("it took %v, want %v", took, want)
		}
	})
}

func TestEndedDownloadDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(Limits{Bytes: 1000})
		a, _ := table.Acquire(netip.MustParseAddr("192.0.2.1"))
		defer a.Release()
		a.Add(1 << 40)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { a.Pace(ctx, 1) })
		}
		synctest.Wait()
		began := time.Now()
		cancel()
		all.Wait()
		if time.Since(began) != 0 {
			t.Error("it waited")
		}
	})
}

// The table has a limited size.
func TestIdleAddressesAreBounded(t *testing.T) {
	table := New(Limits{Viewers: 1})
	at := func(i int) netip.Addr {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(i)|10<<24)
		return netip.AddrFrom4(b)
	}
	held, _ := table.Acquire(at(0))
	_ = held.Viewer()
	for i := range maxIdle + 10 {
		a, _ := table.Acquire(at(i + 1))
		if err := a.Viewer(); err != nil {
			t.Fatal(err)
		}
		a.Release()
	}
	if st := table.Stats(); st.Idle > maxIdle || st.Held != 1 {
		t.Errorf("%+v, want one held address and the idle ones limited", st)
	}
	if a, _ := table.Acquire(at(0)); a != held {
		t.Error("an address that has a connection is forgotten")
	}
}

// A model is a simple Account that has lists of events.
type model struct {
	held  int
	ahead map[string]time.Duration // used part of the rate, for viewers and bytes
	at    time.Time
}

func (m *model) advance() {
	passed := time.Since(m.at)
	m.at = time.Now()
	for what := range m.ahead {
		m.ahead[what] = max(0, m.ahead[what]-passed)
	}
}

// Random operations have the results of the model.
func TestAgainstAModel(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			l := Limits{Connections: 1 + r.IntN(4), Viewers: 1 + r.IntN(4),
				Bytes: 1000 * (1 + r.Int64N(4))}
			table := New(l)
			models := make(map[netip.Addr]*model)
			accounts := make(map[netip.Addr][]*Account)
			for range 2000 {
				key := netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(3))})
				m := models[key]
				if m == nil {
					m = &model{ahead: make(map[string]time.Duration), at: time.Now()}
					models[key] = m
				}
				m.advance()
				list := accounts[key]
				switch op := r.IntN(6); {
				case op == 0:
					a, err := table.Acquire(key)
					if ok := m.held < l.Connections; ok != (err == nil) {
						t.Fatalf("seed %d: %d connections of %d: %v", seed, m.held, l.Connections,
							err)
					}
					if err == nil {
						m.held++
						accounts[key] = append(list, a)
					}
				case op == 1 && len(list) > 0:
					list[0].Release()
					m.held--
					accounts[key] = list[1:]
				case op == 2 && len(list) > 0:
					wait := time.Second / time.Duration(l.Viewers)
					ok := m.ahead["bytes"] <= refuseAfter && m.ahead["viewers"]+wait <= burst
					if err := list[0].Viewer(); ok != (err == nil) {
						t.Fatalf("seed %d: viewers are %v ahead, bytes %v: %v", seed,
							m.ahead["viewers"], m.ahead["bytes"], err)
					} else if ok {
						m.ahead["viewers"] += wait
					}
				case op == 3 && len(list) > 0:
					n := l.Bytes * r.Int64N(4)
					list[0].Add(n)
					m.ahead["bytes"] = min(maxExcess,
						m.ahead["bytes"]+time.Duration(n/l.Bytes)*time.Second)
				case op == 4 && len(list) > 0:
					if err := list[0].Check(); (err == nil) != (m.ahead["bytes"] <= refuseAfter) {
						t.Fatalf("seed %d: bytes are %v ahead: %v", seed, m.ahead["bytes"], err)
					}
				default:
					time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				}
			}
			held := 0
			for _, m := range models {
				if m.held > 0 {
					held++
				}
			}
			if st := table.Stats(); st.Held != held {
				t.Errorf("seed %d: %+v, want %d held", seed, st, held)
			}
		})
	}
}

// Accounts are used on several goroutines at once.
func TestConcurrentUse(t *testing.T) {
	table := New(Limits{Connections: 8, Viewers: 1, Bytes: 1 << 30})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range 500 {
				a, err := table.Acquire(netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(3))}))
				if err != nil {
					t.Error(err)
					return
				}
				_ = a.Viewer()
				a.Add(r.Int64N(1000))
				a.Pace(t.Context(), r.Int64N(1000))
				table.SetLimits(Limits{Connections: 8, Viewers: 1 + r.IntN(2), Bytes: 1 << 30})
				a.Release()
			}
		})
	}
	all.Wait()
	if st := table.Stats(); st.Held != 0 || st.Idle > 3 {
		t.Errorf("%+v, want none held and three idle at most", st)
	}
}

func TestOf(t *testing.T) {
	a := new(Account)
	if got := Of(NewContext(t.Context(), a)); got != a {
		t.Error(got)
	}
	if got := Of(t.Context()); got != nil {
		t.Error(got)
	}
}

// An HLS player counts once for as long as it sends requests, and each new player counts.
func TestPlayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(Limits{Viewers: 2})
		a, err := table.Acquire(netip.MustParseAddr("192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(10) { // the rate of five seconds
			if err := a.Player(id, false); err != nil {
				t.Fatalf("player %d is refused: %v", id, err)
			}
		}
		for range 100 {
			if err := a.Player(3, false); err != nil {
				t.Fatal(err)
			}
		}
		refuses(t, a.Player(10, false), "--max-address-viewers")
		refuses(t, a.Player(3, true), "--max-address-viewers")
		for range 10 {
			time.Sleep(sessionTime / 2)
			if err := a.Player(3, false); err != nil {
				t.Fatal(err)
			}
		}
		for id := range uint64(10) { // accounts idle for a minute start again
			if err := a.Player(100+id, false); err != nil {
				t.Fatal(err)
			}
		}
		refuses(t, a.Player(4, false), "--max-address-viewers")
		time.Sleep(time.Hour)
		for id := range uint64(5 * maxSessions) {
			_ = a.Player(id, false)
			time.Sleep(time.Second / 2)
			if len(a.sessions) > maxSessions {
				t.Fatal(len(a.sessions))
			}
		}
		a.Release()
		var none *Account
		if err := none.Player(1, true); err != nil {
			t.Error(err)
		}
	})
}

// As many requests may wait as there may be connections.
func TestRequests(t *testing.T) {
	table := New(Limits{Connections: 3})
	a, err := table.Acquire(netip.MustParseAddr("192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	for range 3 {
		for range 3 {
			if err := a.StartRequest(); err != nil {
				t.Fatal(err)
			}
		}
		refuses(t, a.StartRequest(), "--max-address-connections")
		for range 3 {
			a.EndRequest()
		}
	}
	table.SetLimits(Limits{Viewers: 1})
	for range 100 {
		if err := a.StartRequest(); err != nil {
			t.Fatal(err)
		}
	}
}
