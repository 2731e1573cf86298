package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A pipeServer answers one request on a net.Pipe, as slowly as a test wants.
func pipeServer(t *testing.T, answer func(server net.Conn)) *conn {
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer server.Close()
		request := make([]byte, 1000)
		if _, err := server.Read(request); err == nil {
			answer(server)
		}
	}()
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return newConn(client, 3*time.Second, 2*time.Second)
}

func TestReadTimeout(t *testing.T) {
	for _, test := range []struct {
		name   string
		pause  time.Duration
		pauses int
		want   error
	}{
		{"at once", 0, 0, nil},
		{"a pause below the timeout", 2900 * time.Millisecond, 1, nil},
		{"many of them", 2900 * time.Millisecond, 50, nil},
		{"a pause above it", 8 * time.Second, 1, os.ErrDeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := pipeServer(t, func(server net.Conn) {
				_, _ = io.WriteString(server, "$100\r\n")
				for range test.pauses {
					_, _ = server.Write([]byte("x"))
					time.Sleep(test.pause)
				}
				_, _ = server.Write(bytes.Repeat([]byte("x"), 100-test.pauses))
				_, _ = io.WriteString(server, "\r\n")
			})
			op := getOf("k", make([]byte, 100))
			begun := time.Now()
			err := c.run(t.Context(), op)
			if !errors.Is(err, test.want) {
				t.Errorf("%s: %v", test.name, err)
			}
			if test.want != nil {
				if d := time.Since(begun); d > 8*time.Second || !c.broken {
					t.Errorf("%s: after %v, broken %v", test.name, d, c.broken)
				}
			} else if c.broken || op.n != 100 {
				t.Errorf("%s: broken %v, %d bytes", test.name, c.broken, op.n)
			}
			c.close()
		})
	}
}

func TestContextEndsAWait(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, time.Second, 2 * time.Second} {
		for _, deadline := range []bool{false, true} {
			t.Run(fmt.Sprint(after, deadline), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := pipeServer(t, func(net.Conn) { time.Sleep(time.Minute) })
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

// The time that a reader takes is not the server's, also on a connection whose Write cannot be called again.
func TestSlowReaderIsNotATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		const request = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n"
		received := make([]byte, len(request))
		go func() {
			defer server.Close()
			_, _ = io.ReadFull(server, received)
			_, _ = io.WriteString(server, "+OK\r\n")
		}()
		c := newConn(client, 2*time.Second, 2*time.Second) // one timeout, so that none is set anew by chance
		slow := readerFunc(func(p []byte) (int, error) {
			time.Sleep(time.Minute)
			return copy(p[:1], "value"[5-len(p):]), nil
		})
		op, err := newSetFrom("k", slow, 5, nil)
		must(t, err)
		if err := c.run(context.Background(), op); err != nil || string(received) != request {
			t.Errorf("%v, %q", err, received)
		}
	})
}

// A call that ends in time leaves nothing behind that could end the next one, whenever its context ends.
func TestContextDoesNotEndTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		go func() {
			request := make([]byte, 1000)
			for {
				if _, err := server.Read(request); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
				_, _ = io.WriteString(server, "$1\r\nx\r\n")
			}
		}()
		c := newConn(client, 3*time.Second, 3*time.Second)
		for i := range 100 {
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Millisecond+time.Duration(i)*time.Millisecond)
			op := getOf("k", make([]byte, 100))
			must(t, c.run(ctx, op))
			if i%2 == 0 {
				cancel() // while the next call is under way or before it
			}
			must(t, c.run(context.Background(), op))
			cancel()
		}
		c.close()
		server.Close()
	})
}

// A context that several calls have had still ends the next one, and one that ends between calls ends none.
func TestContextOfSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		go func() {
			defer server.Close()
			request := make([]byte, 1000)
			for range 6 {
				if _, err := server.Read(request); err != nil {
					return
				}
				_, _ = io.WriteString(server, "$1\r\nx\r\n")
			}
			_, _ = io.Copy(io.Discard, server) // no reply
		}()
		c := newConn(client, 0, 0)
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
		if err := c.run(second, op); err != context.Canceled || time.Since(begun) != time.Second || !c.broken {
			t.Errorf("%v after %v, broken %v", err, time.Since(begun), c.broken)
		}
		c.close()
	})
}
