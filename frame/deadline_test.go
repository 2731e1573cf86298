package frame_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

const (
	inHeader  = 2 * time.Second
	inPayload = 5 * time.Second
)

// script is the behaviour of a peer: it waits and sends in turn.
type script []struct {
	wait time.Duration
	send string
}

func (s script) run(conn net.Conn) {
	for _, step := range s {
		time.Sleep(step.wait)
		if _, err := conn.Write([]byte(step.send)); err != nil {
			return
		}
	}
}

// counted counts how often the Decoder sets its deadline. The caller sets the deadline of Conn
// directly.
type counted struct {
	net.Conn
	set int
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.set++
	return c.Conn.SetReadDeadline(t)
}

// conversation runs test with a Decoder and a peer that follows s, in virtual time. The connection
// is closed when the script has ended and test has returned.
func conversation(t *testing.T, s script, f frame.Format,
	test func(*testing.T, *frame.Decoder, *counted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		var peer sync.WaitGroup
		peer.Go(func() { s.run(there) })
		conn := &counted{Conn: here}
		r := millrace.NewReader(conn)
		test(t, frame.NewDecoder(r, f, frame.Deadlines(conn, inHeader, inPayload),
			frame.MaxPayload(recordMost)), conn)
		r.Release()
		_ = here.Close()
		peer.Wait()
	})
}

func TestDeadlines(t *testing.T) {
	long := rawFrame(1, strings.Repeat("x", 10_000))
	announced := "\x01\xff\xff\xff" // 16 MiB
	for _, tt := range []struct {
		name   string
		s      script
		frames int
		want   error
		after  time.Duration
	}{
		{"a first byte may take for ever", script{{time.Hour, long}, {time.Hour, long}}, 2, nil,
			2 * time.Hour},
		{"nothing behind the first byte", script{{time.Hour, "\x01"}}, 0,
			&frame.TimeoutError{Part: frame.InHeader, After: inHeader}, time.Hour + inHeader},
		{"header, a byte a second",
			script{{0, "\x01"}, {time.Second, "\x00"}, {time.Second, "\x00"},
				{time.Second, "\x00"}}, 0,
			&frame.TimeoutError{Part: frame.InHeader, After: inHeader}, inHeader},
		{"header just in time", script{{0, "\x01\x00"}, {inHeader - 1, "\x00\x00"},
			{time.Hour, long}}, 2, nil,
			time.Hour + inHeader - 1},
		{"no payload", script{{0, announced}}, 0,
			&frame.TimeoutError{Part: frame.InPayload, After: inPayload}, inPayload},
		{"payload, some a second", script{{0, announced}, {time.Second, long}, {time.Second, long},
			{time.Second, long},
			{time.Second, long}, {time.Second, long}}, 0,
			&frame.TimeoutError{Part: frame.InPayload, After: inPayload}, inPayload},
		{"payload just in time",
			script{{0, long[:4]}, {time.Second, long[4:9]},
				{inPayload - time.Second - 1, long[9:]}}, 1, nil,
			inPayload - 1},
		{"each part has its own time", script{{0, long[:1]}, {inHeader - 1, long[1:4]},
			{inPayload - 1, long[4:]}}, 1, nil,
			inHeader + inPayload - 2},
		{"the second frame stalls", script{{0, long + "\x01"}, {inHeader + 1, "\x00"}}, 1,
			&frame.TimeoutError{Part: frame.InHeader, After: inHeader}, inHeader},
	} {
		for _, w := range ways() {
			t.Run(tt.name+"/"+w.name, func(t *testing.T) {
				conversation(t, tt.s, record{},
					func(t *testing.T, d *frame.Decoder, conn *counted) {
						began := time.Now()
						for range tt.frames {
							if _, err := w.next(d); err != nil {
								t.Fatal(err)
							}
						}
						for range 2 { // the error is final
							var timeout *frame.TimeoutError
							if tt.want == nil {
								break
							}
							if _, err := w.next(d); !errors.As(err, &timeout) ||
								*timeout != *tt.want.(*frame.TimeoutError) {
								t.Fatalf("%v, want %v", err, tt.want)
							}
						}
						if got := time.Since(began); got != tt.after {
							t.Errorf("after %v, want %v", got, tt.after)
						}
					})
			})
		}
	}
}

