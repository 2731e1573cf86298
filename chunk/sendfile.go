package chunk

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"time"
)

// sendStep is how much is sent between two looks at the context. It is more than a socket takes at once, so that it costs
// no system call.
const sendStep = 4 << 20

// toEOF is the end of a fileRange that goes as far as the file does.
const toEOF = math.MaxInt64

// errUnhandled says that the kernel cannot do this, and that nothing has been moved by the attempt.
var errUnhandled = errors.New("chunk: not for the kernel")

// A fileRange is the source of a transfer: the bytes [off, end) of a file that others may be reading at the same time. It
// does not use the file's own position, unless own says so, and one descriptor serves any number of transfers.
//
// Its WriteTo is what makes that fast. net/http hands the source of a response's ReadFrom, once the header is out, to
// TCPConn.ReadFrom, which does not know a fileRange and so has io.Copy call WriteTo, with the connection as its argument.
//
// Invariants:
//
//	0 ≤ off ≤ end
//	0 ≤ warmTo ≤ end
type fileRange struct {
	file     *os.File
	off, end int64
	exact    bool // the file has all of it: less is an io.ErrUnexpectedEOF
	shared   bool // the file's position must stay as it is
	own      bool // off counts from the file's position, which moves with it; only for sendTo and toFile
	ctx      context.Context
	tally    *tally
	alarm    *alarm         // set when a socket is waited for; or nil
	server   serverResponse // whose body it is, if its ReadFrom is to read it
	buffer   int            // what the send buffer of a connection that could use more may be set to; 0 for nothing

	warmth *warmth   // what is in the page cache is asked for before it is sent; nil to not ask
	warmTo int64     // it has said so for the bytes [off, warmTo)
	quick  bool      // without doubt
	asked  time.Time // when it was asked
}

// Read implements io.Reader.
func (f *fileRange) Read(p []byte) (int, error) {
	n, err := f.read(p)
	f.tally.add(&f.tally.Copied, int64(n))
	return n, err
}

// read is Read for callers that do the counting.
func (f *fileRange) read(p []byte) (int, error) {
	if f.off >= f.end {
		return 0, io.EOF
	}
	n, err := f.ready(int64(len(p)))
	if err != nil {
		return 0, err
	}
	got, err := f.file.ReadAt(p[:n], f.off)
	f.off += int64(got)
	if got > 0 {
		return got, nil // an error comes again
	}
	return 0, f.ended(err)
}

// ended returns what it means that the file gave err.
func (f *fileRange) ended(err error) error {
	if err == io.EOF && f.exact {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ready returns how many of the next n bytes can be sent now, and says in f.quick whether they are in the page cache for
// sure. It waits for those that are not.
func (f *fileRange) ready(n int64) (int64, error) {
	n = min(n, f.end-f.off)
	if f.warmth == nil {
		return n, nil
	}
	if f.off >= f.warmTo || time.Since(f.asked) > verdictLife {
		most, quick, err := f.warmth.ready(f.ctx, f.off, min(sendStep, f.end-f.off))
		if err != nil {
			return 0, err
		}
		f.warmTo, f.quick, f.asked = f.off+most, quick, time.Now()
	}
	return min(n, f.warmTo-f.off), nil
}

// WriteTo implements io.WriterTo: it sends what is left to w, by sendfile if w is a connection.
func (f *fileRange) WriteTo(w io.Writer) (int64, error) {
	start := f.off
	if n := f.server.room(); n < f.end-f.off {
		f.end = f.off + n
	}
	err := f.sendTo(w)
	if errors.Is(err, errUnhandled) {
		err = f.copyTo(w)
	}
	if err == io.EOF {
		err = nil
	}
	return f.off - start, err
}

// copyTo sends what is left through a pooled block. Bytes that w did not take have not been read, as far as off says.
func (f *fileRange) copyTo(w io.Writer) error {
	if f.off >= f.end {
		return nil
	}
	start, before := f.off, f.tally.Copied
	err := copyBlocks(f.ctx, f.tally, w, f.read, min(copyBlock, f.end-f.off), nil)
	f.off = start + f.tally.Copied - before
	if err == io.EOF {
		return nil
	}
	return err
}

// readInto has rf read what is left. When rf fails, what it has read and did not take counts as not read.
func (f *fileRange) readInto(rf io.ReaderFrom) error {
	start, before := f.off, f.tally.Copied
	n, err := rf.ReadFrom(f)
	if lost := f.off - (start + n); err != nil && 0 < lost && lost <= f.tally.Copied-before {
		f.off -= lost
		f.tally.Copied -= lost
		f.tally.Bytes -= lost
	}
	return err
}

// modeOf returns the kind of file that f is.
func modeOf(f *os.File) os.FileMode {
	mode, _, err := look(f)
	if err != nil {
		return os.ModeIrregular
	}
	return mode
}

// isStream reports whether c is a stream, and not one of packets.
func isStream(c *net.UnixConn) bool {
	addr := c.LocalAddr()
	return addr != nil && addr.Network() == "unix"
}
