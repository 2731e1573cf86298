// Package writer compares millrace.Writer with bufio.Writer. Both send messages of small writes and
// call Flush after each message.
//
// The first comparison uses a destination that does nothing, and shows the difference exactly. The
// second comparison uses a TCP connection to another process, which discards the messages.
package writer

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
)

// Program is the benchmark of millrace.Writer. It produces one table.
var Program = &measure.Program{
	Name: "writer", What: "messages of small writes, and a Flush after each", Rounds: 15,
	Turn:  50 * time.Millisecond,
	Brief: []string{"-rounds", "9"},
	Run:   run,
}

// A message consists of several small writes, followed by a body.
type message struct {
	writes int // number of small writes
	body   int // size of the body in bytes; 0 means no body
}

var messages = []message{{4, 0}, {16, 0}, {80, 0}, {4, 1 << 10}, {4, 64 << 10}}

func (m message) String() string {
	if m.body == 0 {
		return fmt.Sprintf("%d writes of %d B", m.writes, len(text))
	}
	return fmt.Sprintf("%d writes of %d B, a body of %d KiB", m.writes, len(text), m.body>>10)
}

var text = []byte("Content-Type: application/octet-stream\r\n")

type contender struct {
	name string
	// open prepares to send the message m to dst. The function send writes the message n times. The
	// caller must call the function done at the end.
	open func(dst io.Writer, m message) (send func(n int) error, done func())
}

// The first contender is the baseline for the others.
var contenders = []contender{
	{"bufio.Writer", func(dst io.Writer, m message) (func(int) error, func()) {
		w, body := bufio.NewWriter(dst), make([]byte, m.body)
		return func(n int) error {
			for range n {
				for range m.writes {
					w.Write(text)
				}
				w.Write(body)
				if err := w.Flush(); err != nil {
					return err
				}
			}
			return nil
		}, func() {}
	}},
	{"millrace.Writer", func(dst io.Writer, m message) (func(int) error, func()) {
		w := millrace.NewWriter(dst)
		var body, c millrace.Chain
		body.AppendCopy(make([]byte, m.body))
		return func(n int) error {
			for range n {
				for range m.writes {
					w.Write(text)
				}
				if m.body > 0 {
					body.CloneTo(&c)
					w.WriteChain(&c)
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
			return nil
		}, func() { w.Release(); body.Release() }
	}},
}

func (c contender) check(m message) error {
	var got bytes.Buffer
	send, done := c.open(&got, m)
	defer done()
	if err := send(2); err != nil {
		return err
	}
	want := append(bytes.Repeat(text, m.writes), make([]byte, m.body)...)
	if !bytes.Equal(got.Bytes(), append(want, want...)) {
		return fmt.Errorf("writer: %s sends other bytes for %v", c.name, m)
	}
	return nil
}

func run(ctx context.Context, p *measure.Params) error {
	addr, child, err := measure.StartPeer(receiver)
	if err != nil {
		return err
	}
	defer child.Close()
	t := measure.NewTable("writer", "Messages of small writes, and a Flush after each", "message",
		"no destination: bufio.Writer ns", "millrace.Writer ns", "TCP: bufio.Writer, CPU ns",
		"millrace.Writer, CPU ns", "TCP, x bufio.Writer", "millrace allocs/op")
	t.Bar = 5
	t.Note = "CPU is that of the writing process, in user and system mode; x below 1 is less."
	for _, m := range messages {
		p.Logf("writer: %v", m)
		alone, err := compare(ctx, p, m, func() (io.WriteCloser, error) { return nowhere{}, nil })
		if err != nil {
			return err
		}
		costs, err := compare(ctx, p, m, func() (io.WriteCloser, error) {
			return net.Dial("tcp", addr)
		})
		if err != nil {
			return err
		}
		t.Row(m.String(), alone[0].Nanos.Median(), alone[1].Nanos.Median(), costs[0].CPU,
			costs[1].CPU, costs[1].CPU.Over(costs[0].CPU), costs[1].Allocs.Median())
	}
	return p.Add(t)
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

// compare measures the cost of sending m for each contender. Each measurement uses a new
// destination, which newDest opens.
func compare(ctx context.Context, p *measure.Params, m message,
	newDest func() (io.WriteCloser, error)) ([]measure.Cost, error) {
	var all []measure.Contender
	for _, c := range contenders {
		if err := c.check(m); err != nil {
			return nil, err
		}
		all = append(all, measure.Contender{Name: c.name, Turn: func(n int) (measure.Turn, error) {
			dst, err := newDest()
			if err != nil {
				return measure.Turn{}, err
			}
			defer dst.Close()
			return c.turn(dst, m, n)
		}})
	}
	return measure.Compare(ctx, all, p.Rounds, p.Turn)
}

func (c contender) turn(dst io.Writer, m message, n int) (measure.Turn, error) {
	send, done := c.open(dst, m)
	defer done()
	err := send(100)
	if err != nil {
		return measure.Turn{}, err
	}
	t := measure.Take(n, func() { err = send(n) })
	return t, err
}

// receiveEvery is the interval at which the receiver reads. If the receiver waited for each
// message, only some writes would wake it, and the time of a write would vary by a factor of nine.
const receiveEvery = 200 * time.Microsecond

var receiver = measure.RegisterChild("writer-receiver", func([]string) error {
	return measure.Serve(func(c net.Conn) {
		b := make([]byte, 4<<20)
		for err := error(nil); err == nil; _, err = c.Read(b) {
			time.Sleep(receiveEvery)
		}
	})
})
