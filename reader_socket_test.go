//go:build unix

package millrace_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// sockets returns a connected pair of each kind of socket that a Reader waits for without a block.
// Both are closed when the test ends.
var sockets = map[string]func(t testing.TB) (client, server streamConn){
	"tcp": func(t testing.TB) (client, server streamConn) { return nettest.TCPPair(t, false) },
	"unix": func(t testing.TB) (client, server streamConn) {
		l := must(net.Listen("unix", filepath.Join(nettest.PlainDir(t), "s")))
		defer l.Close()
		c, s := must(net.Dial("unix", l.Addr().String())), must(l.Accept())
		t.Cleanup(func() { c.Close(); s.Close() })
		return c.(streamConn), s.(streamConn)
	},
}

func onSockets(t *testing.T, test func(t *testing.T, client, server streamConn)) {
	for name, pair := range sockets {
		t.Run(name, func(t *testing.T) {
			client, server := pair(t)
			test(t, client, server)
		})
	}
}

// A waiting call holds no block. If a deadline or a close ends the wait, the call returns the
// connection's error. After a deadline, reading continues.
func TestReaderHoldsNoBlockWhileItWaits(t *testing.T) {
	for network, pair := range sockets {
		for name, call := range waiting {
			for end, is := range map[string]error{"deadline": os.ErrDeadlineExceeded,
				"close": net.ErrClosed} {
				what := network + ", " + name + ", " + end
				pool := newPool(t)
				client, server := pair(t)
				r := pool.NewReader(client, 4096)
				server.Write([]byte("x"))
				if err := r.Skip(1); err != nil || pool.Stats().InUse == 0 {
					t.Fatalf("%s: %v, %d bytes in use after a read", what, err, pool.Stats().InUse)
				}
				done := make(chan error)
				go func() { done <- call(r) }()
				nettest.Eventually(t, what+": no block in use",
					func() bool { return pool.Stats().InUse == 0 })
				if end == "close" {
					client.Close()
				} else {
					client.SetReadDeadline(time.Unix(1, 0))
				}
				err, want := <-done, socketError(name, client)
				sameError(t, what+" while it waits", err, want)
				sameError(t, what+" before it waits", call(r), want)
				if !errors.Is(err, is) {
					t.Errorf("%s: %v is not %v", what, err, is)
				}
				if end == "deadline" {
					client.SetReadDeadline(time.Time{})
					server.Write([]byte("text"))
					if b, err := r.Peek(4); string(b) != "text" || err != nil {
						t.Errorf("%s: %q, %v comes next", what, b, err)
					}
				}
				r.Release()
			}
		}
	}
}

