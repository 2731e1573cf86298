package frame

import (
	"io"

	"github.com/millrace-io/millrace/arena"
)

// firstGrant is how much memory a payload gets before any of it has arrived: 4 KiB, which most frames fit into, and which a
// peer that sends headers alone may tie up. From then on a frame gets as much again as has arrived.
const firstGrant = 4 << 10

// maxEmptyReads is how often in a row the source may return nothing and no error before io.ErrNoProgress, as in bufio.
const maxEmptyReads = 100

// NextInto puts the next frame, header and payload, into buf and takes it out as a Slice, which the caller owns and releases.
// The frame is contiguous, and plain if the Format is a Sealed. What buf held before comes in front of it.
//
// Errors are those of [Decoder.Next], and arena.ErrFull when buf has no room and may not take any. With any error buf
// is as it was: what has arrived of the frame is kept by the Decoder, and the next call goes on from there, with
// another Buffer if you like. A frame that is larger than a Pool's memory never fits: make sure that MaxPayload is
// below that.
//
// Large payloads are read from the source into buf's memory, without a copy in between.
func (d *Decoder) NextInto(buf arena.Buffer) (arena.Slice, Header, error) {
	if err := d.begin(); err != nil {
		return arena.Slice{}, Header{}, err
	}
	base := buf.Len()
	if len(d.kept) > 0 {
		p := buf.Writable(len(d.kept))
		if p == nil {
			return arena.Slice{}, Header{}, arena.ErrFull
		}
		copy(p, d.kept)
	}
	if err := d.assemble(buf, base); err != nil {
		err = d.stopped(err)
		d.keep(buf, base)
		return arena.Slice{}, Header{}, err
	}
	return buf.Take(), d.end(), nil
}

// assemble reads the rest of the frame, whose beginning is in buf from base on.
func (d *Decoder) assemble(buf arena.Buffer, base int) error {
	if d.sealed == nil {
		return d.gather(buf, base, d.size+d.header.Payload)
	}
	for total := len(d.sealed.PlainHeader()) + d.header.Payload; d.open < total; {
		end := d.open + d.sealed.ChunkSize(total-d.open)
		if err := d.gather(buf, base, end); err != nil {
			return err
		}
		plain, err := d.sealed.Open(buf.Data(base + end)[base+d.open:])
		if err != nil {
			return d.fail(err)
		}
		d.open += len(plain)
		buf.Truncate(base + d.open)
	}
	return nil
}

// gather reads until n bytes of the frame are in buf from base on. It takes memory in steps: first firstGrant, then as much
// again as has arrived.
func (d *Decoder) gather(buf arena.Buffer, base, n int) error {
	for have := buf.Len() - base; have < n; {
		if err := d.await(n - have); err != nil {
			return err
		}
		p := buf.Writable(min(n-have, max(firstGrant, have, d.r.Buffered())))
		if p == nil {
			d.patience.complete() // to wait for room is not the peer's fault
			return arena.ErrFull
		}
		m, err := d.readFull(p)
		have += m
		if err != nil {
			buf.Truncate(base + have)
			return err
		}
	}
	return nil
}

// readFull reads until p is full, and returns how many bytes it has read, and why if they are fewer.
func (d *Decoder) readFull(p []byte) (n int, err error) {
	for empty := 0; n < len(p); {
		m, err := d.r.Read(p[n:])
		n += m
		switch {
		case n == len(p):
			return n, nil
		case err != nil:
			return n, err
		case m > 0:
			empty = 0
		default:
			if empty++; empty == maxEmptyReads {
				return n, io.ErrNoProgress
			}
		}
	}
	return n, nil
}

// keep moves what has arrived of the frame out of buf, unless the frame has failed.
func (d *Decoder) keep(buf arena.Buffer, base int) {
	if d.err == nil {
		d.kept = append(d.kept[:0], buf.Data(buf.Len())[base:]...)
	}
	undo(buf, base)
}

// undo takes back what has been written to buf since it held base bytes.
func undo(buf arena.Buffer, base int) {
	buf.Truncate(base)
	if base == 0 {
		_ = buf.Take() // empty: this gives its place back
	}
}
