package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// newTestObjects returns Objects that end with the test.
func newTestObjects(t *testing.T, maxBytes, maxObject int64) *Objects {
	o := NewObjects(maxBytes, maxObject, NewSecret("secret", "http://asks:1"), nil, nil)
	t.Cleanup(func() {
		o.Close()
		if st := o.Stats(); st.Bytes != 0 || st.Objects != 0 {
			t.Errorf("after Close: %+v", st)
		}
	})
	return o
}

// owner returns the address of a node that answers with f.
func owner(t *testing.T, f http.HandlerFunc) string {
	var secret *Secret
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		switch secret.Admit(w.Header(), r) {
		case Proved:
			f(w, r)
		case Challenged:
			w.WriteHeader(http.StatusUnauthorized)
		case Refused:
			t.Errorf("%s is refused: %q", r.URL, r.Header)
		}
	}))
	secret = NewSecret("secret", "http://"+srv.Listener.Addr().String())
	srv.Start()
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	return srv.URL
}

// get returns the status and the body, or an error.
func get(ctx context.Context, o *Objects, node, path string) (int, string, error) {
	out, err := o.Get(ctx, path, o.From(node, path, 7, false))
	defer out.Body.Release()
	return out.Status, string(out.Body.Bytes()), err
}

func keep(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "public, max-age=3600, immutable")
}

// A call gets a share of the bytes, and all other facts about the object.
func TestShare(t *testing.T) {
	e := objectEntry{object: Object{Status: 200, Gzip: true, RetryAfter: "7", Fresh: time.Hour,
		Once: true}}
	e.object.Body.AppendCopy([]byte("body"))
	out, err := e.share()
	if err != nil || string(out.Body.Bytes()) != "body" || string(e.object.Body.Bytes()) != "body" {
		t.Errorf("%v, shared %q of %q, want both to hold the body", err, out.Body.Bytes(),
			e.object.Body.Bytes())
	}
	was, is := reflect.ValueOf(e.object), reflect.ValueOf(out)
	for i := range was.NumField() {
		if field := was.Type().Field(i); field.Name != "Body" &&
			(was.Field(i).IsZero() || !was.Field(i).Equal(is.Field(i))) {
			t.Errorf("%s is %v, and was %v", field.Name, is.Field(i), was.Field(i))
		}
	}
	out.Body.Release()
	e.object.Body.Release()
}

// A thousand calls wait for one fetch, and each gets the whole object.
func TestObjectsCollapse(t *testing.T) {
	var asked atomic.Int32
	body := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	release := make(chan struct{})
	node := owner(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.RawQuery != "_HLS_msn=7" {
			t.Errorf("%v, query %q, want the query of the request", r.Header, r.URL.RawQuery)
		}
		keep(w)
		w.Header().Set("Retry-After", "7")
		<-release
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	})
	o := newTestObjects(t, 1<<20, 1<<20)
	const path = "/live/cam/x?_HLS_msn=7"
	var calls sync.WaitGroup
	for range 1000 {
		calls.Go(func() {
			out, err := o.Get(t.Context(), path, o.From(node, path, 7, false))
			defer out.Body.Release()
			if err != nil || !bytes.Equal(out.Body.Bytes(), body) || out.RetryAfter != "7" ||
				out.Gzip || out.Fresh != time.Hour {
				t.Errorf("%v: %d bytes, retry after %v, fresh for %v, want the body and the "+
					"owner's headers", err, out.Body.Len(), out.RetryAfter, out.Fresh)
			}
		})
	}
	nettest.Eventually(t, "a thousand calls", func() bool { return o.Stats().Collapsed == 999 })
	close(release)
	calls.Wait()
	if _, _, err := get(t.Context(), o, node, path); err != nil {
		t.Error(err)
	}
	st := o.Stats()
	if asked.Load() != 1 || st.Fetched != 1 || st.Hits != 1 || st.BytesIn != int64(len(body)) ||
		st.Objects != 1 {
		t.Errorf("the owner was asked %d times: %+v", asked.Load(), st)
	}
}