// tlsPair returns the two ends of a TLS connection over TCP. Both are closed when the test ends.
func tlsPair(t testing.TB) (client, server *tls.Conn) {
	t.Helper()
	a, b := nettest.TCPPair(t, false)
	s := httptest.NewTLSServer(nil) // for its certificate
	defer s.Close()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com"
	client, server = tls.Client(a, config), tls.Server(b, s.TLS.Clone())
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	if err := errors.Join(client.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// Over TLS, a waiting call holds no block either, and the calls return the same bytes and errors as
// over TCP. A message of any length is read, even if nothing follows it.
func TestReaderHoldsNoBlockWhileItWaitsOverTLS(t *testing.T) {
	for name, call := range waiting {
		if name == "WriteTo own" { // keeps a block, because it copies the whole stream
			continue
		}
		pool := newPool(t)
		client, server := tlsPair(t)
		r := pool.NewReader(client, 4096)
		for n := range 20 { // bytes in a message
			go server.Write(bytes.Repeat([]byte("x"), n+2))
			if err := r.Skip(n + 2); err != nil {
				t.Fatal(name, err)
			}
			done := make(chan error)
			go func() { done <- call(r) }()
			nettest.Eventually(t, name+": no block in use",
				func() bool { return pool.Stats().InUse == 0 })
			client.SetReadDeadline(time.Unix(1, 0))
			if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want a deadline", name, err)
			}
			client.SetReadDeadline(time.Time{})
		}
		go server.Write([]byte("a text"))
		if b, err := r.Peek(6); string(b) != "a text" || err != nil {
			t.Errorf("%s: %q, %v comes next, want a text", name, b, err)
		}
		r.Release()
	}
}

// A Reader that waits on an idle connection costs less than 400 bytes in total, including its state
// for waiting, and holds no block. (bufio's buffer alone has 4096 bytes.)
func TestIdleReadersNeedNoBuffer(t *testing.T) {
	if raceEnabled || millrace.Invariants {
		t.Skip("measures the heap of an ordinary build")
	}
	var readers [idleConnections]*millrace.Reader
	var conns, servers [idleConnections]streamConn
	for i := range conns {
		conns[i], servers[i] = nettest.TCPPair(t, false)
	}
	pool := millrace.NewPool()
	var waiting sync.WaitGroup
	// The goroutines exist and wait for their connections in both measurements, so only the Readers
	// differ.
	var first [idleConnections]byte
	for i := range conns {
		waiting.Go(func() {
			if _, err := conns[i].Read(first[i : i+1]); err != nil {
				t.Error(err)
			}
			if b, err := readers[i].ReadByte(); b != 'x' || err != nil {
				t.Errorf("ReadByte = %q, %v, want x", b, err)
			}
		})
	}
	before := heapInUse()
	for i := range readers {
		readers[i] = pool.NewReader(conns[i], 4096)
		servers[i].Write([]byte("s"))
	}
	nettest.Eventually(t, "all wait", func() bool {
		s := pool.Stats()
		return s.InUse == 0 && s.Taken >= idleConnections
	})
	each := (heapInUse() - before) / idleConnections
	t.Logf("%d bytes a Reader", each)
	if each > 400 {
		t.Errorf("an idle Reader costs %d bytes of heap, want no more than 400", each)
	}
	for i := range servers {
		servers[i].Write([]byte("x"))
	}
	waiting.Wait()
	for i := range readers {
		readers[i].Release()
	}
}

// idleConnections is the number of open connections. 10,000 would need more descriptors than most
// systems allow a test, and would show the same.
const idleConnections = 1000

// heapInUse returns the bytes of live objects.
func heapInUse() int64 {
	var m runtime.MemStats
	for range 5 { // memory with finalizers or in a sync.Pool is freed later
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Over a socket, ReadRange lends the received part of a range before the Reader waits for the rest.
func TestReadRangeLendsBeforeItWaits(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		pool := millrace.NewPool()
		r := pool.NewReader(client, 4096)
		defer r.Release()
		lent := make(chan int, 10)
		done := make(chan error, 1)
		go func() { done <- r.ReadRange(1000, func(p []byte) { lent <- len(p) }) }()
		for range 10 {
			server.Write(make([]byte, 100))
			if n := <-lent; n != 100 { // not preceded by anything else
				t.Errorf("%d bytes lent, want 100", n)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// socketError returns the error of the connection's own Read, or for WriteTo the error of its own
// WriteTo, as with a bufio.Reader.
func socketError(call string, conn net.Conn) error {
	if strings.HasPrefix(call, "WriteTo") {
		_, err := bufio.NewReader(conn).WriteTo(io.Discard)
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// sameError compares the type, text and content of two errors.
func sameError(t testing.TB, what string, got, want error) {
	t.Helper()
	if want == nil || !reflect.DeepEqual(got, want) || got.Error() != want.Error() {
		t.Errorf("%s:\n got %v\n     %#v\nwant %v\n     %#v", what, got, got, want, want)
	}
}

// Deadlines interrupt reads many times, while packets are kept and released at random. No byte is
// lost, and no kept packet changes.
func TestReaderDeadlinesInTheMiddle(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		const total = 1 << 20
		go writePattern(t, server, total)
		pool := newPool(t)
		r := pool.NewReader(client, 4096)
		rng := rand.New(rand.NewPCG(5, 5))
		var held []*packet
		most := 50 * time.Microsecond // until the next deadline
		for at := 0; at < total; {
			client.SetReadDeadline(time.Now().Add(time.Duration(rng.Int64N(int64(most)))))
			p := &packet{at: at, n: min(1+rng.IntN(6000), total-at)}
			before := r.Buffered()
			if err := r.ReadChain(&p.chain, p.n); err == nil {
				at += p.n
				held = append(held, p)
				most = 50 * time.Microsecond
			} else if !errors.Is(err, os.ErrDeadlineExceeded) || r.Buffered() < before ||
				p.chain.Len() > 0 {
				t.Fatalf("%v, %d buffered, %d before", err, r.Buffered(), before)
			} else {
				most = min(2*most, time.Second) // on a slow machine, allow more time
			}
			for len(held) > 0 && rng.IntN(5) < 2 {
				i := rng.IntN(len(held))
				checkPattern(t, &held[i].chain, held[i].at, held[i].n)
				held[i].chain.Release()
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			}
		}
		for _, p := range held {
			checkPattern(t, &p.chain, p.at, p.n)
			p.chain.Release()
		}
		r.Release()
	})
}

func TestReaderAtTheEndOfASocket(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		r := millrace.NewReader(client)
		defer r.Release()
		server.Write([]byte("last words"))
		server.CloseWrite()
		if b, err := io.ReadAll(r); string(b) != "last words" || err != nil {
			t.Errorf("read %q, %v, want the last words", b, err)
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
		client, server := nettest.TCPPair(t, false)
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
	// The two connections have different ports.
	op := *want.(*net.OpError)
	op.Source, op.Addr = client.LocalAddr(), client.RemoteAddr()
	sameError(t, "reset", got, &op)
}

// While the Reader waits it has no block. The last rune cannot be unread into the returned block,
// which may have another owner by now.
func TestReaderUnreadRuneAfterWaiting(t *testing.T) {
	pool := newPool(t)
	client, server := nettest.TCPPair(t, false)
	r := pool.NewReader(client, 4096)
	server.Write([]byte("kept, é"))
	var c millrace.Chain
	if err := r.ReadChain(&c, 6); err != nil {
		t.Fatal(err)
	}
	r.ReadRune()
	client.SetReadDeadline(time.Unix(1, 0))
	r.Read(make([]byte, 1)) // as in bufio, a failed Read discards the rune
	client.SetReadDeadline(time.Now().Add(time.Millisecond))
	r.Read(make([]byte, 1))
	c.Release()
	others := pool.Get(4096) // very likely the same block
	for i := range others.Bytes() {
		others.Bytes()[i] = 0xa9 // the last byte of é
	}
	if err := r.UnreadRune(); err == nil {
		t.Errorf("the rune can be unread; %d bytes are buffered", r.Buffered())
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
		t.Error("the Reader wrote into a block that has another owner")
	}
	others.Release()
	r.Release()
}

// readAndWait reads n bytes into a Chain, and lets the Reader wait for n more on another goroutine.
// It returns when the Reader has given up its shares.
func readAndWait(t *testing.T, r *millrace.Reader, n int) (c *millrace.Chain,
	next func() *millrace.Chain) {
	t.Helper()
	c = new(millrace.Chain)
	readChain(t, r, c, n)
	alone := millrace.Sole(c)
	done := make(chan *millrace.Chain)
	go func() {
		d := new(millrace.Chain)
		if err := r.ReadChain(d, n); err != nil {
			t.Error(err)
		}
		done <- d
	}()
	nettest.Eventually(t, "the Reader waits", alone)
	return c, func() *millrace.Chain { return <-done }
}

// Packets with a wait between them are adjacent in one block, if the first is still held.
func TestKeptPacketsAreAdjacentAcrossAWait(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		pool := newPool(t)
		r := pool.NewReader(client, 4096)
		server.Write([]byte("first"))
		c, next := readAndWait(t, r, 5)
		if s := pool.Stats(); s.InUse != 4096 {
			t.Errorf("%d bytes in use for a packet that is held", s.InUse)
		}
		c.AppendCopy([]byte(" and more")) // must not write where the Reader continues
		server.Write([]byte("after"))
		d := next()
		if string(c.Bytes()) != "first and more" || string(d.Bytes()) != "after" {
			t.Errorf("read %q, %q, want the packets whole", c.Bytes(), d.Bytes())
		}
		c.Release()
		d.Release()
		r.Release()

		server.Write([]byte("one"))
		r.Reset(client)
		c, next = readAndWait(t, r, 3)
		server.Write([]byte("two"))
		d = next()
		if c.Merge(d); c.Pieces() != 1 || string(c.Bytes()) != "onetwo" {
			t.Errorf("%q in %d pieces", c.Bytes(), c.Pieces())
		}
		c.Release()
		r.Release()
	})
}

// If the packet is released during the wait, its block is returned at once, and the Reader takes
// another.
func TestPacketReleasedWhileTheReaderWaits(t *testing.T) {
	onSockets(t, func(t *testing.T, client, server streamConn) {
		pool := newPool(t)
		r := pool.NewReader(client, 4096)
		for range 20 {
			server.Write([]byte("first"))
			c, next := readAndWait(t, r, 5)
			c.Release()
			if s := pool.Stats(); s.InUse != 0 {
				t.Errorf("%d bytes in use while no share is held", s.InUse)
			}
			d := pool.Get(4096) // very likely the same block, for another owner
			copy(d.Bytes(), "not the Reader's")
			server.Write([]byte("after"))
			c = next()
			if string(c.Bytes()) != "after" || string(d.Bytes()[:16]) != "not the Reader's" {
				t.Errorf("read %q beside %q", c.Bytes(), d.Bytes()[:16])
			}
			c.Release()
			d.Release()
		}
		r.Release()
	})
}
