package chunk_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// A wrapper is a middleware that wraps a response. Each is also used around others.
type wrapper struct {
	name string
	wrap func(w http.ResponseWriter) (wrapped http.ResponseWriter, done func())
	slow bool // the body must pass through it
}

var wrappers = []wrapper{
	{"none", func(w http.ResponseWriter) (http.ResponseWriter, func()) { return w, func() {} },
		false},
	{"log", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		l := &logged{ResponseWriter: w}
		return l, func() {
			if l.status == 0 {
				panic("a middleware has not seen the status")
			}
		}
	}, false},
	{"hooks", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		h := &hooked{ResponseWriter: w}
		return h, func() {
			if h.bytes == 0 {
				panic("a middleware has not seen the bytes")
			}
		}
	}, false},
	{"opaque", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		return struct{ http.ResponseWriter }{w}, func() {}
	}, true},
	{"round", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		return &round{w}, func() {}
	}, true},
	{"keeps the header", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		k := &keeper{ResponseWriter: w}
		return k, k.pass
	}, false},
	{"zips, says so first", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		w.Header().Set("Content-Encoding", "gzip")
		z := newZipper(w)
		z.zip()
		return z, z.close
	}, true},
	{"zips, says so with the status", func(w http.ResponseWriter) (http.ResponseWriter, func()) {
		z := newZipper(w)
		z.decide = true
		return z, z.close
	}, true},
	{"zips, says so with the first bytes", func(w http.ResponseWriter) (http.ResponseWriter,
		func()) {
		w.Header().Add("Vary", "Origin, Accept-Encoding")
		z := newZipper(w)
		return z, z.close
	}, true},
}

// logged is a typical middleware for an access log.
type logged struct {
	http.ResponseWriter
	status int
}

func (l *logged) WriteHeader(status int) {
	l.status = status
	l.ResponseWriter.WriteHeader(status)
}

func (l *logged) Write(p []byte) (int, error) {
	if l.status == 0 {
		l.status = http.StatusOK
	}
	return l.ResponseWriter.Write(p)
}

func (l *logged) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// hooked counts the bytes of each method, as generated wrappers do.
type hooked struct {
	http.ResponseWriter
	bytes int64
}

func (h *hooked) Write(p []byte) (int, error) {
	n, err := h.ResponseWriter.Write(p)
	h.bytes += int64(n)
	return n, err
}

func (h *hooked) ReadFrom(r io.Reader) (int64, error) {
	n, err := h.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
	h.bytes += n
	return n, err
}

func (h *hooked) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// keeper is a middleware that may still add to the header until the body begins.
type keeper struct {
	http.ResponseWriter
	status int
	passed bool
}

func (k *keeper) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

func (k *keeper) Write(p []byte) (int, error) {
	k.pass()
	return k.ResponseWriter.Write(p)
}

// pass writes the kept bytes at the end.
func (k *keeper) pass() {
	if k.passed {
		return
	}
	k.passed = true
	k.Header().Set("X-Kept", "yes")
	if k.status != 0 {
		k.ResponseWriter.WriteHeader(k.status)
	}
}

func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// round is a wrapper whose Unwrap returns itself.
type round struct{ http.ResponseWriter }

func (r *round) Unwrap() http.ResponseWriter { return r }

// zipper compresses the body, although it has an Unwrap method.
type zipper struct {
	http.ResponseWriter
	z      *gzip.Writer
	decide bool // decides when the status is written
	status int
}

func newZipper(w http.ResponseWriter) *zipper { return &zipper{ResponseWriter: w} }

func (z *zipper) zip() {
	z.Header().Set("Content-Encoding", "gzip")
	z.Header().Del("Content-Length")
	z.z = gzip.NewWriter(z.ResponseWriter)
}

func (z *zipper) WriteHeader(status int) {
	z.status = status
	if z.decide && z.z == nil {
		z.zip()
	}
	if z.z != nil {
		z.Header().Del("Content-Length")
		z.ResponseWriter.WriteHeader(status)
	}
}

func (z *zipper) Write(p []byte) (int, error) {
	if z.status == 0 {
		z.WriteHeader(http.StatusOK)
	}
	if z.z == nil && len(p) > 0 {
		z.zip()
		z.ResponseWriter.WriteHeader(z.status)
	}
	if z.z == nil {
		return 0, nil
	}
	return z.z.Write(p)
}

