package chunk_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/chunk"
	"golang.org/x/sys/unix"
)

type connKey struct{}

// connOf returns the connection of a request that serveKnown serves.
func connOf(r *http.Request) syscall.Conn {
	c := r.Context().Value(connKey{}).(net.Conn)
	if sealed, ok := c.(*tls.Conn); ok {
		c = sealed.NetConn()
	}
	return c.(syscall.Conn)
}

// serveKnown starts a server whose handler can ask connOf.
func serveKnown(t *testing.T, h http.Handler, listener, sealed bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if listener {
		s.Listener = chunk.Listener{Listener: s.Listener}
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of statuses that are written twice
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	if sealed {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// notSent returns how many bytes the kernel has not sent yet.
func notSent(t *testing.T, c syscall.Conn) (n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }))
	must(t, err)
	return n
}

// TestHeaderWaitsForNothing: where net/http knows that there is no body, which the handler does not, the header leaves at
// once.
func TestHeaderWaitsForNothing(t *testing.T) {
	root, _ := makeTree(t, nil)
	for _, name := range []string{"a", "long"} {
		must(t, root.WriteFile(name, make([]byte, map[string]int{"a": 5000, "long": 4 << 20}[name]), 0o644))
	}
	files := newFiles(t, root)
	for name, ask := range map[string]func(w http.ResponseWriter, r *http.Request){
		"HEAD taken for GET": func(w http.ResponseWriter, r *http.Request) {
			get := r.Clone(r.Context())
			get.Method = "GET"
			files.ServeHTTP(w, get)
		},
		"status 204": func(w http.ResponseWriter, r *http.Request) { files.ServeHTTP(settingWriter{w, 204, ""}, r) },
		"status 304": func(w http.ResponseWriter, r *http.Request) { files.ServeHTTP(settingWriter{w, 304, ""}, r) },
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan int, 1)
			s := serveKnown(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ask(w, r)
				left <- notSent(t, connOf(r))
			}), true, false)
			method := map[bool]string{true: "HEAD", false: "GET"}[strings.HasPrefix(name, "HEAD")]
			for _, path := range []string{"/a", "/long"} {
				req, err := http.NewRequest(method, s.URL+path, nil)
				must(t, err)
				res, err := s.Client().Do(req)
				must(t, err)
				_ = res.Body.Close()
				if n := <-left; n != 0 {
					t.Errorf("%s: %d bytes are not sent when the handler returns", path, n)
				}
			}
		})
	}
}

// TestStatusWithoutBody: over HTTP/2, such an answer is whole too.
func TestStatusWithoutBody(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"a": "hello", "long": strings.Repeat("a", 100_000)})
	files := newFiles(t, root)
	for _, status := range []int{204, 304} {
		for _, name := range []string{"/a", "/long"} {
			var answers []string
			for _, h := range []http.Handler{files, reference(root, "")} {
				url, client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					h.ServeHTTP(settingWriter{w, status, "Content-Length"}, r)
				}), true, true)
				res, err := client.Get(url + name)
				must(t, err)
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				answers = append(answers, fmt.Sprint(res.Proto, res.Status, len(body), err))
			}
			if answers[0] != answers[1] || !strings.HasSuffix(answers[0], "0 <nil>") {
				t.Errorf("%s: %s, with http.FileServer %s", name, answers[0], answers[1])
			}
		}
	}
}

// A flushingWriter is a middleware's that sends bodies bit by bit. See flushingReader.
type flushingWriter struct {
	http.ResponseWriter
	flushed func()
}

func (w flushingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w flushingWriter) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 {
		n, err := w.ResponseWriter.Write(p[:min(len(p), 3000)])
		if done += n; err != nil {
			return done, err
		}
		p = p[n:]
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		w.flushed()
	}
	return done, nil
}

// A flushingReader has a ReadFrom as well.
type flushingReader struct{ flushingWriter }

func (w flushingReader) ReadFrom(src io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w.flushingWriter}, src)
}

