// Package nettest has helpers for tests of servers: connections with small buffers, free ports, a
// log in memory, and waiting.
package nettest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"regexp"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Timeout is the longest time that Eventually waits.
const Timeout = time.Minute

// plainPath matches paths that need no quotes in any configuration, and that are short enough for
// Unix sockets. The address of a Unix socket has at most 104 bytes on macOS and 108 on Linux, and
// Chromium appends 46 bytes to the path.
var plainPath = regexp.MustCompile(`^[-+./0-9A-Z_a-z]{1,40}$`)

// MkdirPlain creates a directory for Unix sockets and for configuration files of other programs.
// Unlike [testing.T.TempDir], its path is short and needs no quotes. If the path of TMPDIR is too
// long or needs quotes, MkdirPlain uses /tmp. The caller must remove the directory.
func MkdirPlain() (string, error) {
	parent := os.TempDir()
	if runtime.GOOS != "windows" && !plainPath.MatchString(parent) {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "millrace")
}

// PlainDir creates a directory like MkdirPlain, and removes it when the test ends.
func PlainDir(t testing.TB) string {
	t.Helper()
	dir, err := MkdirPlain()
	if err != nil {
		t.Fatal(err)
	}
	// The removal may fail at first, because the children of a killed program may still write
	// files.
	t.Cleanup(func() {
		Eventually(t, "removing "+dir, func() bool { return os.RemoveAll(dir) == nil })
	})
	return dir
}

// A LogBook is an io.Writer that stores a log in memory.
type LogBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends a copy of p to the log.
func (l *LogBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the whole log.
func (l *LogBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Eventually waits until the function ok returns true. If that takes longer than Timeout,
// Eventually fails the test. The parameter what describes the condition in the failure message.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Timeout); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", Timeout, what)
		}
	}
}

// TCPPair returns the two ends of a connection. If small is set, the kernel buffers are as small as
// possible.
func TCPPair(t testing.TB, small bool) (sender, receiver *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	rcvbuf := 0
	if small {
		rcvbuf = 1
	}
	receiver = Dial(t, ln.Addr().String(), rcvbuf)
	other, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	sender = other.(*net.TCPConn)
	if small {
		_ = sender.SetWriteBuffer(1)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender, receiver
}

// Dial opens a TCP connection, which is closed when the test ends. If rcvbuf is not 0, Dial sets
// the receive buffer to rcvbuf bytes and limits the segments to 536 bytes. A larger segment might
// not fit into a small buffer, and the kernel would then delay it by 200 ms.
func Dial(t testing.TB, addr string, rcvbuf int) *net.TCPConn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if rcvbuf == 0 {
			return nil
		}
		ctlErr := raw.Control(func(fd uintptr) { err = narrow(fd, rcvbuf) })
		return errors.Join(err, ctlErr)
	}}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// Same fails the test if got and want differ. The message does not contain their bytes.
func Same(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: %d bytes, want %d; they differ from byte %d on", what, len(got), len(want), i)
}
