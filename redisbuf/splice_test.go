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

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

const (
	// hastyTimeout is more than a server takes that is there, and less than a test waits for.
	hastyTimeout = time.Second

	// longPause is what a slow end of a splice takes.
	longPause = 2 * hastyTimeout
)

func hasty(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = hastyTimeout, hastyTimeout }

// onBothNetworks runs f with a Client of a server's TCP port, and with one of a Unix socket.
func onBothNetworks(t *testing.T, change func(*redis.Options), f func(t *testing.T, c *Client, rdb *redis.Client)) {
	for name, opts := range map[string][]redistest.Option{"TCP": nil, "Unix": {redistest.UnixSocket()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			o := redistest.Start(t, opts...).Options()
			change(o)
			c, rdb := clientOf(t, o)
			f(t, c, rdb)
		})
	}
}

// A sender that takes longer than any timeout, in the middle of what the kernel moves at a time, loses nothing. (A deadline
// that passes meanwhile would take with it what has left one socket and has not got to the other.)
func TestSetFromASlowConnection(t *testing.T) {
	t.Parallel() // it waits
	onBothNetworks(t, hasty, func(t *testing.T, c *Client, rdb *redis.Client) {
		value := randomValue(1 << 20)
		client, server := tcpPair(t)
		go func() {
			pauses := []time.Duration{longPause, hastyTimeout / 10, hastyTimeout / 10, longPause, 0, 0, 0}
			for i, pause := range pauses {
				_, _ = client.Write(value[i*len(value)/len(pauses) : (i+1)*len(value)/len(pauses)])
				time.Sleep(pause)
			}
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

// A receiver that is as slow loses nothing either, and neither does one that takes its time before it reads anything.
func TestGetToASlowConnection(t *testing.T) {
	t.Parallel() // it waits
	onBothNetworks(t, hasty, func(t *testing.T, c *Client, rdb *redis.Client) {
		value := randomValue(8 << 20) // more than the sockets hold
		must(t, rdb.Set(bounded(t), "slow", value, 0).Err())
		client, server := tcpPair(t)
		must(t, client.SetReadBuffer(64<<10))
		must(t, server.SetWriteBuffer(64<<10))
		received := make(chan []byte)
		go func() {
			var all bytes.Buffer
			for range 2 {
				_, _ = io.CopyN(&all, client, 1<<20)
				time.Sleep(longPause)
			}
			_, _ = io.CopyN(&all, client, int64(len(value)-all.Len()-300_000))
			time.Sleep(longPause) // with the rest on its way, so that the server has no more to send
			_, _ = io.CopyN(&all, client, 300_000)
			received <- all.Bytes()
		}()
		w := &thoughtful{TCPConn: server, times: 2}
		if n, err := c.GetTo(context.Background(), "slow", w); err != nil || n != int64(len(value)) {
			t.Error(n, err)
		}
		if !bytes.Equal(<-received, value) {
			t.Error("another value")
		}
	})
}

// A thoughtful writer takes longer than any timeout before it reads, the first few times.
type thoughtful struct {
	*net.TCPConn
	times int
}

func (w *thoughtful) ReadFrom(r io.Reader) (int64, error) {
	if w.times--; w.times >= 0 {
		time.Sleep(longPause)
	}
	return w.TCPConn.ReadFrom(r)
}

// A deadline of the writer's own ends the call, even if the next ReadFrom would set a new one: how many bytes it has cost is
// unknown.
func TestGetToAWriterWithADeadline(t *testing.T) {
	onBothNetworks(t, patient, func(t *testing.T, c *Client, rdb *redis.Client) {
		must(t, rdb.Set(bounded(t), "late", make([]byte, 16<<20), 0).Err())
		_, server := tcpPair(t)
		w := &renewing{TCPConn: server}
		var writer *WriterError
		if _, err := c.GetTo(context.Background(), "late", w); !errors.As(err, &writer) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if w.late > 1 {
			t.Errorf("asked again, %d times, after its deadline had passed", w.late-1)
		}
	})
}

// A renewing writer sets its deadline whenever it is asked.
type renewing struct {
	*net.TCPConn
	late int // how often the deadline has passed
}

func (w *renewing) ReadFrom(r io.Reader) (int64, error) {
	_ = w.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n, err := w.TCPConn.ReadFrom(r)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.late++
	}
	return n, err
}

// A server that falls silent in the middle of a splice is noticed, and the timeout is the error.
func TestServerStopsAmidASplice(t *testing.T) {
	t.Parallel() // it waits
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
			rdb := s.Client(t)
			must(t, rdb.Set(bounded(t), "stops", make([]byte, size), 0).Err())
			p := s.Proxy(t)
			p.Set(redistest.HoldReply(1<<20), redistest.HoldRequest(1<<20))
			o := p.Options()
			o.MaxRetries = -1
			hasty(o)
			c, _ := clientOf(t, o)
			mine, others := tcpPair(t)
			err := f(c, mine, others)
			var writer *WriterError
			var reader *ReaderError
			if !errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &writer) || errors.As(err, &reader) {
				t.Error(err)
			}
		})
	}
}
