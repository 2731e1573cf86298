package redisbuf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// A hungServer is a server that stops at some point of each connection. A Dialer reaches it over
// pipes.
type hungServer struct {
	at    string // "dial", "login", "request", "reply" or "value"
	dials int
}

func (s *hungServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.dials++
	if s.at == "dial" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	go s.serve(server)
	return client, nil
}

func (s *hungServer) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		reply := ""
		switch name := strings.TrimSpace(line); {
		case s.at == "login":
		case name == "HELLO":
			reply = "%1\r\n$5\r\nproto\r\n:3\r\n"
		case s.at == "reply":
		case name == "STRLEN":
			reply = ":10\r\n"
		case name == "GET", name == "GETRANGE":
			reply = "$10\r\nva"
		case name == "SET":
			reply = "+O"
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
		if reply != "" && s.at == "request" {
			_, _ = io.ReadFull(r, make([]byte, 10)) // the client's next Write is not complete
			<-time.After(time.Hour)                 // longer than a call may take
			return
		}
	}
}

// A timeout is recognized inside any other error, such as the error of a Dialer.
func TestIsTimeout(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded,
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}} {
		for _, wrap := range []func(error) error{
			func(err error) error { return err },
			func(err error) error { return fmt.Errorf("no Sentinel: %w", errors.Join(io.EOF, err)) },
			func(err error) error { return &SentError{Err: err} },
			func(err error) error {
				n := &node{opt: &redis.Options{Network: "tcp"}}
				return n.dialError(t.Context(), fmt.Errorf("no credentials: %w", err), nil)
			},
		} {
			if !isTimeout(wrap(err)) {
				t.Errorf("%v is no timeout", wrap(err))
			}
		}
	}
	for _, err := range []error{nil, io.EOF, redis.Nil, ErrClosed, context.Canceled,
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}} {
		if isTimeout(err) {
			t.Errorf("%v is a timeout", err)
		}
	}
}

// A call to a server that hangs ends with its second timeout, whatever the call and wherever the
// server hangs. A SET that was sent ends with the first timeout.
func TestHungServer(t *testing.T) {
	calls := map[string]func(ctx context.Context, c *Client) error{
		"Conn": func(ctx context.Context, c *Client) error {
			conn, err := c.Conn(ctx)
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.GetToBuffer(ctx, "k", make([]byte, 10))
			return err
		},
		"ReadAt": func(ctx context.Context, c *Client) error {
			r := &ReaderAt{c: c, ctx: ctx, key: "k", size: 10}
			_, err := r.ReadAt(make([]byte, 10), 0)
			return err
		},
		"Pipeline of all": func(ctx context.Context, c *Client) error {
			p := c.Pipeline()
			for range 3 {
				p.GetToBuffer("k", make([]byte, 10))
				p.GetRangeToBuffer("j", 1, make([]byte, 10))
				p.SetFromBuffer("k", make([]byte, 10))
			}
			return p.Exec(ctx)
		},
		"Pipeline of batches": func(ctx context.Context, c *Client) error {
			p := c.Pipeline()
			for range 3 {
				p.GetToBuffer("k", make([]byte, defaultInFlight))
			}
			return p.Exec(ctx)
		},
	}
	for _, g := range gets {
		if !strings.HasSuffix(g.name, "socket") { // sockets have no virtual time
			calls[g.name] = func(ctx context.Context, c *Client) error {
				_, err := g.call(ctx, c, "k", 10)
				return err
			}
		}
	}
	for _, s := range sets {
		if !strings.HasSuffix(s.name, "socket") {
			calls["set: "+s.name] = func(ctx context.Context, c *Client) error {
				return s.call(ctx, c, "k", make([]byte, 10))
			}
		}
	}
	for _, at := range []string{"dial", "login", "request", "reply", "value"} {
		for name, call := range calls {
			t.Run(at+"/"+name, func(t *testing.T) {
				s := &hungServer{at: at}
				rdb := closing(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:0",
					Dialer: s.dial}))
				o := rdb.Options()
				timeout := max(o.DialTimeout, o.ReadTimeout, o.WriteTimeout) * 5 / 4
				synctest.Test(t, func(t *testing.T) {
					c, err := New(rdb)
					must(t, err)
					begun := time.Now()
					err = call(context.Background(), c)
					took := time.Since(begun)
					if !isTimeout(err) || took > 2*timeout+o.MaxRetryBackoff || s.dials > 2 {
						t.Errorf("%v after %v and %d tries", err, took, s.dials)
					}
					if isA[*SentError](err) && !strings.Contains(name, "Pipeline") && s.dials > 1 {
						t.Errorf("%d tries of a SET that was sent", s.dials)
					}
					must(t, c.Close())
					time.Sleep(time.Hour) // until the server notices
				})
			})
		}
	}
}