func (z *zipper) close() {
	if z.z != nil {
		_ = z.z.Close()
	}
}

func (z *zipper) Unwrap() http.ResponseWriter { return z.ResponseWriter }

// serveWith serves handler, wrapped by a middleware, over HTTP/1. It returns the server's address.
func serveWith(t testing.TB, m wrapper, handler http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wrapped, done := m.wrap(w)
		handler(wrapped, r)
		done()
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // some tests cause errors
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// fetch returns the answer to a request and its body.
func fetch(t testing.TB, method, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	resp, body, err := tryFetch(t, method, url, header...)
	must(t, err)
	return resp, body
}

func tryFetch(t testing.TB, method, url string, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

// client follows no redirects and keeps no connections, so that nothing is left after a test.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// The kernel copies a file. It also copies from a connection, if the handler declares the length.
func TestCopyToResponse(t *testing.T) {
	const size = 300_000
	data := someBytes(size)
	for _, m := range wrappers {
		zips := strings.HasPrefix(m.name, "zips")
		for _, src := range copySources {
			isFile := src.name == "file"
			for _, declared := range []bool{false, true} {
				if !isFile && (src.kind != "stream" && src.kind != "pipe" || zips && declared) {
					continue // a middleware that compresses would have to remove the length
				}
				t.Run(m.name+", "+src.name+", declared "+strconv.FormatBool(declared),
					func(t *testing.T) {
						in := src.open(t, data)
						reports := make(chan chunk.Report, 1)
						url := serveWith(t, m, func(w http.ResponseWriter, r *http.Request) {
							if declared {
								w.Header().Set("Content-Length", strconv.Itoa(size))
							}
							report, err := chunk.Copy(r.Context(), w, in)
							if err != nil {
								t.Error(err)
							}
							reports <- report
						})
						resp, body := fetch(t, "GET", url)
						if resp.StatusCode != http.StatusOK || !bytes.Equal(body, data) {
							t.Errorf("%s, %d bytes, want 200 and the data", resp.Status, len(body))
						}
						if isFile && !zips && resp.ContentLength != size {
							t.Errorf("Content-Length %d, want %d", resp.ContentLength, size)
						}
						want := chunk.Report{Bytes: size, Copied: size}
						switch fast := !m.slow && runtime.GOOS == "linux"; {
						case fast && isFile:
							want.Sendfile, want.Copied = size-512, 512
						case fast && declared && src.kind == "stream":
							want.Splice, want.Copied = size, 0
						}
						report := <-reports
						if report != want {
							t.Errorf("%+v, want %+v", report, want)
						}
						if err := report.FastPath(); (err == nil) != (want.Copied <= 512) {
							t.Errorf("%+v: FastPath = %v, want an error if bytes were copied",
								report, err)
						}
					})
			}
		}
	}
}

// Content-Length is set if the length is known, and only then.
func TestCopyDeclaresTheLength(t *testing.T) {
	data := someBytes(100_000)
	for _, test := range []struct {
		name   string
		src    func() io.Reader
		before func(w http.ResponseWriter)
		want   int64
		bytes  int
	}{
		{"file", func() io.Reader { return fileOf(t, data) }, nil, 100_000, 100_000},
		{"part of a file", func() io.Reader { return io.LimitReader(fileOf(t, data), 60_000) }, nil,
			60_000, 60_000},
		{"section", func() io.Reader { return io.NewSectionReader(fileOf(t, data), 99_000, 5000) },
			nil, 1000, 1000},
		{"bytes", func() io.Reader { return bytes.NewReader(data) }, nil, 100_000, 100_000},
		{"buffer", func() io.Reader { return bytes.NewBuffer(data) }, nil, 100_000, 100_000},
		{"string", func() io.Reader { return strings.NewReader(string(data)) }, nil, 100_000,
			100_000},
		{"limited", func() io.Reader { return io.LimitReader(bytes.NewReader(data), 50_000) }, nil,
			50_000, 50_000},
		{"reader", func() io.Reader { return struct{ io.Reader }{bytes.NewReader(data)} }, nil, -1,
			100_000},
		{"header written", func() io.Reader { return fileOf(t, data) },
			func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusOK)
			}, -1, 100_000},
		{"body begun", func() io.Reader { return fileOf(t, data) }, func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "first")
		}, -1, 100_005},
		{"encoded", func() io.Reader { return fileOf(t, data) }, func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "br")
		}, 100_000, 100_000},
		{"trailer", func() io.Reader { return fileOf(t, data) }, func(w http.ResponseWriter) {
			w.Header().Set("Trailer", "Digest")
		}, -1, 100_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := serveWith(t, wrappers[0], func(w http.ResponseWriter, r *http.Request) {
				if test.before != nil {
					test.before(w)
				}
				// This is not the request's context: after the header of a HEAD response the client
				// closes the connection.
				if _, err := chunk.Copy(context.Background(), w, test.src()); err != nil {
					t.Error(err)
				}
			})
			resp, body := fetch(t, "GET", url)
			if resp.ContentLength != test.want || len(body) != test.bytes {
				t.Errorf("Content-Length %d, %d bytes", resp.ContentLength, len(body))
			}
			if resp, body := fetch(t, "HEAD", url); len(body) != 0 ||
				resp.ContentLength != test.want {
				t.Errorf("HEAD: Content-Length %d, %d bytes", resp.ContentLength, len(body))
			}
		})
	}
}

