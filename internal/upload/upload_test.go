package upload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// An origin is a server that answers the tries of a test one after the other, the last answer to all further ones.
type origin struct {
	*httptest.Server
	answers []http.HandlerFunc
	mu      sync.Mutex
	tries   int
	heads   []http.Header
	bodies  []string
}

func serve(t *testing.T, answers ...http.HandlerFunc) *origin {
	o := &origin{answers: answers}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.tries++
		o.heads = append(o.heads, r.Header.Clone())
		answer := o.answers[min(o.tries, len(o.answers))-1]
		o.mu.Unlock()
		answer(w, r)
	}))
	o.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetReadBuffer(smallBuffer)
		return ctx
	}
	o.Start()
	t.Cleanup(o.Close)
	return o
}

// takes answers with a status when all has come.
func (o *origin) takes(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		o.bodies = append(o.bodies, string(p))
		w.Header().Set("Etag", `"tag"`)
		w.WriteHeader(status)
	}
}

// refuses answers at once.
func refuses(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, text, status)
	}
}

// breaks ends the connection after so many bytes of the body.
func breaks(after int64) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, after)
		panic(http.ErrAbortHandler)
	}
}

func quick(url string) Config {
	cfg := Defaults()
	cfg.URL, cfg.Backoff, cfg.StallTimeout = url, time.Millisecond, 5*time.Second
	return cfg
}

const (
	// smallBuffer is what the kernel keeps for an origin at most, or a few times as much.
	smallBuffer = 64 << 10

	// beyondBuffers is more than that and what the kernel keeps for a client together (tcp_wmem: 4 MiB).
	beyondBuffers = 20_000_000
)