// Calls leave while they wait. The fetch continues for the others, and ends when the last call
// leaves.
func TestObjectsLeave(t *testing.T) {
	var under, asked atomic.Int32
	release := make(chan struct{})
	node := owner(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		under.Add(1)
		defer under.Add(-1)
		select {
		case <-release:
			w.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(w, "ok")
		case <-r.Context().Done():
		}
	})
	o := newTestObjects(t, 1<<20, 1<<20)
	const path = "/live/cam/media.m3u8"
	why := errors.New("the player has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	var leaving, staying sync.WaitGroup
	for range 100 {
		leaving.Go(func() {
			if _, _, err := get(ctx, o, node, path); err != why {
				t.Error(err)
			}
		})
	}
	stay, end := context.WithCancel(t.Context())
	staying.Go(func() {
		if _, _, err := get(stay, o, node, path); err != context.Canceled {
			t.Error(err)
		}
	})
	nettest.Eventually(t, "the calls", func() bool {
		st := o.Stats()
		return st.Collapsed == 100 && under.Load() == 1
	})
	cancel(why)
	leaving.Wait()
	if under.Load() != 1 {
		t.Error("the fetch has ended with calls that left")
	}
	end()
	staying.Wait()
	nettest.Eventually(t, "the end of the fetch", func() bool { return under.Load() == 0 })
	close(release)
	if _, body, err := get(t.Context(), o, node, path); err != nil || body != "ok" ||
		asked.Load() != 2 {
		t.Errorf("%q, %v: asked %d times", body, err, asked.Load())
	}
}

// The oldest objects are evicted, even while they are read. Responses are kept as long as their
// freshness allows.
func TestObjectsEvict(t *testing.T) {
	node := owner(t, func(w http.ResponseWriter, r *http.Request) {
		if keep(w); strings.HasSuffix(r.URL.Path, "m3u8") {
			w.Header().Set("Cache-Control", "public, max-age=1")
		}
		body := strings.Repeat(r.URL.Path, 10_000)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	})
	const most = 1 << 20
	o := newTestObjects(t, most, 1<<20)
	var held []Object
	for i := range 40 {
		path := fmt.Sprintf("/live/cam/%02d", i)
		out, err := o.Get(t.Context(), path, o.From(node, path, 7, false))
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, out)
		if st := o.Stats(); st.Bytes > most {
			t.Fatalf("%+v, above the limit", st)
		}
		if _, _, err := get(t.Context(), o, node, "/live/cam/00"); err != nil { // use it
			t.Fatal(err)
		}
	}
	for i := range held {
		if want := strings.Repeat(fmt.Sprintf("/live/cam/%02d", i),
			10_000); string(held[i].Body.Bytes()) != want {
			t.Errorf("object %d has other bytes", i)
		}
		held[i].Body.Release()
	}
	if st := o.Stats(); st.Objects >= 10 || st.Objects < 3 || st.Fetched != 40 {
		t.Errorf("%+v, want 3 to 9 objects of 40", st)
	}
	for range 2 {
		if _, _, err := get(t.Context(), o, node, "/live/cam/media.m3u8"); err != nil {
			t.Fatal(err)
		}
	}
	if st := o.Stats(); st.Fetched != 41 {
		t.Errorf("%+v, want one more fetch", st)
	}
	nettest.Eventually(t, "another fetch", func() bool {
		_, _, err := get(t.Context(), o, node, "/live/cam/media.m3u8")
		return err == nil && o.Stats().Fetched == 42
	})
}

// An object is dropped a minute after its last request.
func TestObjectsUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newTestObjects(t, 1<<20, 1<<20)
		fetch := func(context.Context, func(int64) error) (Object, error) {
			out := Object{Status: http.StatusOK, Fresh: maxFresh}
			out.Body.AppendCopy([]byte("object"))
			return out, nil
		}
		request := func(key string) {
			t.Helper()
			out, err := o.Get(t.Context(), key, fetch)
			if err != nil {
				t.Fatal(err)
			}
			out.Body.Release()
		}
		want := func(objects int64) {
			t.Helper()
			synctest.Wait()
			if st := o.Stats(); st.Objects != objects || (objects == 0) != (st.Bytes == 0) {
				t.Errorf("%+v, want %d objects", st, objects)
			}
		}
		request("a")
		request("b")
		time.Sleep(maxUnused - time.Second)
		request("a")
		want(2)
		time.Sleep(time.Second)
		want(1) // b has gone
		time.Sleep(maxUnused - 2*time.Second)
		want(1)
		time.Sleep(time.Second)
		want(0)
		request("b") // the cache works as before
		want(1)
		time.Sleep(maxUnused)
		want(0)
	})
}

