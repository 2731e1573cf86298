package chunk_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
	"golang.org/x/sys/unix"
)

// packets returns how many packets with data have come.
func packets(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	var info *unix.TCPInfo
	var failed error
	must(t, raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }))
	must(t, failed)
	return int(info.Data_segs_in)
}

// TestHeaderLeavesWithBody counts the packets of answers on one connection. A packet on loopback holds 64 KiB.
func TestHeaderLeavesWithBody(t *testing.T) {
	root, _ := makeTree(t, nil)
	lengths := []int{1, 4 << 10, 5000, 16 << 10, 40_000}
	for _, n := range lengths {
		must(t, root.WriteFile(fmt.Sprint(n), make([]byte, n), 0o644))
	}
	for _, c := range []struct {
		name string
		open func(t *testing.T) string
	}{
		{"with a Listener", func(t *testing.T) string {
			url, _ := serve(t, newFiles(t, root), false, false)
			return url
		}},
		{"without", func(t *testing.T) string {
			url, _ := clientOf(t, httptest.NewServer(newFiles(t, root)))
			return url
		}},
		{"behind a middleware", func(t *testing.T) string {
			h := newFiles(t, root)
			url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(statusWriter{w}, r)
			}), false, false)
			return url
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := open(t, c.open(t))
			before := 0
			for _, n := range lengths {
				least := 9
				for range 5 { // the kernel waits for 200 ms, which on a busy machine may be over
					_, err := fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", n)
					must(t, err)
					readAnswer(t, conn, n)
					now := packets(t, conn)
					least, before = min(least, now-before), now
				}
				if least != 1 {
					t.Errorf("%d bytes: %d packets, want 1", n, least)
				}
			}
		})
	}
}

// A statusWriter is a middleware's.
type statusWriter struct{ http.ResponseWriter }

func (s statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// readAnswer reads a header and n bytes after it, and no more.
func readAnswer(t *testing.T, c io.Reader, n int) {
	t.Helper()
	end, b := 0, make([]byte, 1)
	for end < 4 {
		_, err := io.ReadFull(c, b)
		must(t, err)
		if b[0] == "\r\n\r\n"[end] {
			end++
		} else {
			end = 0
		}
	}
	_, err := io.CopyN(io.Discard, c, int64(n))
	must(t, err)
}

// TestRecordsLeaveTogether counts the packets of answers over TLS: each of the four or five records would be one.
func TestRecordsLeaveTogether(t *testing.T) {
	root, _ := makeTree(t, nil)
	lengths := []int{16 << 10, 40_000}
	for _, n := range lengths {
		must(t, root.WriteFile(fmt.Sprint(n), make([]byte, n), 0o644))
	}
	own := httptest.NewUnstartedServer(newFiles(t, root))
	own.Listener = chunk.Listener{Listener: own.Listener}
	plain := httptest.NewUnstartedServer(newFiles(t, root))
	for name, s := range map[string]*httptest.Server{"with a Listener": own, "without": plain} {
		t.Run(name, func(t *testing.T) {
			s.StartTLS()
			t.Cleanup(s.Close)
			tcp := open(t, strings.TrimPrefix(s.URL, "https://"))
			conn := tls.Client(tcp, &tls.Config{InsecureSkipVerify: true})
			get := func(n int) {
				_, err := fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", n)
				must(t, err)
				readAnswer(t, conn, n)
			}
			get(lengths[0]) // and whatever ends the handshake
			before := packets(t, tcp)
			for _, n := range lengths {
				least := 9
				for range 5 {
					get(n)
					now := packets(t, tcp)
					least, before = min(least, now-before), now
				}
				if least != 1 {
					t.Errorf("%d bytes: %d packets, want 1", n, least)
				}
			}
		})
	}
}

// A settingWriter is a middleware's that has its own opinion about status and header.
type settingWriter struct {
	http.ResponseWriter
	status int
	drops  string
}

func (s settingWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s settingWriter) WriteHeader(int) {
	s.Header().Del(s.drops)
	s.ResponseWriter.WriteHeader(s.status)
}

// TestHijackedBefore: a handler that is called when the connection is somebody else's writes nothing, and does not panic.
func TestHijackedBefore(t *testing.T) {
	root, _ := makeTree(t, nil)
	must(t, root.WriteFile("a", make([]byte, 5000), 0o644))
	files := newFiles(t, root)
	panicked := make(chan any, 1)
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { panicked <- recover() }()
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		files.ServeHTTP(w, r)
	}), false, false)
	conn := open(t, url)
	_, err := io.WriteString(conn, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	must(t, err)
	got, err := io.ReadAll(conn)
	must(t, err)
	if p := <-panicked; p != nil || len(got) > 0 {
		t.Errorf("panic %v, and %d bytes", p, len(got))
	}
}

// TestCopyConn: Copy knows the connection in a Conn, as target and as source.
func TestCopyConn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	content := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
	must(t, os.WriteFile(name, content, 0o644))
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()

	first, firstPeer := accepted(t)
	second, secondPeer := accepted(t)
	report, err := chunk.Copy(context.Background(), first, f)
	if err != nil || report.Sendfile != int64(len(content)) {
		t.Errorf("from a file: %+v, %v", report, err)
	}
	must(t, first.CloseWrite())
	go func() {
		_, _ = io.Copy(secondPeer, firstPeer)
		_ = secondPeer.CloseWrite()
	}()
	third, thirdPeer := accepted(t)
	report, err = chunk.Copy(context.Background(), third, second)
	if err != nil || report.Splice != int64(len(content)) {
		t.Errorf("from a connection: %+v, %v", report, err)
	}
	must(t, third.CloseWrite())
	got, err := io.ReadAll(thirdPeer)
	must(t, err)
	if !bytes.Equal(got, content) {
		t.Errorf("%d other bytes", len(got))
	}
}
