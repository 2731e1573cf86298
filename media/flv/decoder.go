package flv

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/millrace-io/millrace"
)

// defaultMaxTag is the default of MaxTag, in bytes. It is large enough for any usual keyframe: two
// seconds of a 32 Mbit/s stream fit in 8 MiB.
const defaultMaxTag = 8 << 20

// Option configures a Decoder. A function that returns an Option panics if its argument is out of
// range.
type Option func(*Decoder)

// MaxTag limits the size of a tag's data to n bytes, from 1 to MaxData. The default is 8 MiB. For a
// larger tag, Next returns a *LimitError before the data arrives, and the stream ends.
func MaxTag(n int) Option {
	if n < 1 || n > MaxData {
		panic(fmt.Sprintf("flv: MaxTag(%d): a limit is from 1 to %d bytes", n, MaxData))
	}
	return func(d *Decoder) { d.maxTag = n }
}

// A Decoder splits an FLV stream into tags. It belongs to one goroutine at a time.
type Decoder struct {
	r      *millrace.Reader
	maxTag int // 0 < maxTag ≤ MaxData

	header Header
	began  bool           // the header has been read
	err    error          // the error that ended the stream
	tag    millrace.Chain // the tag being read; empty between calls
	head   [tagHeaderSize + peekSize]byte
}

// NewDecoder returns a Decoder that reads from r. The Decoder borrows r, and need not be closed.
// After each successful call to Next, r is positioned after the returned tag.
func NewDecoder(r *millrace.Reader, opts ...Option) *Decoder {
	d := &Decoder{r: r, maxTag: defaultMaxTag}
	for _, opt := range opts {
		opt(d)
	}
	return d
}

// Next appends the next tag to dst, which then owns it. The tag includes its header and the
// previous-tag-size at its end. Next copies nothing. A tag that arrived in one block becomes one
// piece of the Chain.
//
// If Next returns an error, dst is unchanged. The errors are:
//
//   - io.EOF: the stream ends between two tags.
//   - io.ErrUnexpectedEOF: the stream ends inside a tag.
//   - A *LimitError: a tag is larger than MaxTag.
//   - A *PrevTagSizeError: the previous-tag-size is wrong, or 0, which players treat as damage.
//
// After an error from the source of r, such as an expired deadline, the caller may call Next again.
// No bytes are lost. After any other error, all later calls return the same error.
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

// inspect parses the start of the tag's data, and checks the previous-tag-size.
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

// fail makes all later calls return err, and returns err.
func (d *Decoder) fail(err error) error {
	d.err = err
	return err
}
