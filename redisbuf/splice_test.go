package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

const (
	// hastyTimeout is more time than a running server needs, even on a machine that stalls.
	hastyTimeout = 5 * time.Second

	// longPause is the pause of a slow end of a splice. It is longer than any deadline.
	longPause = hastyTimeout * 3 / 2
)

// onBothNetworks runs f with a Client over TCP, and with one over a Unix socket.
func onBothNetworks(t *testing.T, change func(*redis.Options),
	f func(t *testing.T, c *Client, rdb *redis.Client)) {
	for name, opts := range map[string][]redistest.Option{"TCP": nil,
		"Unix": {redistest.UnixSocket()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // waits most of the time
			o := optionsOf(redistest.Start(t, opts...).Endpoint())
			change(o)
			c, rdb := clientOf(t, o)
			f(t, c, rdb)
		})
	}
}

// A sender that pauses for longer than any timeout in the middle of a splice loses nothing. (A
// deadline that passed in the meantime would lose the bytes between the two sockets.)
func TestSetFromASlowConnection(t *testing.T) {
	t.Parallel() // waits most of the time
	hasty := func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = time.Minute, hastyTimeout }
	onBothNetworks(t, hasty, func(t *testing.T, c *Client, rdb *redis.Client) {
		value := randomValue(1 << 20)
		client, server := tcpPair(t)
		go func() {
			_, _ = client.Write(value[:len(value)/2])
			time.Sleep(longPause)
			_, _ = client.Write(value[len(value)/2:])
			_, _ = client.Write([]byte("more"))
		}()
		must(t, c.SetFrom(context.Background(), "slow", server, int64(len(value))))
		check(t, rdb, "slow", value)
		more := make([]byte, 4)
		if _, err := io.ReadFull(server, more); err != nil || string(more) != "more" {
			t.Errorf("what comes after the value: %q, %v", more, err)
		}
	})
}

// While a receiver is slow, no deadline is set on the connection to the server: there are bytes to
// read, and a deadline would lose the bytes between the two sockets.
func TestGetToASlowConnection(t *testing.T) {
	onBothNetworks(t, patient, func(t *testing.T, c *Client, rdb *redis.Client) {
		value := randomValue(8 << 20)
		must(t, rdb.Set(bounded(t), "slow", value, 0).Err())
		conn, err := c.Conn(bounded(t))
		must(t, err)
		defer conn.Close()
		deadline := &conn.own.conn.readDeadline
		until, set := deadline.until, deadline.set
		deadline.set = func(at time.Time) error {
			until = at
			return set(at)
		}
		times := 0
		got, err := throughSocket(func(w io.Writer) (int64, error) {
			return conn.GetTo(context.Background(), "slow",
				readerFromFunc{w, func(r io.Reader) (int64, error) {
					if times++; !until.IsZero() {
						t.Error("the writer has until", until)
					}
					return w.(io.ReaderFrom).ReadFrom(r)
				}})
		})
		if err != nil || !bytes.Equal(got, value) || times == 0 {
			t.Errorf("%d bytes in %d steps, %v", len(got), times, err)
		}
	})
}

type readerFromFunc struct {
	io.Writer
	readFrom func(io.Reader) (int64, error)
}

func (f readerFromFunc) ReadFrom(r io.Reader) (int64, error) { return f.readFrom(r) }

// A deadline of the writer ends the call, even if the next ReadFrom would set a new one, because
// the number of lost bytes is unknown.
func TestGetToAWriterWithADeadline(t *testing.T) {
	onBothNetworks(t, patient, func(t *testing.T, c *Client, rdb *redis.Client) {
		must(t, rdb.Set(bounded(t), "late", make([]byte, 16<<20), 0).Err())
		_, server := tcpPair(t)
		late := 0 // number of passed deadlines
		w := readerFromFunc{server, func(r io.Reader) (int64, error) {
			_ = server.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			n, err := server.ReadFrom(r)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				late++
			}
			return n, err
		}}
		_, err := c.GetTo(context.Background(), "late", w)
		if !isA[*WriterError](err) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if late > 1 {
			t.Errorf("asked again, %d times, after its deadline had passed", late-1)
		}
	})
}

// If a server falls silent in the middle of a splice, the call returns a timeout.
func TestServerStopsAmidASplice(t *testing.T) {
	t.Parallel() // waits most of the time
	const size = 8 << 20
	for name, f := range map[string]func(c *Client, mine, others *net.TCPConn) error{
		"GetTo": func(c *Client, mine, others *net.TCPConn) error {
			go func() { _, _ = io.Copy(io.Discard, others) }()
			_, err := c.GetTo(context.Background(), "stops", mine)
			return err
		},
		"SetFrom": func(c *Client, mine, others *net.TCPConn) error {
			go func() { _, _ = others.Write(make([]byte, size)) }()
			return c.SetFrom(context.Background(), "stops", mine, size)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			rdb := rdbOf(t, s.Endpoint())
			must(t, rdb.Set(bounded(t), "stops", make([]byte, size), 0).Err())
			p := s.Proxy(t)
			p.Set(redistest.HoldReply(1<<20), redistest.HoldRequest(1<<20))
			o := optionsOf(p.Endpoint())
			o.MaxRetries, o.ReadTimeout, o.WriteTimeout = -1, time.Second, time.Second
			c, _ := clientOf(t, o)
			mine, others := tcpPair(t)
			err := f(c, mine, others)
			if !errors.Is(err, os.ErrDeadlineExceeded) || isA[*WriterError](err) ||
				isA[*ReaderError](err) {
				t.Error(err)
			}
		})
	}
}
