package chunk_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// accepted returns a connection that a Listener has accepted, and its peer.
func accepted(t *testing.T) (own *chunk.Conn, peer *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = dialled.Close() })
	c, err := chunk.Listener{Listener: l}.Accept()
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.(*chunk.Conn), dialled.(*net.TCPConn)
}

// TestListenerOthers: what is not TCP stays as it is, and so does an error.
func TestListenerOthers(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // the name of a socket is short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	own := chunk.Listener{Listener: l}
	dialled, err := net.Dial("unix", l.Addr().String())
	must(t, err)
	defer dialled.Close()
	c, err := own.Accept()
	must(t, err)
	defer c.Close()
	if _, ok := c.(*net.UnixConn); !ok {
		t.Errorf("a %T, want the *net.UnixConn", c)
	}
	must(t, own.Close())
	if c, err := own.Accept(); c != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, %v; want no connection and net.ErrClosed", c, err)
	}
}

// TestConnHeld: what is written while it is held comes, in order, with what is written next; and a panic ends the hold.
func TestConnHeld(t *testing.T) {
	own, peer := accepted(t)
	var want []byte
	for i := range 300 {
		part := bytes.Repeat([]byte{byte(i)}, 1+i*37%5000)
		write := own.Write
		if i%3 != 2 {
			write = own.WriteHeld
		}
		n, err := write(part)
		if n != len(part) || err != nil {
			t.Fatalf("%d bytes of %d, %v", n, len(part), err)
		}
		want = append(want, part...)
		if i%3 != 2 {
			continue
		}
		got := make([]byte, len(want))
		_, err = io.ReadFull(peer, got)
		must(t, err)
		if !bytes.Equal(got, want) {
			t.Fatalf("after %d writes, other bytes have come", i+1)
		}
		want = want[:0]
	}
	func() {
		defer func() { _ = recover() }()
		own.HoldAndPanic()
	}()
	if own.Held() {
		t.Error("still held after a panic")
	}
}

// TestConnHeldFails: a peer that takes nothing, and a connection that is closed, give the errors that Write gives.
func TestConnHeldFails(t *testing.T) {
	own, peer := accepted(t)
	must(t, own.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	sent, part := 0, make([]byte, 1<<20)
	for {
		n, err := own.WriteHeld(part)
		sent += n
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v, want the deadline", err)
			}
			break
		}
	}
	must(t, own.Close())
	if n, err := own.WriteHeld(part); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %d bytes, %v", n, err)
	}
	got, err := io.Copy(io.Discard, peer)
	must(t, err)
	if got != int64(sent) {
		t.Errorf("%d bytes came of %d that were counted", got, sent)
	}

	own, peer = accepted(t)
	must(t, peer.SetLinger(0))
	must(t, peer.Close()) // a reset
	for {
		n, err := own.WriteHeld(part)
		if op := new(net.OpError); err != nil {
			if n != 0 || !errors.As(err, &op) || op.Op != "write" || op.Timeout() {
				t.Errorf("after a reset: %d bytes, %v", n, err)
			}
			break
		}
	}
}

// TestListenerHijack: who takes the connection over finds the *net.TCPConn in it.
func TestListenerHijack(t *testing.T) {
	got := make(chan net.Conn, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		got <- c
	}))
	s.Listener = chunk.Listener{Listener: s.Listener}
	s.Start()
	defer s.Close()
	peer := open(t, s.URL)
	_, err := io.WriteString(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	must(t, err)
	c, ok := (<-got).(*chunk.Conn)
	if !ok || c.TCPConn == nil {
		t.Fatalf("%T", c)
	}
	must(t, c.TCPConn.Close())
}
