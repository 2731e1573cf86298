package redisbuf

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pipeConn returns a connection over a net.Pipe with the given timeout. serve is its server, whose
// end is closed when serve returns.
func pipeConn(t *testing.T, timeout time.Duration, serve func(server net.Conn)) *conn {
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		serve(server)
	}()
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return newConn(client, timeout, timeout)
}

// heard reads a request, and reports whether there was one.
func heard(server net.Conn) bool {
	_, err := server.Read(make([]byte, 1000))
	return err == nil
}

func TestContextEndsAWait(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, time.Second, 2 * time.Second} {
		for _, deadline := range []bool{false, true} {
			t.Run(fmt.Sprint(after, deadline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := pipeConn(t, 3*time.Second,
						func(server net.Conn) { heard(server); time.Sleep(time.Minute) })
					ctx, cancel := context.WithCancel(context.Background())
					want := context.Canceled
					if deadline {
						ctx, cancel = context.WithTimeout(context.Background(), after)
						want = context.DeadlineExceeded
					} else {
						time.AfterFunc(after, cancel)
					}
					defer cancel()
					begun := time.Now()
					op := getOf("k", make([]byte, 100))
					if err := c.run(ctx, op); err != want {
						t.Error(err)
					}
					if d := time.Since(begun); d != after || !c.broken {
						t.Errorf("after %v, broken %v", d, c.broken)
					}
					c.close()
				})
			})
		}
	}
}

// The time that a reader needs does not count as the server's, even if the connection cannot be
// written to after a failed Write.
func TestSlowReaderIsNotATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const request = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n"
		received := make([]byte, len(request))
		c := pipeConn(t, 2*time.Second, func(server net.Conn) {
			_, _ = io.ReadFull(server, received)
			_, _ = io.WriteString(server, "+OK\r\n")
		})
		slow := readerFunc(func(p []byte) (int, error) {
			time.Sleep(time.Minute)
			return copy(p[:1], "value"[5-len(p):]), nil
		})
		op, err := newSetFrom("k", slow, 5, nil)
		must(t, err)
		if err := c.run(context.Background(), op); err != nil || string(received) != request {
			t.Errorf("%v, received %q, want the request", err, received)
		}
	})
}

// A call that has ended leaves nothing that could end the next call, whenever its context ends.
func TestContextDoesNotEndTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeConn(t, 3*time.Second, func(server net.Conn) {
			for heard(server) {
				time.Sleep(50 * time.Millisecond)
				_, _ = io.WriteString(server, "$1\r\nx\r\n")
			}
		})
		for i := range 100 {
			ctx, cancel := context.WithTimeout(context.Background(),
				60*time.Millisecond+time.Duration(i)*time.Millisecond)
			op := getOf("k", make([]byte, 100))
			must(t, c.run(ctx, op))
			if i%2 == 0 {
				cancel() // before or during the next call
			}
			must(t, c.run(context.Background(), op))
			cancel()
		}
		c.close()
	})
}

// A context that was used by several calls still ends the next one. If it ends between calls, it
// ends none.
func TestContextOfSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeConn(t, 0, func(server net.Conn) {
			for range 6 {
				heard(server)
				_, _ = io.WriteString(server, "$1\r\nx\r\n")
			}
			_, _ = io.Copy(io.Discard, server) // no reply
		})
		op := getOf("k", make([]byte, 1))
		first, endFirst := context.WithCancel(context.Background())
		second, endSecond := context.WithCancel(context.Background())
		defer endSecond()
		for _, ctx := range []context.Context{first, first, first} {
			must(t, c.run(ctx, op))
		}
		endFirst()
		synctest.Wait()
		for _, ctx := range []context.Context{second, second, context.Background()} {
			must(t, c.run(ctx, op))
		}
		time.AfterFunc(time.Second, endSecond)
		begun := time.Now()
		if err := c.run(second, op); err != context.Canceled || time.Since(begun) != time.Second ||
			!c.broken {
			t.Errorf("%v after %v, broken %v", err, time.Since(begun), c.broken)
		}
		c.close()
	})
}