// Between frames, the connection's deadline belongs to the caller. The Decoder does not change it,
// returns the connection's error, and continues after it.
func TestTheCallersDeadlineIsLeftAlone(t *testing.T) {
	whole := rawFrame(1, "payload")
	for _, w := range ways() {
		s := script{{time.Second, whole}, {time.Minute, whole[:2]}, {time.Second, whole[2:6]},
			{time.Second, whole[6:]}}
		conversation(t, s, record{}, func(t *testing.T, d *frame.Decoder, conn *counted) {
			_ = conn.Conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := w.next(d); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if _, err := w.next(d); !errors.Is(err, os.ErrDeadlineExceeded) ||
				time.Since(began) != 9*time.Second {
				t.Fatalf("%v after %v, want the caller's deadline after 9 s", err,
					time.Since(began))
			}
			_ = conn.Conn.SetReadDeadline(time.Time{})
			if f, err := w.next(d); err != nil || f.raw != whole {
				t.Fatalf("%q, %v, want the frame", f.raw, err)
			}
			// The deadline of the frame has been removed.
			began = time.Now()
			go func() {
				time.Sleep(time.Hour)
				_ = conn.Close()
			}()
			if _, err := w.next(d); !errors.Is(err, io.ErrClosedPipe) ||
				time.Since(began) != time.Hour {
				t.Errorf("%v after %v, want io.ErrClosedPipe after an hour", err, time.Since(began))
			}
		})
	}
}

// A deadline that the caller sets within a frame, in order to interrupt the Decoder, is not the
// peer's fault. The peer's time continues to run.
func TestInterruptedFramesGoOn(t *testing.T) {
	whole := rawFrame(1, "payload")
	for _, late := range []bool{false, true} {
		for _, w := range ways() {
			rest := inPayload - 1
			if late {
				rest = inPayload + 1
			}
			s := script{{0, whole[:6]}, {rest, whole[6:]}}
			conversation(t, s, record{}, func(t *testing.T, d *frame.Decoder, conn *counted) {
				began := time.Now()
				for range 3 {
					time.AfterFunc(time.Second,
						func() { _ = conn.Conn.SetReadDeadline(time.Now()) })
					if _, err := w.next(d); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Fatal(err)
					}
				}
				f, err := w.next(d)
				var timeout *frame.TimeoutError
				switch {
				case !late && (err != nil || f.raw != whole):
					t.Errorf("%q, %v, want the frame", f.raw, err)
				case late && !errors.As(err, &timeout), late && time.Since(began) != inPayload:
					t.Errorf("%v after %v, want a timeout within the payload", err,
						time.Since(began))
				}
			})
		}
	}
}

// The time during which the caller waits for room in an arena does not count as the peer's.
func TestFullArenaStopsTheClock(t *testing.T) {
	whole := rawFrame(1, strings.Repeat("x", 6000))
	s := script{{0, whole[:4]}, {time.Second, whole[4:5000]}, {inPayload - 1, whole[5000:]}}
	conversation(t, s, record{}, func(t *testing.T, d *frame.Decoder, _ *counted) {
		buf := arena.NewPool(len(whole), arena.NoHeap())
		buf.Writable(1500)
		held := buf.Take()
		if _, _, err := d.NextInto(buf); err != arena.ErrFull {
			t.Fatal(err)
		}
		held.Release()
		time.Sleep(time.Hour)
		if s, _, err := d.NextInto(buf); err != nil || string(s.Bytes()) != whole {
			t.Errorf("%d bytes, %v, want the frame", s.Len(), err)
		}
	})
}

// closedConn refuses deadlines.
type closedConn struct{ io.Reader }

func (closedConn) SetReadDeadline(time.Time) error { return net.ErrClosed }

func TestDeadlineOfAClosedConnection(t *testing.T) {
	for _, in := range []string{"\x01", rawFrame(1, "payload")[:6]} {
		for _, w := range ways() {
			conn := closedConn{strings.NewReader(in)}
			r := millrace.NewReader(conn)
			d := frame.NewDecoder(r, record{}, frame.Deadlines(conn, inHeader, inPayload))
			if _, err := w.next(d); !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v, want net.ErrClosed", w.name, err)
			}
			r.Release()
		}
	}
}

// Bytes that have arrived need no deadline. Each part that arrives later needs one, however it
// arrives.
func TestDeadlinesThatAreSet(t *testing.T) {
	slow := rawFrame(1, strings.Repeat("x", 50_000))
	for _, tt := range []struct {
		name         string
		s            script
		frames, want int
	}{
		{"together", script{{0, strings.Repeat(rawFrame(1, "payload"), 50)}}, 50, 0},
		{"slowly", script{{0, slow[:2]}, {1, slow[2:4]}, {1, slow[4:100]}, {1, slow[100:20_000]},
			{1, slow[20_000:]}}, 1,
			4}, // each of two deadlines is set and removed
	} {
		for _, w := range ways() {
			conversation(t, tt.s, record{}, func(t *testing.T, d *frame.Decoder, conn *counted) {
				for range tt.frames {
					if _, err := w.next(d); err != nil {
						t.Fatal(err)
					}
				}
				if conn.set != tt.want {
					t.Errorf("%s, %s: %d deadlines set, want %d", tt.name, w.name, conn.set,
						tt.want)
				}
			})
		}
	}
}
