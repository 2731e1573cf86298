//go:build unix

package millrace_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// streamConn is what *net.TCPConn and *net.UnixConn have in common.
type streamConn interface {
	net.Conn
	CloseWrite() error
}

// sockets makes a connected pair of each kind of socket that a Reader waits for.
var sockets = map[string]func(t testing.TB) (client, server streamConn){
	"tcp": func(t testing.TB) (client, server streamConn) { return tcpPair(t) },
	"tcp4": func(t testing.TB) (client, server streamConn) {
		c, s := dialPair(t, "tcp4", "127.0.0.1:0")
		return c.(streamConn), s.(streamConn)
	},
	"unix": func(t testing.TB) (client, server streamConn) {
		c, s := dialPair(t, "unix", filepath.Join(t.TempDir(), "s"))
		return c.(streamConn), s.(streamConn)
	},
}

// dialPair returns the two ends of a connection, which are closed when the test ends.
func dialPair(t testing.TB, network, address string) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func onSockets(t *testing.T, test func(t *testing.T, client, server streamConn)) {
	for name, pair := range sockets {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t)
			test(t, client, server)
		})
	}
}

func TestReaderHoldsNoBlockWhileItWaits(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		pool := millrace.NewPool()
		for name, call := range waiting {
			r := pool.NewReader(client, 4096)
			server.Write([]byte("x"))
			if err := r.Skip(1); err != nil {
				t.Fatal(err)
			}
			if pool.Stats().InUse == 0 {
				t.Fatal("no block in use after a read")
			}
			done := make(chan error)
			go func() { done <- call(r) }()
			until(t, name+" waits without a block", func() bool { return pool.Stats().InUse == 0 })
			client.SetReadDeadline(time.Unix(1, 0))
			if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			client.SetReadDeadline(time.Time{})
			r.Release()
		}
	})
}

// Reading goes on after a deadline, wherever it strikes, and the error is the one that the connection gives.
func TestReaderDeadline(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		for name, call := range waiting {
			for _, when := range []string{"before", "while"} {
				r := millrace.NewReader(client)
				client.SetReadDeadline(time.Unix(1, 0))
				if when == "while" {
					client.SetReadDeadline(time.Now().Add(time.Millisecond))
				}
				err := call(r)
				sameError(t, name+", deadline "+when, err, socketError(name, client))
				var timeout net.Error
				if !errors.As(err, &timeout) || !timeout.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s: %#v is no timeout", name, err)
				}
				client.SetReadDeadline(time.Time{})
				server.Write([]byte("text"))
				if b, err := r.Peek(4); string(b) != "text" || err != nil {
					t.Errorf("%s: after the deadline: %q, %v", name, b, err)
				}
				r.Discard(4)
				r.Release()
			}
		}
	})
}

// socketError returns what the connection's own Read gives, or, for WriteTo, its own WriteTo, as with a bufio.Reader.
func socketError(call string, conn net.Conn) error {
	if strings.HasPrefix(call, "WriteTo") {
		_, err := bufio.NewReader(conn).WriteTo(io.Discard)
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// sameError compares two errors in type, text and content.
func sameError(t testing.TB, what string, got, want error) {
	t.Helper()
	if want == nil || !reflect.DeepEqual(got, want) || got.Error() != want.Error() {
		t.Errorf("%s:\n got %v\n     %#v\nwant %v\n     %#v", what, got, got, want, want)
	}
}

func TestReaderOfAClosedSocket(t *testing.T) {
	for network, pair := range sockets {
		for name, call := range waiting {
			pool := millrace.NewPool()
			client, server := pair(t)
			r := pool.NewReader(client, 4096)
			server.Write([]byte("x"))
			r.Skip(1)
			done := make(chan error)
			go func() { done <- call(r) }()
			until(t, network+", "+name+" waits", func() bool { return pool.Stats().InUse == 0 })
			client.Close()
			err := <-done
			want := socketError(name, client)
			sameError(t, network+", "+name+", closed while it waits", err, want)
			sameError(t, network+", "+name+", closed before", call(r), want)
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v is not net.ErrClosed", name, err)
			}
			r.Release()
		}
	}
}

func TestReaderAtTheEndOfASocket(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		r := millrace.NewReader(client)
		defer r.Release()
		server.Write([]byte("last words"))
		server.CloseWrite()
		if b, err := io.ReadAll(r); string(b) != "last words" || err != nil {
			t.Errorf("read %q, %v", b, err)
		}
		for name, call := range waiting {
			want := io.EOF
			if strings.HasPrefix(name, "WriteTo") {
				want = nil
			}
			if err := call(r); err != want {
				t.Errorf("%s at the end: %v", name, err)
			}
		}
	})
}

func TestReaderOfAResetConnection(t *testing.T) {
	reset := func(read func(c net.Conn) error) (*net.TCPConn, error) {
		client, server := tcpPair(t)
		server.SetLinger(0)
		server.Close()
		return client, read(client)
	}
	_, want := reset(func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err })
	if !errors.Is(want, syscall.ECONNRESET) {
		t.Skip("this system does not tell that a connection was reset: ", want)
	}
	client, got := reset(func(c net.Conn) error {
		r := millrace.NewReader(c)
		defer r.Release()
		_, err := r.ReadByte()
		return err
	})
	// The two connections differ in their ports.
	op := *want.(*net.OpError)
	op.Source, op.Addr = client.LocalAddr(), client.RemoteAddr()
	sameError(t, "reset", got, &op)
}

// What was read last cannot be unread into a block that the Reader gave up to wait, and that may be somebody else's by
// now. Was a bug with UnreadRune.
func TestReaderUnreadRuneAfterWaiting(t *testing.T) {
	pool := millrace.NewPool()
	client, server := tcpPair(t)
	r := pool.NewReader(client, 4096)
	server.Write([]byte("kept, é"))
	var c millrace.Chain
	if err := r.ReadChain(&c, 6); err != nil {
		t.Fatal(err)
	}
	r.ReadRune()
	client.SetReadDeadline(time.Unix(1, 0))
	r.Read(make([]byte, 1)) // as with bufio, a Read that fails takes the rune away
	client.SetReadDeadline(time.Now().Add(time.Millisecond))
	r.Read(make([]byte, 1))
	c.Release()
	others := pool.Get(4096) // very likely that block
	for i := range others.Bytes() {
		others.Bytes()[i] = 0xa9 // the last byte of é
	}
	if err := r.UnreadRune(); err == nil {
		t.Errorf("the rune can be unread; %d bytes are buffered, %d bytes of the pool in use", r.Buffered(), pool.Stats().InUse)
	}
	client.SetReadDeadline(time.Time{})
	if err := r.UnreadByte(); err != nil {
		t.Error(err)
	}
	server.Write([]byte("!"))
	if b, err := r.Peek(2); string(b) != "\xa9!" || err != nil {
		t.Errorf("%q, %v comes next", b, err)
	}
	if bytes.Count(others.Bytes(), []byte{0xa9}) != 4096 {
		t.Error("the Reader wrote into a block that is lent to somebody else")
	}
	others.Release()
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}
