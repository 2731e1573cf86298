package chunk_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// open connects to the server at a URL.
func open(t testing.TB, url string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// TestFileServerOneDescriptor has a thousand connections download one file at the same time: it is open once.
func TestFileServerOneDescriptor(t *testing.T) {
	const downloads = 1000
	root, _ := makeTree(t, map[string]string{"a.bin": ""})
	// More than a socket takes, so that all downloads are under way when the files are counted.
	content := bytes.Repeat(letters, 64)
	must(t, root.WriteFile("a.bin", content, 0o644))
	h := newFiles(t, root)
	url, _ := serve(t, h, false, false)
	conns := make([]*net.TCPConn, downloads)
	for i := range conns {
		conns[i] = open(t, url)
		must(t, conns[i].SetReadBuffer(64<<10))
	}
	before := openOf(t, "a.bin")
	for _, c := range conns {
		_, err := io.WriteString(c, "GET /a.bin HTTP/1.1\r\nHost: x\r\nRange: bytes=0-16777215\r\n\r\n")
		must(t, err)
	}
	bodies := make([]*http.Response, downloads)
	for i, c := range conns {
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		bodies[i] = res
	}
	if open := h.Stats().Open; open != 1 {
		t.Errorf("%d files are open, want 1", open)
	}
	if now := openOf(t, "a.bin"); now-before != 1 && now >= 0 {
		t.Errorf("/proc/self/fd has it %d times, want once", now-before)
	}
	// The bytes of some are enough; all others give up, which must not disturb them.
	var wg sync.WaitGroup
	for i, res := range bodies {
		if i%250 != 0 {
			_ = conns[i].Close()
			continue
		}
		wg.Go(func() {
			if got, err := io.ReadAll(res.Body); err != nil || !bytes.Equal(got, content[:len(got)]) || len(got) != 16<<20 {
				t.Errorf("download %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
}

// openOf returns how many descriptors of this process lead to a file of that name, or -1 if the system does not tell.
func openOf(t *testing.T, name string) (n int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Log(err)
		return -1
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasSuffix(to, "/"+name) {
			n++
		}
	}
	return n
}

// TestFileServerConnection sends requests as they are on the wire, and compares with http.FileServer.
func TestFileServerConnection(t *testing.T) {
	root, _ := makeTree(t, tree)
	url, _ := serve(t, newFiles(t, root), false, false)
	want, _ := serve(t, reference(root, ""), false, false)
	get := func(path, version, more string) string {
		return "GET " + path + " HTTP/" + version + "\r\nHost: x\r\n" + more + "\r\n"
	}
	end := "Connection: close\r\n"
	for name, request := range map[string]string{
		"1.0":            get("/plain.txt", "1.0", ""),
		"1.0 large":      get("/large.bin", "1.0", ""),
		"1.0 keep-alive": get("/large.bin", "1.0", "Connection: keep-alive\r\n") + get("/plain.txt", "1.0", ""),
		"keep-alive":     get("/large.bin", "1.1", "") + get("/plain.txt", "1.1", end),
		"pipelined": get("/plain.txt", "1.1", "") + get("/large.bin", "1.1", "") + get("/nothing", "1.1", "") +
			get("/dir", "1.1", "") + get("/large.bin", "1.1", "Range: bytes=5-200000\r\n") + get("/empty", "1.1", "") +
			"HEAD /large.bin HTTP/1.1\r\nHost: x\r\n\r\n" + get("/plain.txt", "1.1", end),
		"body":          "POST /large.bin HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + get("/plain.txt", "1.1", end),
		"100-continue":  "POST /plain.txt HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n" + end + "\r\nhello",
		"absolute form": get("http://x/plain.txt", "1.1", end),
		"no slash":      get("http://x", "1.1", "If-Modified-Since: Thu, 29 Feb 2025 12:30:15 GMT\r\nIf-Modified-Since: x\r\n"+end+"X: y\r\n"),
		"backslashes":   get("/..\\..\\etc\\passwd", "1.1", end),
		"two ranges":    get("/plain.txt", "1.1", "Range: bytes=0-1\r\nRange: bytes=5-6\r\n"+end),
		"null":          get("/%00", "1.1", end),
		"star":          "OPTIONS * HTTP/1.1\r\nHost: x\r\n" + end + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, expected := converse(t, url, request), converse(t, want, request)
			switch name {
			case "null", "no slash":
				return // 404 and not 500; and a list with a length
			}
			if got != expected {
				t.Errorf("%.300q\nwant\n%.300q", got, expected)
			}
		})
	}
}

// converse sends bytes and returns all that comes back, without the dates.
func converse(t *testing.T, url, request string) string {
	t.Helper()
	c := open(t, url)
	_, err := io.WriteString(c, request)
	must(t, err)
	must(t, c.CloseWrite())
	all, err := io.ReadAll(c)
	must(t, err)
	var b strings.Builder
	for line := range strings.Lines(string(all)) {
		if !strings.HasPrefix(line, "Date: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// A logger is middleware that can be unwrapped, as most of it.
type logger struct {
	http.ResponseWriter
	status int
}

func (l *logger) WriteHeader(status int)      { l.status = status; l.ResponseWriter.WriteHeader(status) }
func (l *logger) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// A hider is middleware that cannot.
type hider struct{ http.ResponseWriter }

// A packer compresses what passes.
type packer struct {
	http.ResponseWriter
	w *gzip.Writer
}

func (p *packer) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *packer) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// TestFileServerBehindMiddleware: the body is the same behind each, and OnServed tells which of them have lost the fast path.
func TestFileServerBehindMiddleware(t *testing.T) {
	root, _ := makeTree(t, tree)
	var served atomic.Pointer[chunk.Report]
	done := make(chan struct{}, 1)
	h := newFiles(t, root, chunk.OnServed(func(_ *http.Request, sent chunk.Report, status int) {
		served.Store(&sent)
		done <- struct{}{}
	}))
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("GET /files/", http.StripPrefix("/files", h))
	mux.Handle("GET /one/{file}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r2 := r.Clone(r.Context())
		r2.URL.Path = r.PathValue("file") // without a slash
		h.ServeHTTP(w, r2)
	}))
	wrap := func(f func(w http.ResponseWriter, r *http.Request)) http.Handler { return http.HandlerFunc(f) }
	for _, c := range []struct {
		name, path string
		h          http.Handler
		fast       bool
	}{
		{"alone", "/large.bin", h, true},
		{"mux", "/large.bin", mux, true},
		{"prefix", "/files/large.bin", mux, true},
		{"no slash", "/one/large.bin", mux, true},
		{"logger", "/large.bin", wrap(func(w http.ResponseWriter, r *http.Request) {
			l := &logger{ResponseWriter: w}
			h.ServeHTTP(l, r)
			if l.status != 200 {
				t.Errorf("the logger saw %d", l.status)
			}
		}), true},
		{"two loggers", "/large.bin", wrap(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(&logger{ResponseWriter: &logger{ResponseWriter: w}}, r)
		}), true},
		{"hider", "/large.bin", wrap(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(hider{w}, r) }), false},
		{"packer", "/large.bin", wrap(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			p := &packer{w, gzip.NewWriter(w)}
			h.ServeHTTP(p, r)
			_ = p.w.Close()
		}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, client := serve(t, c.h, false, false)
			res, err := client.Get(url + c.path)
			must(t, err)
			defer res.Body.Close()
			var body io.Reader = res.Body
			if res.Header.Get("Content-Encoding") == "gzip" {
				body, err = gzip.NewReader(body)
				must(t, err)
			} else if res.ContentLength != int64(len(letters)) {
				t.Errorf("Content-Length is %d", res.ContentLength)
			}
			got, err := io.ReadAll(body)
			if err != nil || !bytes.Equal(got, letters) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			<-done
			sent := served.Load()
			if sent.Bytes != int64(len(letters)) {
				t.Errorf("%+v, want %d bytes", sent, len(letters))
			}
			if chunk.CanSendfile && (sent.FastPath() == nil) != c.fast {
				t.Errorf("%+v, %v; want fast: %v", sent, sent.FastPath(), c.fast)
			}
		})
	}
}

