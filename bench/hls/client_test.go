package hls

import (
	"compress/gzip"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestClient(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20_000)
	mux := http.NewServeMux()
	mux.HandleFunc("/length", func(w http.ResponseWriter,
		r *http.Request) {
		io.WriteString(w, r.URL.RawQuery)
	})
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, large[:100])
		http.NewResponseController(w).Flush()
		io.WriteString(w, large[100:])
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			http.Error(w, "not acceptable", http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, large)
		z.Close()
	})
	var connections atomic.Int64
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	c, err := connect(t.Context(), srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for range 2 {
		for _, test := range []struct{ path, query, want string }{
			{"/length", "?_HLS_msn=1", "_HLS_msn=1"}, {"/length", "", ""}, {"/chunked", "", large},
			{"/gzip", "", large},
		} {
			raw, gzipped, err := c.getText(test.path, test.query)
			if err != nil || gzipped != (test.path == "/gzip") {
				t.Fatalf("%s: gzip %t, %v, want gzip only where the server uses it", test.path,
					gzipped, err)
			}
			if got, err := plainText(raw, gzipped); string(got) != test.want || err != nil {
				t.Errorf("%s: %d bytes, %v, want %d", test.path, len(got), err, len(test.want))
			}
		}
		var status *statusError
		if _, _, err := c.getText("/none", ""); !errors.As(err, &status) || status.status != 404 ||
			len(c.kept) > 0 {
			t.Errorf("%v, with %q, want status 404 and nothing kept", err, c.kept)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestClientRefuses uses a server with responses that the client does not accept.
func TestClientRefuses(t *testing.T) {
	for answer, want := range map[string]error{
		"":                                                      io.EOF,
		"HTTP/1.1 200 OK\r\nContent":                            io.ErrUnexpectedEOF,
		"HTTP/1.0 200 OK\r\n\r\n":                               errHTTP,
		"HTTP/1.1 2x0 OK\r\n\r\n":                               errHTTP,
		"HTTP/1.1 200 OK\r\nA: b\r\n\r\nx":                      errHTTP, // no length
		"HTTP/1.1 200 OK\r\n\r\n":                               errHTTP,
		"HTTP/1.1 200\r\nA: b\r\n\r\nx":                         errHTTP,
		"SSH-2.0-OpenSSH_9.9\r\n":                               errHTTP,
		"HTTP/1.1 200 OK\r\n" + length + "-1\r\n\r\n":           errHTTP,
		"HTTP/1.1 200 OK\r\n" + length + "9\r\n\r\nx":           io.ErrUnexpectedEOF,
		"HTTP/1.1 200 OK\r\n" + chunked + "\r\nx\r\n":           errHTTP,
		"HTTP/1.1 200 OK\r\n" + chunked + "\r\n1\r\nxy\r\n":     errHTTP,
		"HTTP/1.1 200 OK\r\n" + chunked + "\r\n1\r\nx\r\n0\r\n": io.EOF,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if conn, err := l.Accept(); err == nil {
				defer conn.Close()
				conn.Read(make([]byte, 4096)) // reads the request
				io.WriteString(conn, answer)
			}
		}()
		c, err := connect(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.getText("/", ""); !errors.Is(err, want) {
			t.Errorf("%q: error %v, want %v", answer, err, want)
		}
		c.close()
		l.Close()
		<-done
	}
}

const (
	length  = "content-length: "
	chunked = "Transfer-Encoding: chunked\r\n"
)
