package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A fakeHook answers with the result of its function, and records the requests.
type fakeHook struct {
	*httptest.Server
	mu     sync.Mutex
	got    []Request
	answer func(w http.ResponseWriter, q Request)
}

func newFakeHook(t *testing.T, answer func(w http.ResponseWriter, q Request)) *fakeHook {
	f := &fakeHook{answer: answer}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Request
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("the request is no JSON: %v", err)
		}
		f.mu.Lock()
		f.got = append(f.got, q)
		f.mu.Unlock()
		if f.answer != nil {
			f.answer(w, q)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// events returns the requests that the hook has received.
func (f *fakeHook) events(e Event) (list []Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.got {
		if q.Event == e {
			list = append(list, q)
		}
	}
	return list
}

func newClient(t *testing.T, url string, change func(*Config)) (*Client, *nettest.LogBook) {
	t.Helper()
	book := &nettest.LogBook{}
	cfg := Config{URL: url, Timeout: nettest.Timeout, Log: slog.New(slog.NewTextHandler(book, nil))}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(t.Context()) })
	return c, book
}

func publish() *Request { return &Request{Event: Publish, Stream: "s3cr3t", Address: "192.0.2.7"} }

func play(protocol string) *Request {
	return &Request{Event: PlayBegin, Stream: "show", Protocol: protocol, Address: "192.0.2.8",
		Query: "key=1"}
}

func TestAskAndEnd(t *testing.T) {
	f := newFakeHook(t, func(w http.ResponseWriter, q Request) {
		_, _ = io.WriteString(w, `{"allow":true,"name":"show"}`)
	})
	c, _ := newClient(t, f.URL, nil)
	q := publish()
	q.Query, q.Token, q.Agent = "key=k3y", "t0k3n", "OBS"
	if a, err := c.Ask(t.Context(), q); err != nil || a.Name != "show" {
		t.Fatalf("%+v, %v, want the name show", a, err)
	}
	c.End(q, "end of the stream", 1234)
	c.Close(t.Context())
	begin, end := f.events(Publish), f.events(PublishEnd)
	if len(begin) != 1 || begin[0].Query != "key=k3y" || begin[0].Token != "t0k3n" ||
		begin[0].Agent != "OBS" || begin[0].Version != Version {
		t.Errorf("the hook was asked %+v, want all facts of the publisher", begin)
	}
	if len(end) != 1 || end[0].ID != begin[0].ID || end[0].ID == "" ||
		end[0].Reason != "end of the stream" || end[0].Bytes != 1234 ||
		end[0].Query+end[0].Token+end[0].Agent != "" || end[0].Stream != "s3cr3t" {
		t.Errorf("the hook was told %+v, want reason and bytes, and no secrets", end)
	}
}

// A hook that fails at first is retried, and the failure is logged once.
func TestRetry(t *testing.T) {
	var asked atomic.Int64
	f := newFakeHook(t, func(w http.ResponseWriter, q Request) {
		switch asked.Add(1) {
		case 1:
			http.Error(w, "starting", http.StatusBadGateway)
		case 2:
			panic(http.ErrAbortHandler) // breaks the connection
		}
	})
	c, _ := newClient(t, f.URL, nil)
	if _, err := c.Ask(t.Context(), publish()); err != nil || asked.Load() != 3 {
		t.Errorf("%v after %d attempts", err, asked.Load())
	}
}

