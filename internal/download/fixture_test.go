package download

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// longAgo is a date that tells versions apart.
var longAgo = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

// noise returns n bytes that are others for each seed.
func noise(seed byte, n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(p)
	return p
}

// A fetch is a download of a test, and what it told.
type fetch struct {
	Config
	t     testing.TB
	notes []string
	shown []int64
	err   error // of the last run that failed
}

// newFetch prepares a download of url to a file in a new directory.
func newFetch(t testing.TB, url string) *fetch {
	f := &fetch{t: t, Config: Defaults()}
	f.URL = url
	f.Path = filepath.Join(t.TempDir(), "file")
	f.Backoff = time.Microsecond
	f.Note = func(text string) { f.notes = append(f.notes, text) }
	f.Progress = func(have, _ int64) { f.shown = append(f.shown, have) }
	return f
}

// succeeds runs it: the file must hold want, and nothing else be left.
func (f *fetch) succeeds(ctx context.Context, want []byte) Result {
	f.t.Helper()
	r, err := Run(ctx, f.Config)
	if err != nil {
		f.t.Fatalf("%v\nnotes: %q", err, f.notes)
	}
	f.holds("", want)
	if r.Bytes != int64(len(want)) {
		f.t.Errorf("%+v", r)
	}
	if len(f.shown) > 0 && f.shown[len(f.shown)-1] != r.Bytes {
		f.t.Errorf("the last progress shown is %d of %d", f.shown[len(f.shown)-1], r.Bytes)
	}
	if names := f.names(); !slices.Equal(names, []string{"file"}) {
		f.t.Errorf("the directory holds %q", names)
	}
	return r
}

// fails runs it: the error must have all of these words, and the file must not be there.
func (f *fetch) fails(ctx context.Context, words ...string) Result {
	f.t.Helper()
	r, err := Run(ctx, f.Config)
	f.err = err
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			f.t.Errorf("%v, want %q\nnotes: %q", err, w, f.notes)
		}
	}
	if _, err := os.Lstat(f.Path); !errors.Is(err, os.ErrNotExist) {
		f.t.Errorf("the file: %v", err)
	}
	return r
}

// holds compares the file, or the one with this suffix.
func (f *fetch) holds(suffix string, want []byte) {
	f.t.Helper()
	got, err := os.ReadFile(f.Path + suffix)
	if err != nil {
		f.t.Error(err)
	} else if !bytes.Equal(got, want) {
		f.t.Errorf("file%s has %d bytes, want %d, or others than it should", suffix, len(got), len(want))
	}
}

func (f *fetch) names() (names []string) {
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// told fails the test if no note has the word.
func (f *fetch) told(word string) {
	f.t.Helper()
	if !strings.Contains(strings.Join(f.notes, "\n"), word) {
		f.t.Errorf("no note says %q: %q", word, f.notes)
	}
}

// A site serves one file that tests change.
type site struct {
	mu       sync.Mutex
	content  []byte
	etag     string
	modified time.Time
	asked    []string                                                 // the Range of each request
	serve    func(n int, w http.ResponseWriter, r *http.Request) bool // of request n, from 1 on; false: as http does
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Header.Get("Range"))
	n := len(s.asked)
	s.mu.Unlock()
	if s.serve != nil && s.serve(n, w, r) {
		return
	}
	s.mu.Lock()
	content, etag, modified := s.content, s.etag, s.modified
	s.mu.Unlock()
	if etag != "" {
		w.Header().Set("Etag", etag)
	}
	http.ServeContent(w, r, "", modified, bytes.NewReader(content))
}

func (s *site) change(content []byte, etag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.content, s.etag = content, etag
}

func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// start serves h on a socket.
func start(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL + "/file"
}

// A cutter cuts connections after so many bytes of a body.
type cutter struct {
	next  http.Handler
	after func() int // for each response; -1 for not at all
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.next.ServeHTTP(&cutResponse{ResponseWriter: w, left: c.after()}, r)
}

type cutResponse struct {
	http.ResponseWriter
	left int
}

func (c *cutResponse) Write(p []byte) (int, error) {
	if c.left < 0 || len(p) <= c.left {
		n, err := c.ResponseWriter.Write(p)
		if c.left >= 0 {
			c.left -= n
		}
		return n, err
	}
	_, _ = c.ResponseWriter.Write(p[:c.left])
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	panic(http.ErrAbortHandler)
}

// wire is a transport without sockets, for bubbles of synctest.
type wire func(r *http.Request) (*http.Response, error)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

// answerOf makes the response of a handler, whose body is then read from where it ends.
func answerOf(h http.Handler, r *http.Request, body func([]byte) io.ReadCloser) *http.Response {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	res := rec.Result()
	whole := rec.Body.Bytes()
	res.ContentLength = int64(len(whole))
	if res.Header.Get("Date") == "" {
		res.Header.Set("Date", longAgo.Add(time.Hour).Format(http.TimeFormat))
	}
	res.Body = body(whole)
	return res
}

func plainBody(p []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(p)) }

// brokenBody ends amid the bytes.
func brokenBody(after int) func(p []byte) io.ReadCloser {
	return func(p []byte) io.ReadCloser {
		if after >= len(p) {
			return plainBody(p)
		}
		return io.NopCloser(io.MultiReader(bytes.NewReader(p[:after]), failing{errors.New("the connection is broken")}))
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// hangingBody stops amid the bytes until the request ends.
func hangingBody(ctx context.Context, after int) func(p []byte) io.ReadCloser {
	return func(p []byte) io.ReadCloser {
		return io.NopCloser(io.MultiReader(bytes.NewReader(p[:min(after, len(p))]), hanging{ctx}))
	}
}

type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) {
	<-h.ctx.Done()
	return 0, fmt.Errorf("reading: %w", h.ctx.Err())
}
