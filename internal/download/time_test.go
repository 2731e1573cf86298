package download

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A try that gets nothing for the stall timeout ends, be it for a header or for bytes; the next one goes on.
func TestStalls(t *testing.T) {
	content := noise(1, 1000)
	synctest.Test(t, func(t *testing.T) {
		s := &site{content: content, etag: `"v1"`}
		tries := 0
		f := newFetch(t, "http://example.org/file")
		f.Client = &http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
			switch tries++; tries {
			case 1: // no answer
				<-r.Context().Done()
				return nil, r.Context().Err()
			case 2:
				return answerOf(s, r, hangingBody(r.Context(), 600)), nil
			}
			return answerOf(s, r, plainBody), nil
		})}
		began := time.Now()
		f.succeeds(t.Context(), content)
		if took := time.Since(began); took < 2*f.StallTimeout || took > 2*f.StallTimeout+time.Second || tries != 3 {
			t.Errorf("%d tries in %v", tries, took)
		}
		f.told("nothing came for 30s (--stall-timeout)")
	})
}

// dripping gives a byte at a time, at intervals.
type dripping struct {
	io.Reader
	ctx   context.Context
	pause time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.pause):
		return d.Reader.Read(p[:1])
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// What comes slowly comes, for hours; and a slow target is not a stall.
func TestSlowIsNotStalled(t *testing.T) {
	content := noise(1, 500)
	synctest.Test(t, func(t *testing.T) {
		s := &site{content: content, etag: `"v1"`}
		f := newFetch(t, "http://example.org/file")
		f.Client = &http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
			return answerOf(s, r, func(p []byte) io.ReadCloser {
				return io.NopCloser(&dripping{bytes.NewReader(p), r.Context(), 29 * time.Second})
			}), nil
		})}
		if r := f.succeeds(t.Context(), content); r.Tries != 1 {
			t.Errorf("%+v", r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &site{content: content, etag: `"v1"`}
		var out slowWriter
		f := newFetch(t, "http://example.org/file")
		f.Path, f.Stdout = "", &out
		f.Client = &http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
			return answerOf(s, r, func(p []byte) io.ReadCloser {
				return io.NopCloser(&dripping{bytes.NewReader(p), r.Context(), 0})
			}), nil
		})}
		if r, err := Run(t.Context(), f.Config); err != nil || r.Tries != 1 || !bytes.Equal(out.Bytes(), content) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// slowWriter takes an hour for each write.
type slowWriter struct{ bytes.Buffer }

func (w *slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Hour)
	return w.Buffer.Write(p)
}

// The time between tries doubles from a second on, is scattered by half, and is the server's wish if that is longer, up to
// a minute.
func TestBackoff(t *testing.T) {
	for _, tt := range []struct {
		wish     string
		min, max time.Duration
	}{
		{"", 31 * time.Second / 2, 31 * time.Second},
		{"20", 100 * time.Second, 100 * time.Second},
		{"86400", 5 * time.Minute, 5 * time.Minute},
		{"soon", 31 * time.Second / 2, 31 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFetch(t, "http://example.org/file")
			f.Backoff = Defaults().Backoff
			f.Client = &http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
				return answerOf(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", tt.wish)
					http.Error(w, "busy", http.StatusServiceUnavailable)
				}), r, plainBody), nil
			})}
			began := time.Now()
			r := f.fails(t.Context(), "given up after 6 tries", `503 Service Unavailable: "busy"`)
			if took := time.Since(began); r.Tries != 6 || took < tt.min || took > tt.max {
				t.Errorf("Retry-After %q: %d tries in %v", tt.wish, r.Tries, took)
			}
		})
	}
}

func TestInterruptedBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		f := newFetch(t, "http://example.org/file")
		f.Backoff = time.Hour
		f.Client = &http.Client{Transport: wire(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })}
		began := time.Now()
		f.fails(ctx, "interrupted")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("after %v", took)
		}
	})
}

