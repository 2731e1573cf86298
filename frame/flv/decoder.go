package flv

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/millrace-io/millrace"
)

// DefaultMaxTag is the largest tag data that a Decoder takes unless MaxTag says otherwise: half of what the 24-bit size
// field can say. The largest tags are key frames, and one of 8 MiB would be two seconds of a 32 Mbit/s stream in a
// single picture. Above that, a size is far more likely to be damage or an attack than a picture.
const DefaultMaxTag = 8 << 20

// Option changes how a Decoder reads. Options panic when a value is out of range.
type Option func(*Decoder)

// MaxTag sets the largest tag data that is taken, in bytes, from 1 to MaxData. A tag that announces more ends the stream
// with a *LimitError before its data is waited for.
func MaxTag(n int) Option {
	if n < 1 || n > MaxData {
		panic(fmt.Sprintf("flv: MaxTag(%d): a limit is from 1 to %d bytes", n, MaxData))
	}
	return func(d *Decoder) { d.maxTag = n }
}

// AnyPrevTagSize accepts tags whatever the previous-tag-size behind them says, for files from writers that put
// something else there: early versions of Open Broadcaster Software and FlixEngine are known for it. Nothing in the
// cutting depends on the field, but it is the only redundancy in the format: without it a stream that has lost or
// gained a byte is cut into garbage. Don't use it in front of other players: ffmpeg drops what follows such a tag until
// it finds its way again.
func AnyPrevTagSize() Option {
	return func(d *Decoder) { d.anyPrev = true }
}

// Decoder cuts an FLV stream into tags. It belongs to one goroutine at a time.
//
// It is not made of a frame.Decoder, for which a header says all about a frame: a tag's length comes again behind it, the
// stream has a header of its own, and its first bytes may be those of no FLV. Either would have to know of the other's cases.
//
// Invariants: 0 < maxTag ≤ MaxData; between calls, tag is empty.
type Decoder struct {
	r       *millrace.Reader
	maxTag  int
	anyPrev bool

	header Header
	began  bool           // the header has been read
	err    error          // a fault in the stream, for good
	tag    millrace.Chain // the tag being read
	head   [tagHeaderSize + peekSize]byte
}

// NewDecoder returns a Decoder that reads from r. It borrows r for as long as it is used, and holds nothing between
// calls: there is nothing to close. r stands right after the last tag that Next returned.
func NewDecoder(r *millrace.Reader, opts ...Option) *Decoder {
	d := &Decoder{r: r, maxTag: DefaultMaxTag}
	for _, opt := range opts {
		opt(d)
	}
	return d
}

// Next appends the next tag as it came, from its header to the previous-tag-size behind it, to dst, which owns it from then
// on. Nothing is copied, and tags that arrived in one block come as one piece.
//
// At the end of the stream the error is io.EOF if it ends between two tags, io.ErrUnexpectedEOF if it ends inside one. A tag
// above the limit is a *LimitError, one with a wrong previous-tag-size a *PrevTagSizeError (a 0 is wrong, too: no writer in
// use leaves it out, and players take it for damage). With any error dst is as it was.
//
// A fault in the stream is final. An error of the source, such as a deadline, loses nothing, even inside a tag: Next may be
// called again.
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
		return Tag{}, d.fail(&LimitError{What: "tag data (MaxTag)", Have: int64(t.Size), Limit: int64(d.maxTag)})
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

// inspect looks at the two ends of the tag in d.tag: what the codec's header says, and whether the previous-tag-size repeats
// the size.
func (d *Decoder) inspect(t *Tag) error {
	n := d.tag.CopyTo(d.head[:min(len(d.head), t.Len()-trailerSize)])
	t.parseData(d.head[tagHeaderSize:n])
	if d.anyPrev {
		return nil
	}
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

// fail makes err the Decoder's last word.
func (d *Decoder) fail(err error) error {
	d.err = err
	return err
}