// An incomplete response is an error for all waiting calls, and is fetched again.
func TestObjectsHostile(t *testing.T) {
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				status, rest, _ := strings.Cut(text, "\r\n")
				_, _ = fmt.Fprintf(conn, "%s\r\n%s: %s\r\n%s", status, HeaderProof,
					w.Header().Get(HeaderProof), rest)
				_ = conn.Close()
			}
		}
	}
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "abc")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	const head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n"
	for name, test := range map[string]struct {
		owner http.HandlerFunc
		want  string
	}{
		"an endless body":    {endless, "without a length"},
		"a body without end": {raw("HTTP/1.0 200 OK\r\n\r\nabc"), "without a length"},
		"a lying length":     {raw(head + "Content-Length: 100000\r\n\r\nabc"), "unexpected EOF"},
		"a huge length": {raw(head + "Content-Length: 99999999999\r\n\r\nabc"),
			"99999999999 bytes"},
		"cut in the head":     {raw(head), "EOF"},
		"no HTTP":             {raw("hello\r\n\r\n"), "malformed"},
		"silence in the body": {silent, "pauses"},
		"a long head": {raw(head + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"),
			"header"},
		"another status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(421)
		}, "answers 421"},
		"a redirection": {http.RedirectHandler("http://127.0.0.1:1/",
			http.StatusFound).ServeHTTP, "answers 302"},
		"a long text of a 404": {raw("HTTP/1.1 404 Not Found\r\nContent-Length: 100000\r\n\r\n"),
			"100000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newTestObjects(t, 1<<20, 512<<10)
			o.silence = 50 * time.Millisecond
			node := owner(t, test.owner)
			for try := range 2 {
				status, body, err := get(t.Context(), o, node, "/x")
				if err == nil || !strings.Contains(err.Error(), test.want) || body != "" ||
					status != 0 {
					t.Errorf("%d: status %d, %d bytes, %v: want %q", try, status, len(body), err,
						test.want)
				}
			}
			if st := o.Stats(); st.Fetched != 2 || st.Failed != 2 || st.Bytes != 0 ||
				st.Objects != 0 {
				t.Errorf("%+v, want two fetches, both failed, and nothing kept", st)
			}
		})
	}
}

// A node may wait any time before it answers. Error statuses are passed on to players and not kept.
func TestObjectsStatus(t *testing.T) {
	var asked atomic.Int32
	node := owner(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			time.Sleep(200 * time.Millisecond)
		}
		w.Header().Set("Cache-Control", "max-age=60")
		http.Error(w, "not there", http.StatusNotFound)
	})
	o := newTestObjects(t, 1<<20, 1<<20)
	o.silence = 20 * time.Millisecond
	for range 3 {
		if status, body, err := get(t.Context(), o, node, "/x"); status != 404 ||
			body != "not there\n" || err != nil {
			t.Errorf("%d %q %v, want the owner's 404", status, body, err)
		}
	}
	if asked.Load() != 3 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// Bodies that arrive at the same time use no more memory than the limit.
func TestObjectsFull(t *testing.T) {
	var under atomic.Int32
	release := make(chan struct{})
	node := owner(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(1<<20))
		_, _ = w.Write(make([]byte, 1<<20-1))
		_ = http.NewResponseController(w).Flush()
		under.Add(1)
		<-release
		_, _ = w.Write([]byte{1})
	})
	o := newTestObjects(t, 2<<20, 1<<20)
	var calls sync.WaitGroup
	var full, whole atomic.Int32
	for i := range 10 {
		calls.Go(func() {
			switch _, body, err := get(t.Context(), o, node, fmt.Sprint("/", i)); {
			case errors.Is(err, errFull):
				full.Add(1)
			case err == nil && len(body) == 1<<20:
				whole.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	nettest.Eventually(t, "ten answers", func() bool { return under.Load()+full.Load() >= 10 })
	if st := o.Stats(); st.Bytes > 3<<20 {
		t.Errorf("%+v, above the limit", st)
	}
	nettest.Eventually(t, "refusals", func() bool { return full.Load() > 0 })
	close(release)
	calls.Wait()
	if whole.Load() == 0 {
		t.Error("all are refused")
	}
}

// Close ends all fetches.
func TestObjectsClose(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	o := NewObjects(1<<20, 1<<20, NewSecret("secret", "http://asks:1"), nil, nil)
	ended := make(chan error)
	go func() {
		_, _, err := get(t.Context(), o, "http://"+ln.Addr().String(), "/x")
		ended <- err
	}()
	nettest.Eventually(t, "the fetch", func() bool { return o.Stats().Fetched == 1 })
	o.Close()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	if _, _, err := get(t.Context(), o, "http://"+ln.Addr().String(),
		"/x"); err != refuse.ErrShutdown {
		t.Error(err)
	}
}

// Calls, evictions and abandoned calls happen at the same time.
func TestObjectsRace(t *testing.T) {
	node := owner(t, func(w http.ResponseWriter, r *http.Request) {
		keep(w)
		body := strings.Repeat(r.URL.Path, 1000)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body)
	})
	o := newTestObjects(t, 64<<10, 64<<10)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for j := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+j)%5 == 0 {
					time.AfterFunc(time.Duration(j)*10*time.Microsecond, cancel)
				}
				path := fmt.Sprintf("/%02d", (i*j)%12)
				_, body, err := get(ctx, o, node, path)
				if err == nil && body != strings.Repeat(path, 1000) || err != nil &&
					ctx.Err() == nil {
					t.Errorf("%s: %v, %d bytes, want the object", path, err, len(body))
				}
				cancel()
			}
		})
	}
	calls.Wait()
}