func TestRun(t *testing.T) {
	// More than the kernel's buffers take: what fits into them has been sent when a connection breaks.
	value := strings.Repeat("0123456789", beyondBuffers/10)
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(status int, text string) []http.HandlerFunc {
		return []http.HandlerFunc{refuses(status, text), nil}
	}
	for name, tt := range map[string]struct {
		answers []http.HandlerFunc // nil: takes it with 201
		path    string             // "": standard input
		tries   int
		err     string // "": none
	}{
		"at once":        {path: file, tries: 1},
		"nothing":        {path: empty, tries: 1},
		"standard input": {tries: 1},
		"busy": {
			answers: []http.HandlerFunc{refuses(503, "later"), refuses(429, "later"), nil}, path: file, tries: 3,
		},
		"busy, and nothing was read": {answers: refused(503, "later"), tries: 2},
		"broken off": {
			answers: []http.HandlerFunc{breaks(0), breaks(1), breaks(1 << 20), nil}, path: file, tries: 4,
		},
		"broken off amid standard input": {
			answers: []http.HandlerFunc{breaks(1 << 20), nil}, tries: 1, err: "cannot be read again",
		},
		"no answer":            {answers: []http.HandlerFunc{breaks(1 << 30), nil}, path: file, tries: 1, err: "nobody knows"},
		"no answer to nothing": {answers: []http.HandlerFunc{breaks(1 << 30), nil}, path: empty, tries: 1, err: "nobody knows"},
		"busy for ever":        {answers: refused(503, "later")[:1], path: file, tries: 6, err: "--retries 5"},
		"unsure":               {answers: refused(500, "perhaps"), path: file, tries: 1, err: "perhaps"},
		"too large": {
			answers: refused(413, "too\x1b[1m much"), path: file, tries: 1,
			err: `413 Request Entity Too Large: "too\x1b[1m much"`,
		},
		"a 200 of something else": {
			answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `{"stream":"x"}`)
			}}, path: file, tries: 1, err: "is that the URL of a blob?",
		},
		"no token": {answers: refused(401, "show it"), path: file, tries: 1, err: "show it"},
		"elsewhere": {answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://elsewhere.example/")
			w.WriteHeader(307)
		}, nil}, path: file, tries: 1, err: "elsewhere.example"},
		"taken for granted": {answers: refused(200, ""), path: file, tries: 1, err: "which are not all"},
		"no file":           {path: file + "none", err: "no such file"},
		"a directory":       {path: filepath.Dir(file), err: "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			o := serve(t)
			o.answers = []http.HandlerFunc{o.takes(201)}
			if tt.answers != nil {
				o.answers = tt.answers
				for i, a := range o.answers {
					if a == nil {
						o.answers[i] = o.takes(201)
					}
				}
			}
			cfg := quick(o.URL)
			cfg.Path, cfg.Stdin = tt.path, strings.NewReader(value)
			last := int64(0)
			cfg.Progress = func(sent, of int64) {
				if of != int64(len(value)) && tt.path == file || of != unknown && tt.path == "" {
					t.Errorf("%d of %d", sent, of)
				}
				last = sent
			}
			result, err := Run(t.Context(), cfg)
			want := value
			if tt.path == empty {
				want = ""
			}
			if tt.err == "" {
				if err != nil || !result.Created || result.ETag != `"tag"` || result.Bytes != int64(len(want)) || last != result.Bytes {
					t.Errorf("%+v, %v, %d told", result, err, last)
				}
				if len(o.bodies) != 1 || o.bodies[0] != want {
					t.Errorf("%d bodies came", len(o.bodies))
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			if result.Tries != tt.tries || o.tries != tt.tries {
				t.Errorf("%d tries, and %d came, want %d", result.Tries, o.tries, tt.tries)
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	o := serve(t)
	o.answers = []http.HandlerFunc{o.takes(204), refuses(412, "")}
	cfg := quick(o.URL)
	cfg.Stdin, cfg.Token, cfg.TTL, cfg.IfAbsent = strings.NewReader("value"), "secret", 90*time.Second, true
	if result, err := Run(t.Context(), cfg); err != nil || result.Created {
		t.Errorf("%+v, %v", result, err)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer secret", "Millrace-Ttl": "90000ms", "If-None-Match": "*", "Expect": "100-continue",
	} {
		if got := o.heads[0].Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	cfg.Stdin = strings.NewReader("value")
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--if-absent") {
		t.Errorf("%v", err)
	}
}

// A server that is not there yet is waited for.
func TestAServerThatComesLater(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close()
	o := &origin{}
	cfg := quick("http://" + addr)
	cfg.Stdin = strings.NewReader("value")
	cfg.Note = func(text string) {
		if !strings.Contains(text, "refused") || !strings.Contains(text, "trying again") {
			t.Errorf("told: %s", text)
		}
		if ln, err = net.Listen("tcp", addr); err != nil {
			t.Fatal(err)
		}
		o.Server = &httptest.Server{Listener: ln, Config: &http.Server{Handler: o.takes(201)}}
		o.Start()
		t.Cleanup(o.Close)
	}
	if result, err := Run(t.Context(), cfg); err != nil || result.Tries != 2 {
		t.Errorf("%+v, %v", result, err)
	}
}

// A server that takes nothing, or says nothing, ends a try. Time that standard input takes does not.
func TestStalls(t *testing.T) {
	release := make(chan struct{})
	o := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	})
	defer close(release)
	cfg := quick(o.URL)
	cfg.StallTimeout = 100 * time.Millisecond
	cfg.Stdin = strings.NewReader("value")
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--stall-timeout") ||
		!strings.Contains(err.Error(), "nobody knows") {
		t.Errorf("%v", err)
	}

	taken := serve(t)
	taken.answers = []http.HandlerFunc{taken.takes(201)}
	cfg.URL = taken.URL
	r, w := io.Pipe()
	go func() {
		for range 4 {
			time.Sleep(50 * time.Millisecond)
			_, _ = io.WriteString(w, "slow ")
		}
		_ = w.Close()
	}()
	cfg.Stdin, cfg.StallTimeout = r, 150*time.Millisecond
	if _, err := Run(t.Context(), cfg); err != nil {
		t.Error(err)
	}
}

func TestReadingFails(t *testing.T) {
	o := serve(t)
	o.answers = []http.HandlerFunc{o.takes(201)}
	cfg := quick(o.URL)
	why := errors.New("the disk is gone")
	cfg.Stdin = io.MultiReader(bytes.NewReader(make([]byte, 100_000)), iotest.ErrReader(why))
	if _, err := Run(t.Context(), cfg); !errors.Is(err, why) || o.tries != 1 {
		t.Errorf("%v after %d tries", err, o.tries)
	}
}

// Whoever has pressed Ctrl-C is told once that it was pressed, whether a try is under way or the next one is waited for.
func TestInterrupted(t *testing.T) {
	o := serve(t)
	o.answers = []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(503)
	}}
	why := errors.New("interrupt signal received")
	for _, when := range []string{"at once", "while it waits"} {
		cfg := quick(o.URL)
		cfg.Stdin = strings.NewReader("")
		ctx, cancel := context.WithCancelCause(t.Context())
		if when == "at once" {
			cancel(why)
		}
		cfg.Note = func(string) { cancel(why) }
		if _, err := Run(ctx, cfg); !errors.Is(err, why) || err.Error() != "interrupted" {
			t.Errorf("%s: %v", when, err)
		}
		cancel(nil)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"no http or https": func(c *Config) { c.URL = "ftp://user:secret@host/" },
		"cannot be read":   func(c *Config) { c.URL = "http://user:secret@host:port/" },
		"--ttl":            func(c *Config) { c.TTL = -1 },
		"--retries":        func(c *Config) { c.Retries = -1 },
		"--stall-timeout":  func(c *Config) { c.StallTimeout = 0 },
		"nothing to read":  func(c *Config) { c.Stdin = nil },
	} {
		cfg := quick("http://127.0.0.1/")
		cfg.Stdin = strings.NewReader("")
		change(&cfg)
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
