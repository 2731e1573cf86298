package upload

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rude answers each connection by talk and closes it, whatever has not been read.
func rude(t *testing.T, talk func(c net.Conn, r *bufio.Reader)) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for line := ""; line != "\r\n"; { // the head
					if line, err = r.ReadString('\n'); err != nil {
						return
					}
				}
				talk(c, r)
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); all.Wait() })
	return "http://" + ln.Addr().String()
}

// zeroFile returns a file of so many bytes.
func zeroFile(t *testing.T, size int64) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "zeros")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	return path
}

const tooFull = "HTTP/1.1 507 Insufficient Storage\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\nno room"

// An answer in the place of 100 Continue is told, also if the connection is gone right after it.
func TestEarlyAnswers(t *testing.T) {
	file := zeroFile(t, 10<<20)
	for answer, says := range map[string]string{
		"HTTP/1.1 200 OK\r\n\r\n":                                                                       "200 after 0 bytes",
		"HTTP/1.1 204 No Content\r\nEtag: \"x\"\r\n\r\n":                                                "204 after 0 bytes",
		"HTTP/1.1 503 x\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n":                                 "given up after 1 try (--retries 0): the server answers 503 Service Unavailable",
		"HTTP/1.1 302 x\r\nLocation: http://else.example/\r\nContent-Length: 0\r\n\r\n":                 "else.example",
		"HTTP/1.1 500 x\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n\x1b[31mred\xff\xfe\n": `500 Internal Server Error: "\x1b[31mred`,
		"HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n":                                 "412 Precondition Failed",
		tooFull:           `507 Insufficient Storage: "no room"`,
		"garbage\r\n\r\n": "malformed HTTP",
		"":                "EOF",
	} {
		url := rude(t, func(c net.Conn, _ *bufio.Reader) { _, _ = io.WriteString(c, answer) })
		for range 10 {
			cfg := quick(url)
			cfg.Path, cfg.Retries = file, 0
			if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
				t.Fatalf("%q: %v, want %q", answer, err, says)
			}
		}
	}
}

// An answer amid the body is told, also if the server resets the connection right after it.
func TestAnswersAmidTheBody(t *testing.T) {
	file := zeroFile(t, 10<<20)
	for _, most := range []int64{1, 64 << 10, 1 << 20} {
		url := rude(t, func(c net.Conn, r *bufio.Reader) {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
			_, _ = io.CopyN(io.Discard, r, most)
			_, _ = io.WriteString(c, tooFull)
		})
		for range 20 {
			cfg := quick(url)
			cfg.Path, cfg.Retries = file, 0
			if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), `507 Insufficient Storage: "no room"`) {
				t.Fatalf("after %d bytes: %v", most, err)
			}
		}
	}
}

// A file that becomes shorter while it is sent cannot have been accepted, and is not sent again.
func TestAFileThatBecomesShorter(t *testing.T) {
	o := serve(t)
	o.answers = []http.HandlerFunc{o.takes(201)}
	cfg := quick(o.URL)
	cfg.Path = zeroFile(t, 10<<20)
	cfg.Progress = func(int64, int64) { _ = os.Truncate(cfg.Path, 5<<20) }
	result, err := Run(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "shorter") || strings.Contains(err.Error(), "nobody knows") || result.Tries != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	if len(o.bodies) > 0 {
		t.Errorf("a body of %d bytes was taken", len(o.bodies[0]))
	}
}

// A write that fails waits for what can still be read, for whoever closes the connection, and for no longer than answerWait.
func TestConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			end  func(c net.Conn)
			wait time.Duration
		}{
			"read to its end": {func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, time.Millisecond},
			"closed":          {func(c net.Conn) { _ = c.Close() }, time.Millisecond},
			"nothing":         {func(net.Conn) {}, answerWait},
		} {
			here, there := net.Pipe()
			_ = there.Close()
			c := &conn{Conn: here, read: make(chan struct{})}
			began := time.Now()
			time.AfterFunc(time.Millisecond, func() { tt.end(c) })
			if _, err := c.Write([]byte("x")); err == nil || time.Since(began) != tt.wait {
				t.Errorf("%s: %v after %v", name, err, time.Since(began))
			}
			_ = c.Close()
		}
	})
}
