package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A publisher that sends a little now and then is not silent, however long that takes.
func TestSilenceEndsAPublisher(t *testing.T) {
	const idle, times = 30 * time.Second, 10
	t.Run("by deadlines", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			publisher, conn := net.Pipe()
			defer publisher.Close()
			go dribble(publisher, times, idle)
			r := newIdleReader(conn, conn.SetReadDeadline, silentPublisher(t, idle))
			defer r.stop()
			checkSilence(t, r, times, idle)
		})
	})
	t.Run("by the clock", func(t *testing.T) {
		conn, publisher := tcpPair(t, false)
		synctest.Test(t, func(t *testing.T) {
			go dribble(publisher, times, idle)
			flushed := 0
			r := newTimedReader(conn, silentPublisher(t, idle))
			r.flush = func() { flushed++ }
			checkSilence(t, r, times, idle)
			if flushed < times {
				t.Errorf("viewers were served %d times", flushed)
			}
			if conn, err := r.conn(); err != nil {
				t.Error(err)
			} else {
				_ = conn.Close()
			}
		})
	})
}

// silentPublisher returns a publisher that may be silent for idle, and is read once a second.
func silentPublisher(t *testing.T, idle time.Duration) *Publisher {
	cfg := testConfig()
	cfg.PublishTimeout, cfg.Latency = idle, time.Second
	p, err := New(cfg).Open("cam", "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dribble writes a byte now and then, each before idle is over.
func dribble(w io.Writer, times int, idle time.Duration) {
	for range times {
		time.Sleep(idle * 3 / 4)
		_, _ = w.Write([]byte("x"))
	}
}

// checkSilence reads what dribble writes, and then waits until idle is over.
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
