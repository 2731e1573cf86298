package reader

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// A pattern describes how the sender writes to a TCP connection.
type pattern struct {
	name, title string
	warmUp      int // packets that are read before the clock starts
	write       func(c net.Conn) error
}

const (
	floodWrite = 64 << 10
	pacedBytes = 25 << 10
	pacedEvery = 2 * time.Millisecond
)

var patterns = []pattern{
	{"flood", "a flood of writes of 64 KiB", 20_000, func(c net.Conn) error {
		b := make([]byte, period+floodWrite) // a write may begin anywhere in the sequence
		fill(b, 0)
		for at := 0; ; at = (at + floodWrite) % period {
			if _, err := c.Write(b[at : at+floodWrite]); err != nil {
				return err
			}
		}
	}},
	{"small", "writes of 64 to 2048 bytes, one after the other", 5_000, func(c net.Conn) error {
		b := make([]byte, maxRead)
		for s := NewSource(1); ; {
			n, _ := s.Read(b)
			if _, err := c.Write(b[:n]); err != nil {
				return err
			}
		}
	}},
	{"paced", "25 KiB every 2 ms", 1_000, func(c net.Conn) error {
		b := make([]byte, pacedBytes)
		due := time.Now()
		for at := 0; ; at = (at + len(b)) % period {
			fill(b, at)
			if _, err := c.Write(b); err != nil {
				return err
			}
			due = due.Add(pacedEvery)
			time.Sleep(time.Until(due))
		}
	}},
}

// fill copies the sequence of a Source to b, beginning at the given offset in the sequence.
func fill(b []byte, offset int) {
	for len(b) > 0 {
		n := copy(b, slab[offset:period])
		b, offset = b[n:], 0
	}
}

// sender is a child process, so that its CPU time is not measured. The first line that a client
// sends on a connection is the name of a pattern.
var sender = measure.RegisterChild("reader-sender", func([]string) error {
	return measure.Serve(send)
})

func send(c net.Conn) {
	name, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return
	}
	for _, s := range append(patterns[:len(patterns):len(patterns)], lines) {
		if s.name == strings.TrimSpace(name) {
			s.write(c) // returns when the reader closes c
		}
	}
}

func (s pattern) dial(addr string) (net.Conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, s.name+"\n"); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (s pattern) check(addr string, by contender) error {
	c, err := s.dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	return by.check([]io.Reader{c}, 500)
}

func (s pattern) turn(addr string, by contender, n int) (measure.Turn, error) {
	c, err := s.dial(addr)
	if err != nil {
		return measure.Turn{}, err
	}
	defer c.Close()
	packets, release := by.open([]io.Reader{c}, new(audience))
	defer release()
	packets(s.warmUp)
	return measure.Take(n, func() { packets(n) }), nil
}

func runTCP(ctx context.Context, p *measure.Params) error {
	addr, child, err := measure.StartPeer(sender)
	if err != nil {
		return err
	}
	defer child.Close()
	for _, s := range patterns {
		p.Logf("reader: a TCP connection, %s", s.title)
		var contenders []measure.Contender
		for _, by := range onTCP {
			if err := s.check(addr, by); err != nil {
				return err
			}
			contenders = append(contenders, measure.Contender{Name: by.name,
				Turn: func(n int) (measure.Turn, error) {
					return s.turn(addr, by, n)
				}})
		}
		costs, err := measure.Compare(ctx, contenders, p.Rounds, p.Turn)
		if err != nil {
			return err
		}
		t := measure.NewTable("reader-tcp-"+s.name,
			"Packets of 1 KiB from a TCP connection: "+s.title, "contender",
			"CPU ns a packet", "CPU, x bufio 4 KiB", "CPU, x bufio 64 KiB", "ns a packet", "B/op",
			"allocs/op")
		t.Bar = 1
		t.Note = "Another process sends. CPU is that of the reading process, in user and system mode; x below 1 is less. A reader " +
			"that is faster than the sender waits more often, and pays for it with system calls."
		for i, c := range costs {
			t.Row(contenders[i].Name, c.CPU, c.CPU.Over(costs[0].CPU), c.CPU.Over(costs[1].CPU),
				c.Nanos.Median(), c.Bytes.Whole(),
				c.Allocs.Median())
		}
		if err := p.Add(t); err != nil {
			return err
		}
	}
	return nil
}
