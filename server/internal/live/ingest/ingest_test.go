package ingest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A testSession counts its calls.
type testSession struct {
	ctx               context.Context
	received, flushed int
}

func (s *testSession) Lifetime() context.Context { return s.ctx }
func (s *testSession) Received(n int)            { s.received += n }
func (s *testSession) Flush()                    { s.flushed++ }

// A publisher that sends some bytes occasionally is not silent, however long it continues.
func TestSilenceEndsAPublisher(t *testing.T) {
	const idle, times = 30 * time.Second, 10
	check := func(t *testing.T, conn, publisher net.Conn, clock bool) {
		defer publisher.Close()
		go dribble(publisher, times, idle)
		s := &testSession{ctx: t.Context()}
		in := NewConn(conn, s, Config{Beat: time.Second, Silence: idle})
		checkSilence(t, in, times, idle)
		if s.received != times || clock && s.flushed < times {
			t.Errorf("%d bytes received, %d times flushed", s.received, s.flushed)
		}
		if conn, err := in.Release(); err != nil {
			t.Error(err)
		} else {
			_ = conn.Close()
		}
	}
	t.Run("by deadlines", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			publisher, conn := net.Pipe()
			check(t, conn, publisher, false)
		})
	})
	for network, pair := range map[string]func(*testing.T) (publisher,
		conn net.Conn){"tcp": tcpPair, "unix": unixPair} {
		t.Run("by the clock over "+network, func(t *testing.T) {
			if !ByClock(time.Second) {
				t.Skip("not on this system")
			}
			publisher, conn := pair(t)
			synctest.Test(t, func(t *testing.T) { check(t, conn, publisher, true) })
		})
	}
}

func tcpPair(t *testing.T) (publisher, conn net.Conn) {
	a, b := nettest.TCPPair(t, false)
	return a, b
}

func unixPair(t *testing.T) (publisher, conn net.Conn) {
	ln, err := net.Listen("unix", filepath.Join(nettest.PlainDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if publisher, err = net.Dial("unix", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if conn, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return publisher, conn
}

// A waiting read ends with the session's context.
func TestReadingEndsWithTheSession(t *testing.T) {
	for name, pair := range map[string]func() (publisher, conn net.Conn){
		"as bytes arrive": net.Pipe,
		"by the clock":    func() (publisher, conn net.Conn) { return tcpPair(t) },
	} {
		t.Run(name, func(t *testing.T) {
			publisher, conn := pair()
			defer publisher.Close()
			ctx, cancel := context.WithCancel(t.Context())
			in := NewConn(conn, &testSession{ctx: ctx},
				Config{Beat: 5 * time.Millisecond, Silence: time.Hour})
			time.AfterFunc(10*time.Millisecond, cancel)
			if n, err := in.Read(make([]byte, 10)); n != 0 ||
				!errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after the session's end: %d bytes, %v, want a deadline", n, err)
			}
			conn, err := in.Release()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go func() { _, _ = publisher.Write([]byte("x")) }()
			// The connection has no deadline any more.
			if n, err := conn.Read(make([]byte, 10)); n != 1 || err != nil {
				t.Errorf("the connection itself: %d bytes, %v, want the next byte", n, err)
			}
		})
	}
}

// After Stop, a timer that has already fired does not cut the connection.
func TestStopEndsTheDeadline(t *testing.T) {
	var deadline time.Time
	set := func(at time.Time) error {
		deadline = at
		return nil
	}
	r := NewReader(nil, set, &testSession{ctx: t.Context()}, time.Hour)
	r.cut()
	if deadline.IsZero() {
		t.Error("before Stop, the connection was not cut")
	}
	r.Stop()
	r.cut()
	if !deadline.IsZero() {
		t.Errorf("after Stop, the connection has the deadline %v", deadline)
	}
}

// dribble writes single bytes, each before idle has passed.
func dribble(w io.Writer, times int, idle time.Duration) {
	for range times {
		time.Sleep(idle * 3 / 4)
		_, _ = w.Write([]byte("x"))
	}
}

// checkSilence reads the bytes of dribble, and then waits until idle has passed.
func checkSilence(t *testing.T, r io.Reader, times int, idle time.Duration) {
	t.Helper()
	got, began := 0, time.Now()
	var p [16]byte
	for {
		n, err := r.Read(p[:])
		got += n
		if err == nil {
			continue
		}
		if got != times || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes and %v, want %d", got, err, times)
		}
		break
	}
	talk := time.Duration(times) * idle * 3 / 4
	if took := time.Since(began); took < talk+idle*3/4 || took > talk+idle*5/4 {
		t.Errorf("it took %v: %v of talk and %v of silence were due", took, talk, idle)
	}
}

// If there are no more descriptors, a connection is read as bytes arrive, and can be released.
func TestNoDescriptors(t *testing.T) {
	publisher, tcp := nettest.TCPPair(t, false)
	defer publisher.Close()
	takeDescriptors(t)
	in := NewConn(tcp, &testSession{ctx: t.Context()},
		Config{Beat: time.Second, Silence: time.Minute})
	if _, err := publisher.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := in.Read(make([]byte, 10)); n != 1 || err != nil {
		t.Errorf("%d bytes, %v, want the byte", n, err)
	}
	_ = publisher.CloseWrite()
	if n, err := in.Read(make([]byte, 10)); n != 0 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d bytes, %v, want io.ErrUnexpectedEOF", n, err)
	}
	conn, err := in.Release()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("an answer")); err != nil {
		t.Error(err)
	}
	_ = conn.Close()
}