// sparing says as little of lengths as a server may.
func sparing(res *http.Response) *http.Response {
	res.ContentLength = -1
	if text := res.Header.Get("Content-Range"); res.StatusCode == http.StatusPartialContent {
		part, _, _ := strings.Cut(text, "/")
		res.Header.Set("Content-Range", part+"/*")
	}
	return res
}

// A server that breaks off, stalls, is busy, forgets ranges, sends parts of parts, keeps lengths to itself or changes the
// file as it likes, while runs are interrupted, and get another signature, as users like: what is called a file in the end is a version that there was, whole.
func TestRandomly(t *testing.T) {
	for seed := range uint64(120) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			s := &site{}
			versions := make(map[string]bool)
			change := func() {
				p := noise(byte(rnd.Uint32()), rnd.IntN(3000))
				versions[string(p)] = true
				s.change(p, fmt.Sprintf(`"%x"`, rnd.Uint64()))
			}
			change()
			f := newFetch(t, "http://example.org/file")
			f.Retries = rnd.IntN(4)
			f.Client = &http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
				if rnd.IntN(8) == 0 {
					change()
				}
				switch rnd.IntN(8) {
				case 0:
					return nil, errors.New("the connection is refused")
				case 1:
					return answerOf(http.NotFoundHandler(), r, plainBody), nil
				case 2:
					return answerOf(s, r, hangingBody(r.Context(), rnd.IntN(3000))), nil
				case 3:
					r.Header.Del("Range")
				case 4:
					return answerOf(s, r, plainBody), nil
				case 5:
					return sparing(answerOf(s, r, brokenBody(rnd.IntN(3000)))), nil
				case 6:
					if from, ok := strings.CutSuffix(r.Header.Get("Range"), "-"); ok {
						n, _ := digits(strings.TrimPrefix(from, "bytes="))
						r.Header.Set("Range", fmt.Sprintf("%s-%d", from, n+rnd.Int64N(1000)))
					}
					return sparing(answerOf(s, r, plainBody)), nil
				}
				return answerOf(s, r, brokenBody(rnd.IntN(3000))), nil
			})}
			for range 100 {
				f.URL = fmt.Sprintf("http://example.org/file?signature=%d", rnd.IntN(2))
				f.Force = rnd.IntN(2) == 0
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(100))*time.Second)
				_, err := Run(ctx, f.Config)
				cancel()
				p, missing := os.ReadFile(f.Path)
				if err == nil {
					if missing != nil || !versions[string(p)] {
						t.Fatalf("seed %d: %d bytes that never were a version, %v", seed, len(p), missing)
					}
					if names := strings.Join(f.names(), " "); names != "file" {
						t.Fatalf("seed %d: %s", seed, names)
					}
					return
				}
				if missing == nil {
					t.Fatalf("seed %d: there is a file in spite of %v", seed, err)
				}
			}
			t.Errorf("seed %d: no file after 100 runs", seed)
		})
	}
}

// A connection that breaks after much has come costs little time, and one that breaks after little costs what the backoff
// says, so that the server is not asked without a pause either way.
func TestBackoffAfterProgress(t *testing.T) {
	for _, tt := range []struct {
		piece    int
		min, max time.Duration // of ten breaks
	}{
		{much, 10 * time.Second / fraction / 2, 10 * time.Second / fraction},
		{much - 1, 5 * time.Second, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			content := noise(1, 10*tt.piece+1)
			s := &site{content: content, etag: `"v1"`}
			f := newFetch(t, "http://example.org/file")
			f.Backoff, f.Retries = Defaults().Backoff, 1
			f.Client = &http.Client{Transport: wire(func(r *http.Request) (*http.Response, error) {
				return answerOf(s, r, brokenBody(tt.piece)), nil
			})}
			began := time.Now()
			r := f.succeeds(t.Context(), content)
			if took := time.Since(began); r.Tries != 11 || took < tt.min || took > tt.max {
				t.Errorf("%d bytes a try: %d tries in %v", tt.piece, r.Tries, took)
			}
		})
	}
}
