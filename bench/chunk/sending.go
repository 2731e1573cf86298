package chunk

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

// A Sending is pieces of a file that are sent to a TCP connection on loopback, one after the other.
type Sending struct {
	Key   string // of the command line
	What  string
	Shows string // the sentence below the table
	Size  int    // bytes that a run sends

	piece   int
	random  bool // the pieces' order, else from the file's start to its end
	senders []Sender
}

// Sendings are all of them.
var Sendings = []Sending{
	{
		Key: "splice", What: "4 KiB at random from a file in the page cache, sent to a TCP connection",
		Shows: "What a piece costs each way: two calls and a copy, two calls and a page that is lent, or one call of sendfile, " +
			"for which io.CopyN has to seek first.",
		Size: 8 * mib, piece: 4 * kib, random: true, senders: append([]Sender{{"read + write", sendRead}}, sendKernel...),
	},
	{
		Key: "copybuffer", What: "64 KiB at a time from a file in the page cache, sent to a TCP connection",
		Shows: "What a buffer that is kept is worth to many short copies: the one that each of them makes, and its collection.",
		Size:  FileSize, piece: blockSize, senders: sendCopies,
	},
	{
		Key: "copybuffer", What: "all of a file in the page cache in one copy, sent to a TCP connection",
		Shows: "The same for one long copy, which makes one buffer however long it is.",
		Size:  FileSize, piece: FileSize, senders: sendCopies,
	},
}

// A Sender is a way to send pieces.
type Sender struct {
	Name string

	open func(f *os.File, to *net.TCPConn, piece int) (*sending, error)
}

// A sending is a Sender at work.
type sending struct {
	send  func(off int64) error // sends the piece that begins there
	close func()                // what it has opened itself; or nil
}

// sendKernel are those that have the kernel move the bytes.
var sendKernel = append([]Sender{
	{"io.CopyN of the file, which is sendfile", sendCopyN},
	{"chunk.Copy of an io.SectionReader, which is sendfile", sendMillrace},
}, sendSplice...)

// sendCopies are those that differ in whose buffer it is. What hides the file and the connection leaves io.Copy nothing but
// Read and Write, as most wrappers do.
var sendCopies = []Sender{
	{"io.Copy, hidden: 32 KiB for each copy", sendHidden(io.Copy)},
	{"io.CopyBuffer, hidden: 64 KiB for each copy", sendHidden(func(w io.Writer, r io.Reader) (int64, error) {
		return io.CopyBuffer(w, r, make([]byte, blockSize))
	})},
	{"io.CopyBuffer, hidden: 32 KiB that are kept", sendKept(32 * kib)},
	{"io.CopyBuffer, hidden: 64 KiB that are kept", sendKept(blockSize)},
	{"chunk.Copy, hidden", sendHidden(func(w io.Writer, r io.Reader) (int64, error) {
		report, err := chunk.Copy(context.Background(), w, r)
		return report.Bytes, err
	})},
	sendKernel[0],
	sendKernel[1],
}

func sendRead(f *os.File, to *net.TCPConn, piece int) (*sending, error) {
	buf := make([]byte, piece)
	return &sending{send: func(off int64) error {
		if _, err := f.ReadAt(buf, off); err != nil {
			return err
		}
		_, err := to.Write(buf)
		return err
	}}, nil
}

func sendCopyN(f *os.File, to *net.TCPConn, piece int) (*sending, error) {
	return &sending{send: func(off int64) error {
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return err
		}
		_, err := io.CopyN(to, f, int64(piece))
		return err
	}}, nil
}

func sendMillrace(f *os.File, to *net.TCPConn, piece int) (*sending, error) {
	return &sending{send: func(off int64) error {
		_, err := chunk.Copy(context.Background(), to, io.NewSectionReader(f, off, int64(piece)))
		return err
	}}, nil
}

// sendHidden has a function copy each piece.
func sendHidden(copy func(io.Writer, io.Reader) (int64, error)) func(*os.File, *net.TCPConn, int) (*sending, error) {
	return func(f *os.File, to *net.TCPConn, piece int) (*sending, error) {
		var w io.Writer = struct{ io.Writer }{to}
		src := &part{f: f}
		return &sending{send: func(off int64) error {
			src.off, src.left = off, piece
			_, err := copy(w, src)
			return err
		}}, nil
	}
}

func sendKept(size int) func(*os.File, *net.TCPConn, int) (*sending, error) {
	buf := make([]byte, size)
	return sendHidden(func(w io.Writer, r io.Reader) (int64, error) { return io.CopyBuffer(w, r, buf) })
}

// A part of a file has nothing but Read, and is used again, so that a copy's allocations are its own.
type part struct {
	f    *os.File
	off  int64
	left int
}

func (p *part) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n, err := p.f.ReadAt(b[:min(len(b), p.left)], p.off)
	p.off, p.left = p.off+int64(n), p.left-n
	return n, err
}

// Measure gives every sender a turn of about d in every round.
func (c Sending) Measure(s *Site, rounds int, d time.Duration) ([]Result, error) {
	w, err := newWire()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	order, want, err := c.plan(s)
	if err != nil {
		return nil, err
	}
	var ways []way
	for _, by := range c.senders {
		at, err := by.open(s.file, w.TCPConn, c.piece)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", by.Name, err)
		}
		if at.close != nil {
			defer at.close()
		}
		ways = append(ways, way{name: by.Name, run: func() error { return w.carry(at, order, c.Size, want) }})
	}
	return take(ways, rounds, d)
}

// plan is where the pieces begin that are sent, and the checksum of them all.
func (c Sending) plan(s *Site) (order []int64, crc uint32, err error) {
	info, err := s.file.Stat()
	if err != nil {
		return nil, 0, err
	}
	all := int(info.Size()) / c.piece
	random := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, c.piece)
	for i := range c.Size / c.piece {
		if c.random {
			i = random.IntN(all)
		}
		off := int64(i) * int64(c.piece)
		if _, err := s.file.ReadAt(buf, off); err != nil {
			return nil, 0, err
		}
		order, crc = append(order, off), crc32.Update(crc, crc32.IEEETable, buf)
	}
	return order, crc, nil
}

// carry sends pieces, and waits until all bytes have come, whose checksum must be want.
func (w *wire) carry(by *sending, order []int64, bytes int, want uint32) error {
	w.expect <- bytes
	for _, off := range order {
		if err := by.send(off); err != nil {
			return err
		}
	}
	a := <-w.came
	if a.err == nil && a.crc != want {
		a.err = errOtherBytes
	}
	return a.err
}

// Caption says what the table is about.
func (c Sending) Caption() string { return fmt.Sprintf("%d MiB, %s", c.Size>>20, c.What) }

// Write measures, and writes the table.
func (c Sending) Write(w io.Writer, s *Site, rounds int, d time.Duration) error {
	results, err := c.Measure(s, rounds, d)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Key, err)
	}
	first, us := results[0].Nanos, ours(results).Nanos
	t := measure.NewTable("contender", "MB/s", "x the first", "CPU s/GB, both ends", "B a copy", "allocs a copy", "GCs a GB",
		"time, x ours")
	copies := float64(c.piece) / float64(c.Size)
	for _, r := range results {
		t.Row(r.Name, rate(c.Size, r.Nanos), first.Over(r.Nanos), r.CPU.Times(1/float64(c.Size)), r.Bytes.Times(copies).Whole(),
			r.Allocs.Times(copies).Median(), r.GCs.Times(1e3/float64(c.Size)).Median(), r.Nanos.Over(us))
	}
	return writeShowing(w, t, c.Shows)
}
