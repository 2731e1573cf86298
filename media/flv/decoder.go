package flv

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/millrace-io/millrace"
)

// defaultMaxTag is the largest tag data, in bytes, that a Decoder accepts by default. It is half of
// the maximum of the size field. A keyframe of 8 MiB would be two seconds of a 32 Mbit/s stream.
const defaultMaxTag = 8 << 20

// Option changes how a Decoder reads. Options panic if a value is out of range.
type Option func(*Decoder)

// MaxTag sets the largest tag data that is accepted, in bytes, from 1 to MaxData. If a tag
// announces more, Next returns a *LimitError before the data arrives, and the stream ends. The
// default is 8 MiB.
func MaxTag(n int) Option {
	if n < 1 || n > MaxData {
		panic(fmt.Sprintf("flv: MaxTag(%d): a limit is from 1 to %d bytes", n, MaxData))
	}
	return func(d *Decoder) { d.maxTag = n }
}

// Decoder splits an FLV stream into tags. It belongs to one goroutine at a time.
//
// It does not use frame.Decoder, because FLV has more than frames with a header. The stream has a
// header, too, and each tag repeats its size at its end.
type Decoder struct {
	r      *millrace.Reader
	maxTag int // 0 < maxTag ≤ MaxData

	header Header
	began  bool           // the header has been read
	err    error          // the fault that ended the stream
	tag    millrace.Chain // the tag being read; empty between calls
	head   [tagHeaderSize + peekSize]byte
}

// NewDecoder returns a Decoder that reads from r. It borrows r while in use. The Decoder holds
// nothing between calls and need not be closed. After each call of Next, the position of r is after
// the returned tag.
func NewDecoder(r *millrace.Reader, opts ...Option) *Decoder {
	d := &Decoder{r: r, maxTag: defaultMaxTag}
	for _, opt := range opts {
		opt(d)
	}
	return d
}

// Next appends the next tag to dst, which then owns it. The tag includes its header, and the
// previous-tag-size at its end. Nothing is copied. If a tag has arrived in one block, it is
// appended as one piece.
//
// If the stream ends between two tags, the error is io.EOF. If it ends inside a tag, the error is
// io.ErrUnexpectedEOF. For a tag above the limit, it is a *LimitError. For a wrong
// previous-tag-size, it is a *PrevTagSizeError. A previous-tag-size of 0 is wrong, too, because
// players treat it as damage. On any error dst is unchanged.
//
// A fault in the stream is final. An error of the source, such as a deadline, is not. Nothing is
// lost then, even inside a tag, and the caller may call Next again.
func (d *Decoder) Next(dst *millrace.Chain) (Tag, error) {
	if d.err != nil {
		return Tag{}, d.err
	}
	if !d.began {
		if _, err := d.Header(); err != nil {
			return Tag{}, err
		}
	}
	p, err := d.r.Peek(tagHeaderSize)
	if err != nil {
		if len(p) > 0 {
			err = noEOF(err)
		}
		return Tag{}, err
	}
	t := parseTagHeader(p)
	if t.Size > d.maxTag {
		return Tag{}, d.fail(&LimitError{What: "tag data (MaxTag)", Have: int64(t.Size),
			Limit: int64(d.maxTag)})
	}
	if err := d.r.ReadChain(&d.tag, t.Len()); err != nil {
		return Tag{}, noEOF(err)
	}
	if err := d.inspect(&t); err != nil {
		d.tag.Release()
		return Tag{}, d.fail(err)
	}
	dst.Merge(&d.tag)
	return t, nil
}

// inspect fills t from the start of the data in d.tag, and checks the previous-tag-size at the
// tag's end.
func (d *Decoder) inspect(t *Tag) error {
	n := d.tag.CopyTo(d.head[:min(len(d.head), t.Len()-trailerSize)])
	t.parseData(d.head[tagHeaderSize:n])
	var last [trailerSize]byte
	view := d.tag.Reader()
	if _, err := view.ReadAt(last[:], int64(t.Len()-trailerSize)); err != nil {
		return io.ErrUnexpectedEOF
	}
	have, want := binary.BigEndian.Uint32(last[:]), uint32(t.Len()-trailerSize)
	if have != want {
		return &PrevTagSizeError{Have: have, Want: want}
	}
	return nil
}

// fail makes err the result of this call and of all that follow.
func (d *Decoder) fail(err error) error {
	d.err = err
	return err
}
