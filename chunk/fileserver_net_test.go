package chunk_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
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

// TestFileServerConnection sends requests as they are on the wire, and compares with http.FileServer.
func TestFileServerConnection(t *testing.T) {
	root, _ := makeTree(t, tree)
	url, _ := serve(t, tagged(chunk.FileServer(root), ""), false, false)
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

// TestFileServerWithoutASlash: a mux may leave a path that does not begin with a slash.
func TestFileServerWithoutASlash(t *testing.T) {
	root, _ := makeTree(t, tree)
	h := chunk.FileServer(root)
	for path, want := range map[string]int{"plain.txt": 200, "dir/a.txt": 200, "nothing": 404, "": 200} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		if w := serveTo(h, r); w.Code != want {
			t.Errorf("%q: %d, want %d", path, w.Code, want)
		}
	}
}

// TestFileServerServed: OnServed hears of every request, once, with what was sent, and Sent adds up.
func TestFileServerServed(t *testing.T) {
	root, _ := makeTree(t, tree)
	var log []string
	h := chunk.FileServer(root, chunk.OnServed(func(r *http.Request, sent chunk.Report, status int) {
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
	ask("GET", "/large.bin", "bytes=0-4")
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
	want := "GET /plain.txt 200 29|HEAD /plain.txt 200 0|GET /large.bin 206 5|GET /large.bin 416 0|GET /nothing 404 0|" +
		"GET /dir 301 0|GET /dir/ 403 0|GET /plain.txt 200 0"
	if got := strings.Join(log, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if s := h.Sent(); s.Bytes != s.Copied || s.Bytes < 29+5 {
		t.Errorf("%+v", s)
	}
}
