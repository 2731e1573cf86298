package hook

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A roundTripper answers without a socket, so that virtual time can be used.
type roundTripper struct {
	mu     sync.Mutex
	got    []Event
	status int
	body   string
	err    error
	latest string // the latest request
}

func (r *roundTripper) set(status int, body string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.body, r.err = status, body, err
}

func (r *roundTripper) count(e Event) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, got := range r.got {
		if got == e {
			n++
		}
	}
	return n
}

func (r *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	text, _ := io.ReadAll(req.Body)
	_, event, _ := strings.Cut(string(text), `"event":"`)
	event, _, _ = strings.Cut(event, `"`)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, Event(event))
	r.latest = string(text)
	if r.err != nil {
		return nil, r.err
	}
	return &http.Response{StatusCode: r.status, Body: io.NopCloser(strings.NewReader(r.body)),
		Request: req}, nil
}

// bubble runs test in virtual time, with a client of the hook r.
func bubble(t *testing.T, test func(t *testing.T, c *Client, r *roundTripper)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{URL: "http://127.0.0.1:1", Timeout: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		r := &roundTripper{status: 200}
		c.poster.http.Transport = r
		test(t, c, r)
		c.Close(context.Background())
	})
}

// An HLS player is one play all the time. The hook is asked again when its answer is too old. The
// play ends when the player sends no more requests.
func TestHLS(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		id := ""
		for range 30 { // one request per second
			p, err := c.Play(t.Context(), play(HLS))
			if err != nil {
				t.Fatal(err)
			}
			p.Served(100)
			if id == "" {
				id = p.q.ID
			} else if p.q.ID != id {
				t.Fatal("another ID")
			}
			time.Sleep(time.Second)
		}
		if n := r.count(PlayBegin); n != 3 {
			t.Errorf("asked %d times in 30s, want 3", n)
		}
		if r.count(PlayEnd) != 0 {
			t.Error("told of an end")
		}
		time.Sleep(hlsIdle + sweepEvery)
		synctest.Wait()
		if r.count(PlayEnd) != 1 || c.Stats().Plays != 0 {
			t.Errorf("%d ends, %d plays", r.count(PlayEnd), c.Stats().Plays)
		}
	})
}

// The hook can disconnect an HLS player later, but not by failing.
func TestHLSRefusedLater(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		ask := func() error {
			_, err := c.Play(t.Context(), play(HLS))
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		r.set(0, "", io.ErrUnexpectedEOF)
		time.Sleep(keepDefault)
		if err := ask(); err != nil {
			t.Errorf("the hook is away, and the player gets %v", err)
		}
		r.set(403, `{"reason":"paid no more"}`, nil)
		time.Sleep(keepDefault)
		_ = ask() // does not wait for a hook that has failed
		synctest.Wait()
		if err := ask(); !isRefusal(err) {
			t.Errorf("it gets %v", err)
		}
		asked := r.count(PlayBegin)
		if err := ask(); !isRefusal(err) || r.count(PlayBegin) != asked {
			t.Errorf("%v: the refusal is not kept", err)
		}
		synctest.Wait()
		if r.count(PlayEnd) != 1 {
			t.Errorf("%d ends are told, want 1", r.count(PlayEnd))
		}
		r.set(200, "", nil)
		time.Sleep(keepDefault)
		if err := ask(); err != nil {
			t.Error(err)
		}
	})
}

// The end of a play has the public name, which may differ from the client's.
func TestPlayEndHasPublicName(t *testing.T) {
	for answer, want := range map[string]string{"": "show",
		`{"allow":true,"name":"public"}`: "public"} {
		bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
			r.set(200, answer, nil)
			q := play("http-flv")
			q.Stream = "show"
			p, err := c.Play(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			p.End("connection closed", 1)
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if !strings.Contains(r.latest, `"play_end"`) ||
				!strings.Contains(r.latest, `"stream":"show","name":"`+want+`"`) {
				t.Errorf("after the answer %q: %s, want the name %q", answer, r.latest, want)
			}
		})
	}
}

// An HLS play lasts no longer than the hook allows. After that the hook is asked about a new play.
func TestHLSTimeUp(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		r.set(200, `{"allow":true,"max_seconds":15,"cache_seconds":3600}`, nil)
		for range 20 {
			if _, err := c.Play(t.Context(), play(HLS)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if r.count(PlayBegin) != 2 || r.count(PlayEnd) != 1 {
			t.Errorf("%d begins, %d ends", r.count(PlayBegin), r.count(PlayEnd))
		}
	})
}