// TestFlushIsOne: what a middleware has flushed is sent, and not held back to leave with more.
func TestFlushIsOne(t *testing.T) {
	root, _ := makeTree(t, nil)
	lengths := []int{4 << 10, 16_000} // the client need not have read anything for these to be sent
	for _, n := range lengths {
		must(t, root.WriteFile(fmt.Sprint(n), make([]byte, n), 0o644))
	}
	files := newFiles(t, root)
	for _, listener := range []bool{false, true} {
		for _, sealed := range []bool{false, true} {
			for _, reads := range []bool{false, true} {
				t.Run(fmt.Sprintf("listener %v, TLS %v, ReadFrom %v", listener, sealed, reads), func(t *testing.T) {
					var flushes, held atomic.Int64
					s := serveKnown(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						f := flushingWriter{w, func() {
							flushes.Add(1)
							held.Add(int64(notSent(t, connOf(r))))
						}}
						w = f
						if reads {
							w = flushingReader{f}
						}
						files.ServeHTTP(w, r)
					}), listener, sealed)
					for _, n := range lengths {
						res, err := s.Client().Get(fmt.Sprint(s.URL, "/", n))
						must(t, err)
						body, err := io.ReadAll(res.Body)
						must(t, err)
						must(t, res.Body.Close())
						if len(body) != n {
							t.Errorf("%d bytes of %d", len(body), n)
						}
					}
					if (reads || sealed) && flushes.Load() == 0 || held.Load() > 0 { // without ReadFrom, the kernel sends the file past it
						t.Errorf("%d flushes, after which %d bytes were not sent", flushes.Load(), held.Load())
					}
				})
			}
		}
	}
}

// TestHeaderWaitsWithColdBody: a header that leaves with its body does so when that comes from the disk, and is not held by
// the kernel meanwhile.
func TestHeaderWaitsWithColdBody(t *testing.T) { bySight(t, headerWaitsWithColdBody) }

func headerWaitsWithColdBody(t *testing.T) {
	needSamples(t)
	contents := map[string]string{"short": strings.Repeat("a", 40_000), "long": strings.Repeat("a", 6<<20)}
	root, dir := makeTree(t, contents)
	tuner := chunk.NewTuner(chunk.WorkersBetween(1, 1))
	files := chunk.FileServer(root, chunk.ColdReadersBy(tuner))
	defer files.Close()
	for name, content := range contents {
		for _, listener := range []bool{false, true} {
			chill(t, filepath.Join(dir, name))
			must(t, tuner.Acquire(t.Context()))
			held := make(chan int, 1)
			s := serveKnown(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				go func() {
					for tuner.Stats().Waiting == 0 {
						runtime.Gosched()
					}
					held <- notSent(t, connOf(r))
					tuner.Release()
				}()
				files.ServeHTTP(w, r)
			}), listener, false)
			res, err := s.Client().Get(s.URL + "/" + name)
			must(t, err)
			got, err := io.ReadAll(res.Body)
			must(t, res.Body.Close())
			if err != nil || string(got) != content {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if n := <-held; n > 0 {
				t.Errorf("%s, listener %v: %d bytes are held while the disk is waited for", name, listener, n)
			}
		}
	}
}

// TestHeaderWithoutType: what net/http would find out from the first bytes it finds out.
func TestHeaderWithoutType(t *testing.T) {
	root, _ := makeTree(t, nil)
	for _, n := range []int{8 << 10, 64 << 10, 256 << 10, 5 << 20} {
		page := "<!doctype html><title>a</title>" + strings.Repeat("a", n)
		must(t, root.WriteFile(fmt.Sprint(n), []byte(page[:n]), 0o644))
	}
	for name, before := range map[string]func(w http.ResponseWriter) http.ResponseWriter{
		"deleted":                func(w http.ResponseWriter) http.ResponseWriter { return settingWriter{w, 200, "Content-Type"} },
		"the status comes first": func(w http.ResponseWriter) http.ResponseWriter { w.WriteHeader(404); return w },
	} {
		for _, listener := range []bool{false, true} {
			for _, n := range []int{8 << 10, 64 << 10, 256 << 10, 5 << 20} {
				var types []string
				for _, h := range []http.Handler{newFiles(t, root), reference(root, "")} {
					s := serveKnown(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						h.ServeHTTP(before(w), r)
					}), listener, false)
					res, err := s.Client().Get(fmt.Sprint(s.URL, "/", n))
					must(t, err)
					_ = res.Body.Close()
					types = append(types, res.Header.Get("Content-Type"))
				}
				if types[0] != types[1] || types[0] == "" {
					t.Errorf("%s, %d bytes, listener %v: %q, with http.FileServer %q", name, n, listener, types[0], types[1])
				}
			}
		}
	}
}