// An invalid answer is a failure whose error contains no secrets, and is not retried.
func TestInvalidAnswersAreFailures(t *testing.T) {
	elsewhere := newFakeHook(t, nil)
	for name, answer := range map[string]func(w http.ResponseWriter, q Request){
		"text": func(w http.ResponseWriter, _ Request) { _, _ = io.WriteString(w, "OK") },
		"huge": func(w http.ResponseWriter, _ Request) {
			_, _ = io.WriteString(w, strings.Repeat("{", 1<<20))
		},
		"redirect": func(w http.ResponseWriter, _ Request) {
			http.Redirect(w, &http.Request{}, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"other": func(w http.ResponseWriter, _ Request) { w.WriteHeader(http.StatusTeapot) },
	} {
		f := newFakeHook(t, answer)
		c, book := newClient(t, strings.Replace(f.URL, "http://", "http://user:passw0rd@", 1)+
			"/?k3y=1", nil)
		_, err := c.Ask(t.Context(), publish())
		if err != errFails || len(f.events(Publish)) != 1 {
			t.Errorf("%s: %v, asked %d times", name, err, len(f.events(Publish)))
		}
		if text := fmt.Sprint(err) + book.String(); strings.Contains(text, "passw0rd") ||
			strings.Contains(text, "k3y") {
			t.Errorf("%s: the error or the log contains a secret: %s", name, text)
		}
		if _, err := c.Play(t.Context(), play("rtmp")); err != errFails {
			t.Errorf("%s: a play: %v, want errFails", name, err)
		}
	}
	if n := len(elsewhere.events(Publish)); n > 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// A hook that hangs or does not exist fails within the time limit. With Open, the client is then
// allowed.
func TestUnreachableHookFails(t *testing.T) {
	hang := make(chan struct{})
	f := newFakeHook(t, func(http.ResponseWriter, Request) { <-hang })
	t.Cleanup(func() { close(hang) })
	for _, url := range []string{f.URL, "http://user:passw0rd@" + nettest.FreeAddr(t)} {
		for _, open := range []bool{false, true} {
			c, book := newClient(t, url, func(cfg *Config) {
				cfg.Timeout, cfg.Open = 100*time.Millisecond, open
			})
			_, err := c.Ask(t.Context(), publish())
			if (err == nil) != open || !open && err != errFails {
				t.Errorf("%s, open %v: %v, want an error only if the hook is not optional", url,
					open, err)
			}
			if !strings.Contains(book.String(), "the hook fails") ||
				strings.Contains(book.String(), "passw0rd") {
				t.Errorf("the log: %s", book)
			}
			p, err := c.Play(t.Context(), play("rtmp"))
			if (err == nil) != open {
				t.Errorf("%s, open %v: a play: %v", url, open, err)
			}
			if p != nil {
				p.End("", 0)
			}
		}
	}
}

// Equal plays that begin together cause one request. The hook is told about the end of the last of
// them, with the bytes of all.
func TestEqualPlays(t *testing.T) {
	wait := make(chan struct{})
	f := newFakeHook(t, func(_ http.ResponseWriter, q Request) {
		if q.Event == PlayBegin {
			<-wait
		}
	})
	c, _ := newClient(t, f.URL, nil)
	const players = 500
	plays := make([]*Play, players)
	var all sync.WaitGroup
	for i := range players {
		all.Go(func() {
			var err error
			if plays[i], err = c.Play(t.Context(), play("rtmp")); err != nil {
				t.Error(err)
			}
		})
	}
	nettest.Eventually(t, "all wait", func() bool { return c.Stats().Hits == players-1 })
	close(wait)
	all.Wait()
	for _, p := range plays {
		if len(f.events(PlayEnd)) > 0 {
			t.Fatal("told of the end before it")
		}
		p.End("viewer left", 10)
	}
	nettest.Eventually(t, "the end", func() bool { return len(f.events(PlayEnd)) == 1 })
	begin, end := f.events(PlayBegin), f.events(PlayEnd)
	if len(begin) != 1 || end[0].ID != begin[0].ID || end[0].Bytes != 10*players {
		t.Errorf("asked %+v, told %+v, want one player with the bytes of all", begin, end)
	}
	if n := c.Stats().Plays; n != 0 {
		t.Errorf("%d plays are kept", n)
	}
	other := play("rtmp")
	other.Query = "key=2"
	p, err := c.Play(t.Context(), other)
	if err != nil || len(f.events(PlayBegin)) != 2 {
		t.Fatalf("%v: another key was not asked about", err)
	}
	p.End("", 0)
}

// A flood of different plays uses few connections, a limited queue, and no more goroutines than
// callers.
func TestFlood(t *testing.T) {
	var at, most atomic.Int64
	wait := make(chan struct{})
	f := newFakeHook(t, func(_ http.ResponseWriter, q Request) {
		if q.Event == PlayBegin {
			most.Store(max(most.Load(), at.Add(1)))
			<-wait
			at.Add(-1)
		}
	})
	c, _ := newClient(t, f.URL, nil)
	const players = 2 * maxWaiting
	var all sync.WaitGroup
	var served, busy atomic.Int64
	for i := range players {
		all.Go(func() {
			q := play("rtmp")
			q.Query = fmt.Sprint(i)
			p, err := c.Play(t.Context(), q)
			switch {
			case err == nil:
				served.Add(1)
				p.End("", 0)
			case err == errBusy:
				busy.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	const mayWait = maxWaiting + maxRequests - reservedWaiting
	nettest.Eventually(t, "the bound", func() bool { return busy.Load() == players-mayWait })
	if _, err := c.Ask(t.Context(), publish()); err != nil {
		t.Errorf("a publisher meanwhile: %v", err)
	}
	close(wait)
	all.Wait()
	if served.Load() != mayWait || most.Load() > maxRequests-reservedRequests {
		t.Errorf("%d served, %d busy, %d at a time", served.Load(), busy.Load(), most.Load())
	}
}

// No requests are sent for players that have disconnected, and nothing of them is left.
func TestPlayersLeaveTheQueue(t *testing.T) {
	for _, protocol := range []string{"rtmp", HLS} {
		wait := make(chan struct{})
		f := newFakeHook(t, func(_ http.ResponseWriter, q Request) {
			if q.Event == PlayBegin {
				<-wait
			}
		})
		c, _ := newClient(t, f.URL, nil)
		const asked = maxRequests - reservedRequests
		var all sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 500 {
			all.Go(func() {
				q := play(protocol)
				q.Query = fmt.Sprint(i)
				if _, err := c.Play(ctx, q); err != context.Canceled {
					t.Error(err)
				}
			})
		}
		nettest.Eventually(t, "the questions", func() bool {
			return c.Stats().Waiting == 500 && len(f.events(PlayBegin)) == asked
		})
		cancel()
		all.Wait()
		nettest.Eventually(t, "the others to be dropped",
			func() bool { return c.Stats().Waiting == asked && c.Stats().Plays == 0 })
		answered := make(chan error)
		go func() { // another player with the same request
			q := play(protocol)
			q.Query = "0"
			p, err := c.Play(t.Context(), q)
			if err == nil {
				p.End("", 0)
			}
			answered <- err
		}()
		close(wait)
		if err := <-answered; err != nil {
			t.Errorf("%s: who comes then: %v", protocol, err)
		}
		nettest.Eventually(t, "the ends of those that were asked about",
			func() bool { return len(f.events(PlayEnd)) >= asked })
		if n := len(f.events(PlayBegin)); n != asked+1 {
			t.Errorf("%s: %d questions, want %d", protocol, n, asked+1)
		}
	}
}

// A player that disconnects while it waits leaves nothing, and the hook is told.
func TestPlayerGoes(t *testing.T) {
	wait := make(chan struct{})
	f := newFakeHook(t, func(_ http.ResponseWriter, q Request) {
		if q.Event == PlayBegin {
			<-wait
		}
	})
	c, _ := newClient(t, f.URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := c.Play(ctx, play("rtmp"))
		gone <- err
	}()
	nettest.Eventually(t, "the question", func() bool { return len(f.events(PlayBegin)) == 1 })
	cancel()
	if err := <-gone; err != context.Canceled {
		t.Error(err)
	}
	close(wait)
	nettest.Eventually(t, "the end", func() bool {
		return len(f.events(PlayEnd)) == 1 && c.Stats().Plays == 0
	})
}

// Ends are retried while the hook is unreachable. Close drops those that it cannot deliver.
func TestEnds(t *testing.T) {
	var down atomic.Bool
	f := newFakeHook(t, func(w http.ResponseWriter, q Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	c, book := newClient(t, f.URL, nil)
	q := publish()
	if _, err := c.Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	down.Store(true)
	c.End(q, "first", 1)
	nettest.Eventually(t, "two attempts", func() bool { return len(f.events(PublishEnd)) >= 2 })
	down.Store(false)
	nettest.Eventually(t, "delivery", func() bool {
		return c.Stats().Requests[Outcome{PublishEnd, "sent"}] == 1
	})
	down.Store(true)
	for range maxEnds + 10 {
		c.End(q, "second", 1)
	}
	if n := c.Stats().Dropped; n < 10-endWorkers {
		t.Errorf("%d dropped from a full queue", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	c.Close(ctx)
	if st := c.Stats(); st.Dropped != maxEnds+10 ||
		st.Requests[Outcome{PublishEnd, "dropped"}] != st.Dropped {
		t.Errorf("%+v, want the ends above the queue dropped and counted", st)
	}
	lines := func() int { return strings.Count(book.String(), "could not be sent to the hook") }
	nettest.Eventually(t, "a line", func() bool { return lines() > 0 })
	if n := lines(); n > 20 {
		t.Errorf("%d lines are logged, want 20 at most", n)
	}
}

// While the log blocks, calls that report an end, or that ask the hook, do not wait for the log.
func TestTheLogBlocks(t *testing.T) {
	f := newFakeHook(t, func(w http.ResponseWriter, q Request) {
		if q.Event == PublishEnd {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	var b *nettest.BlockingLog
	c, _ := newClient(t, f.URL, func(cfg *Config) {
		b = nettest.NewBlockingLog(cfg.Log.Handler())
		cfg.Log = slog.New(b)
	})
	q := publish()
	if _, err := c.Ask(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	goOn := b.Block()
	defer goOn() // before c is closed
	for range maxEnds + 10 {
		c.End(q, "over", 1)
	}
	nettest.Eventually(t, "a line that waits",
		func() bool { return b.Holds("could not be sent to the hook") })
	if _, err := c.Ask(t.Context(), publish()); err != nil {
		t.Error(err)
	}
	if n := c.Stats().Dropped; n < 10-endWorkers {
		t.Errorf("%d ends are dropped, want those above the workers", n)
	}
}

func TestTooLongCredentialsAre414(t *testing.T) {
	c, _ := newClient(t, "http://127.0.0.1:1", nil)
	q := play("rtmp")
	q.Query = strings.Repeat("a", maxShown+1)
	if _, err := c.Play(t.Context(), q); !isRefusal(err) {
		t.Error(err)
	}
	q = publish()
	q.Agent = strings.Repeat("a", maxShown+1)
	if _, err := c.Ask(t.Context(), q); !isRefusal(err) {
		t.Error(err)
	}
}

func TestCheckURL(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:9000/hook",
		"https://user:secret@example.org/a?b=c", "http://[::1]:80"} {
		if err := CheckURL(url); err != nil {
			t.Errorf("CheckURL(%s) = %v, want nil", url, err)
		}
	}
	for _, url := range []string{"", "127.0.0.1:9000", "ftp://example.org", "http://", "http:///a",
		"http://s3cr3t:%zz@x", "http://a/#b"} {
		if err := CheckURL(url); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("CheckURL(%q) = %v, want an error without the secret", url, err)
		}
	}
}

// Close does not wait for a hook that is down, whether it refuses connections or answers 503.
func TestCloseWithoutTheHook(t *testing.T) {
	for _, status := range []int{0, http.StatusServiceUnavailable} {
		var away atomic.Bool
		h := newFakeHook(t, func(w http.ResponseWriter, _ Request) {
			if away.Load() {
				w.WriteHeader(status)
			}
		})
		c, _ := newClient(t, h.URL, nil)
		for i := range 20 {
			q := &Request{Event: Publish, Stream: fmt.Sprint("cam", i)}
			if _, err := c.Ask(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			c.End(q, "over", 1)
		}
		nettest.Eventually(t, "the ends", func() bool { return len(h.events(PublishEnd)) == 20 })
		if away.Store(true); status == 0 {
			h.Close()
		}
		for i := range 20 {
			c.End(&Request{Event: Publish, Stream: fmt.Sprint("cam", i)}, "over", 1)
		}
		// Trying all ends would take longer.
		ctx, cancel := context.WithTimeout(t.Context(), endPatience/2)
		c.Close(ctx)
		if ctx.Err() != nil {
			t.Errorf("status %d: Close took all of its time", status)
		}
		cancel()
	}
}

// Each new reason for a failure is logged.
func TestReasonsOfFailures(t *testing.T) {
	var status atomic.Int32
	h := newFakeHook(t, func(w http.ResponseWriter,
		_ Request) {
		w.WriteHeader(int(status.Load()))
	})
	c, book := newClient(t, h.URL, func(cfg *Config) { cfg.Timeout = nettest.Timeout })
	defer c.Close(t.Context())
	for _, s := range []int32{400, 418, 400, 200} {
		status.Store(s)
		_, _ = c.Ask(t.Context(), &Request{Event: Publish, Stream: "cam"})
	}
	if log := book.String(); strings.Count(log, "the hook fails") != 2 ||
		strings.Count(log, "answers again") != 1 {
		t.Errorf("the log has\n%s", log)
	}
}
