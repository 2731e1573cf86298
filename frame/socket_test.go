package frame_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame"
)

// Over a real connection, in portions of any size, with deadlines that are set and taken away all the time.
func TestOverTCP(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 7))
	in := randomStream(rnd, 300)
	want, wantErr := slowParse(in, limits{most: 1 << 20})
	for _, w := range ways() {
		t.Run(w.name, func(t *testing.T) {
			conn := sendOverTCP(t, in)
			pool := millrace.NewPool()
			r := pool.NewReader(conn, 4096)
			got, err := drain(frame.NewDecoder(r, record{}, frame.Deadlines(conn, time.Minute, time.Minute)), w)
			sameResult(t, w.name, got, err, want, wantErr)
			r.Release()
			if n := pool.Stats().InUse; n != 0 {
				t.Errorf("%d bytes in use after Release", n)
			}
		})
	}
}

// sendOverTCP returns a connection whose other end sends s and closes.
func sendOverTCP(t *testing.T, s string) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() { sent <- acceptAndSend(l, s) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func acceptAndSend(l net.Listener, s string) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	rnd := rand.New(rand.NewPCG(1, 8))
	for len(s) > 0 {
		n := min(len(s), 1+rnd.IntN(20_000))
		if _, err := io.WriteString(conn, s[:n]); err != nil {
			return fmt.Errorf("%d bytes unsent: %w", len(s), err)
		}
		s = s[n:]
	}
	return nil
}