// A viewer that begins when the answer is too old is another play.
func TestOldAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		a, err1 := c.Play(t.Context(), play("rtmp"))
		b, err2 := c.Play(t.Context(), play("rtmp"))
		time.Sleep(keepDefault)
		d, err3 := c.Play(t.Context(), play("rtmp"))
		if err1 != nil || err2 != nil || err3 != nil || a != b || d == a {
			t.Fatalf("%v, %v, %v, want one answer twice, and then a new one", err1, err2, err3)
		}
		for _, p := range []*Play{a, b, d} {
			p.End("viewer left", 1)
		}
		synctest.Wait()
		if r.count(PlayBegin) != 2 || r.count(PlayEnd) != 2 {
			t.Errorf("%d begins, %d ends", r.count(PlayBegin), r.count(PlayEnd))
		}
	})
}

// If the hook is down for long, an end is lost after some time, but later ends are not.
func TestEndsAreRetried(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		q := publish()
		if _, err := c.Ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		r.set(0, "", io.ErrUnexpectedEOF)
		c.End(q, "first", 0)
		time.Sleep(endPatience + time.Second)
		synctest.Wait()
		if c.Stats().Dropped != 1 {
			t.Errorf("%+v, want one dropped end", c.Stats())
		}
		r.set(200, "", nil)
		c.End(q, "second", 0)
		synctest.Wait()
		if c.Stats().Requests[Outcome{PublishEnd, "sent"}] != 1 {
			t.Errorf("%+v, want one end sent", c.Stats())
		}
	})
}

// Refusals of invented tokens leave room in the table, which has a limited size.
func TestTableIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		r.set(403, "", nil)
		ask := func(i int) error {
			q := play(HLS)
			q.Address = time.Duration(i).String()
			_, err := c.Play(t.Context(), q)
			return err
		}
		for i := range maxRefused + 100 {
			if err := ask(i); !isRefusal(err) {
				t.Fatal(err)
			}
		}
		if n := c.Stats().Plays; n > maxRefused {
			t.Errorf("%d refusals are kept", n)
		}
		r.set(200, "", nil)
		time.Sleep(keepDefault + sweepEvery)
		for i := range maxPlays {
			if err := ask(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := ask(maxPlays); err != errBusy {
			t.Errorf("above the bound: %v", err)
		}
	})
}

// slowly delays the hook's answers.
type slowly struct {
	*roundTripper
	sync.Mutex
	next time.Duration // only for the next request
}

func (s *slowly) RoundTrip(req *http.Request) (*http.Response, error) {
	s.Lock()
	wait := s.next
	s.next = 0
	s.Unlock()
	res, err := s.roundTripper.RoundTrip(req)
	time.Sleep(wait)
	return res, err
}

// If a refusal arrives when its play has expired, it does not affect a play that has begun since.
func TestLateRefusal(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		s := &slowly{roundTripper: r}
		c.poster.http.Transport = s
		ask := func() error {
			_, err := c.Play(t.Context(), play(HLS))
			return err
		}
		r.set(200, `{"allow":true,"max_seconds":11}`, nil)
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(keepDefault)
		r.set(403, "", nil)
		s.Lock()
		s.next = 2 * time.Second
		s.Unlock()
		late := make(chan error, 1)
		go func() { late <- ask() }()
		time.Sleep(1500 * time.Millisecond)
		r.set(200, "", nil)
		if err := ask(); err != nil {
			t.Error(err)
		}
		if err := <-late; err == nil {
			t.Error("the late answer allows")
		}
		if err := ask(); err != nil {
			t.Error(err)
		}
		time.Sleep(2*hlsIdle + sweepEvery)
		synctest.Wait()
		if r.count(PlayBegin) != 3 || r.count(PlayEnd) != 2 || c.Stats().Plays != 0 {
			t.Errorf("%d questions, want 3; %d ends, want 2; %d plays", r.count(PlayBegin),
				r.count(PlayEnd), c.Stats().Plays)
		}
	})
}

// A hook that is down delays an HLS player once, and not each of its requests.
func TestAwayHookDelaysOnce(t *testing.T) {
	bubble(t, func(t *testing.T, c *Client, r *roundTripper) {
		ask := func() time.Duration {
			began := time.Now()
			if _, err := c.Play(t.Context(), play(HLS)); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		ask()
		time.Sleep(keepDefault)
		r.set(0, "", io.ErrUnexpectedEOF)
		if got := ask(); got != 3*time.Second {
			t.Errorf("the first request was delayed by %v, want 3 s", got)
		}
		for range 20 {
			time.Sleep(time.Second)
			if got := ask(); got != 0 {
				t.Errorf("the second request was delayed by %v, want 0", got)
			}
		}
		r.set(403, "", nil) // has an effect nevertheless
		time.Sleep(5 * time.Second)
		ask()
		synctest.Wait()
		if _, err := c.Play(t.Context(), play(HLS)); err == nil {
			t.Error("it plays on")
		}
	})
}