// TestFileServerServed: OnServed hears of every request, once, with what was sent, and Stats adds up.
func TestFileServerServed(t *testing.T) {
	root, _ := makeTree(t, tree)
	var log []string
	h := newFiles(t, root, chunk.OnServed(func(r *http.Request, sent chunk.Report, status int) {
		log = append(log, fmt.Sprintf("%s %s %d %d", r.Method, r.URL.Path, status, sent.Bytes))
	}), chunk.Listing(false))
	ask := func(method, path, ranges string) {
		r := httptest.NewRequest(method, path, nil)
		if ranges != "" {
			r.Header.Set("Range", ranges)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	ask("GET", "/plain.txt", "")
	ask("HEAD", "/plain.txt", "")
	ask("GET", "/large.bin", "bytes=0-4,10-19")
	ask("GET", "/large.bin", "bytes=x")
	ask("GET", "/nothing", "")
	ask("GET", "/dir", "")
	ask("GET", "/dir/", "")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of a Write got lost")
			}
		}()
		w := &probe{ResponseRecorder: httptest.NewRecorder(), at: func() { panic(http.ErrAbortHandler) }}
		h.ServeHTTP(w, httptest.NewRequest("GET", "/plain.txt", nil))
	}()
	want := "GET /plain.txt 200 29|HEAD /plain.txt 200 0|GET /large.bin 206 15|GET /large.bin 416 0|GET /nothing 404 0|" +
		"GET /dir 301 0|GET /dir/ 403 0|GET /plain.txt 200 0"
	if got := strings.Join(log, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if s := h.Stats(); s.Requests != 8 || s.Sent.Bytes != 44 || s.Sent.Copied != 44 {
		t.Errorf("%+v", s)
	}
	if problem := h.CheckDescriptors(); problem != "" {
		t.Error(problem)
	}
}
