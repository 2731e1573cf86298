package reader

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
)

// lineSize is the length of a line in bytes, including the newline.
const lineSize = 120

var lines = pattern{"lines", "a flood of lines of 120 bytes", 200_000, func(c net.Conn) error {
	line := append(bytes.Repeat([]byte("x"), lineSize-1), '\n')
	b := bytes.Repeat(line, floodWrite/lineSize)
	for {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
}}

// A lineReader is a way to read lines. The function read reads n lines, and returns an error if a
// line does not have lineSize bytes.
type lineReader struct {
	name string
	open func(r io.Reader) (read func(n int) error, release func())
}

var errLine = errors.New("reader: a line of another length")

// lineReaders lists the contenders of runLines. The first one drops each line at once. The others
// keep a line until they read the next line.
var lineReaders = []lineReader{
	{"bufio ReadSlice, not kept", func(src io.Reader) (func(int) error, func()) {
		r := bufio.NewReader(src)
		return func(n int) error {
			for range n {
				if p, err := r.ReadSlice('\n'); len(p) != lineSize {
					return errors.Join(errLine, err)
				}
			}
			return nil
		}, func() {}
	}},
	{"bufio ReadBytes", func(src io.Reader) (func(int) error, func()) {
		r := bufio.NewReader(src)
		return func(n int) error {
			for range n {
				p, err := r.ReadBytes('\n')
				if len(p) != lineSize {
					return errors.Join(errLine, err)
				}
				keptLine = p
			}
			return nil
		}, func() {}
	}},
	{"millrace ReadChainDelim", func(src io.Reader) (func(int) error, func()) {
		r := millrace.NewReader(src)
		var line millrace.Chain
		return func(n int) error {
			for range n {
				line.Release()
				if err := r.ReadChainDelim(&line, '\n', 1<<20); line.Len() != lineSize {
					return errors.Join(errLine, err)
				}
			}
			return nil
		}, func() { line.Release(); r.Release() }
	}},
	{"millrace Peek and ReadRef", func(src io.Reader) (func(int) error, func()) {
		r := millrace.NewReader(src)
		var line millrace.Ref
		return func(n int) error {
			for range n {
				line.Release()
				p, err := r.Peek(lineSize) // all lines have this length
				if err == nil {
					line, err = r.ReadRef(bytes.IndexByte(p, '\n') + 1)
				}
				if line.Len() != lineSize {
					return errors.Join(errLine, err)
				}
			}
			return nil
		}, func() { line.Release(); r.Release() }
	}},
}

var keptLine []byte

func (by lineReader) turn(addr string, n int) (measure.Turn, error) {
	c, err := lines.dial(addr)
	if err != nil {
		return measure.Turn{}, err
	}
	defer c.Close()
	read, release := by.open(c)
	defer release()
	if err := read(lines.warmUp); err != nil {
		return measure.Turn{}, err
	}
	t := measure.Take(n, func() { err = read(n) })
	return t, err
}

func runLines(ctx context.Context, p *measure.Params) error {
	addr, child, err := measure.StartPeer(sender)
	if err != nil {
		return err
	}
	defer child.Close()
	p.Logf("reader: a TCP connection, %s", lines.title)
	var contenders []measure.Contender
	for _, by := range lineReaders {
		contenders = append(contenders, measure.Contender{Name: by.name,
			Turn: func(n int) (measure.Turn, error) { return by.turn(addr, n) }})
	}
	costs, err := measure.Compare(ctx, contenders, p.Rounds, p.Turn)
	if err != nil {
		return err
	}
	t := measure.NewTable("reader-tcp-lines",
		"Lines of 120 bytes from a TCP connection, each kept until the next one", "contender",
		"CPU ns a line", "CPU, x bufio ReadBytes", "ns a line", "B/op", "allocs/op")
	t.Bar = 1
	t.Note = "Another process sends. CPU is that of the reading process, in user and system mode; x below 1 is less."
	for i, c := range costs {
		t.Row(contenders[i].Name, c.CPU, c.CPU.Over(costs[1].CPU), c.Nanos.Median(),
			c.Bytes.Whole(), c.Allocs.Median())
	}
	return p.Add(t)
}