// Over TLS and HTTP/2, every byte is copied in user space, and arrives.
func TestCopyToSealedResponse(t *testing.T) {
	data := someBytes(300_000)
	for _, tr := range transports[1:] {
		url, client := tr.open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			report, err := chunk.Copy(r.Context(), w, fileOf(t, data))
			if err != nil || report.Copied != int64(len(data)) {
				t.Errorf("%s: %+v, %v, want all bytes copied", r.Proto, report, err)
			}
		}))
		resp, err := client.Get(url)
		must(t, err)
		if got := newReply(t, resp); got.body != string(data) ||
			resp.ContentLength != int64(len(data)) {
			t.Errorf("%s: %d bytes of %d", tr.name, len(got.body), resp.ContentLength)
		}
	}
}

// A body that was cut off never looks complete, whether its length was known or not.
func TestCopyToResponseThatIsCancelled(t *testing.T) {
	data := someBytes(16 << 20)
	for _, declared := range []bool{false, true} {
		for {
			raw, report := cancelledResponse(t, data, declared)
			if report.Bytes == 0 {
				// The context ended before the copy began, so the handler could still choose the
				// response.
				continue
			}
			if !declared && bytes.HasSuffix(raw, []byte("\r\n0\r\n\r\n")) {
				t.Error("the body was ended as if it were complete")
			}
			if len(raw) >= len(data) {
				t.Error("all of it was sent")
			}
			break
		}
	}
}

// cancelledResponse cancels the copy of data to a client that reads only afterwards. It returns the
// raw response.
func cancelledResponse(t *testing.T, data []byte, declared bool) (raw []byte, report chunk.Report) {
	f := fileOf(t, data)
	done := make(chan struct{})
	url := serveWith(t, wrappers[0], func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		if !declared {
			w.WriteHeader(http.StatusOK)
		}
		ctx, cancel := context.WithTimeout(r.Context(), soon)
		defer cancel()
		var err error
		if report, err = chunk.Copy(ctx, w, f); err != context.DeadlineExceeded {
			t.Errorf("Copy = %+v, %v, want context.DeadlineExceeded", report, err)
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	must(t, err)
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-done // before it reads
	if report.Bytes > 0 {
		raw, _ = io.ReadAll(conn)
	}
	return raw, report
}

// An uncomparable response is a middleware's struct value with a map.
type uncomparable struct {
	http.ResponseWriter
	_ map[string]string
}

func (u uncomparable) Unwrap() http.ResponseWriter { return u.ResponseWriter }

type uncomparableReaderFrom struct{ uncomparable }

func (u uncomparableReaderFrom) ReadFrom(r io.Reader) (int64, error) {
	return u.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
}

// A middleware's response may have a type that cannot be compared.
func TestCopyToAnUncomparableResponse(t *testing.T) {
	data := someBytes(100_000)
	name := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrap := range []func(u uncomparable) http.ResponseWriter{
		func(u uncomparable) http.ResponseWriter { return u },
		func(u uncomparable) http.ResponseWriter { return uncomparableReaderFrom{u} },
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			w = wrap(uncomparable{ResponseWriter: w})
			if _, err := chunk.Copy(r.Context(), w, f); err != nil {
				t.Error(err)
			}
		}))
		resp, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		server.Client().CloseIdleConnections()
		server.Close()
	}
}
