package flv

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace"
)

// headerBlock is the size, in bytes, of the block for headers: room for 68 tags.
const headerBlock = 1 << 10

// An Encoder builds tags: a new header, the body by reference, and the previous-tag-size. Headers
// share blocks, so that a tag that is kept holds little more memory than its own bytes. The zero
// Encoder is ready to use. It belongs to one goroutine at a time, and Release returns its block.
type Encoder struct{ room millrace.Draft }

// Release returns the Encoder's block. Appended tags stay valid.
func (e *Encoder) Release() { e.room.Release() }

// Append appends a tag to dst, which owns it from then on, and returns its description, as
// [Decoder.Next] does. The body of an audio or video tag begins with the codec's header. Append
// takes ownership of body, which is left empty, even if it returns an error. The error is a
// *LimitError for a body above MaxData; dst is then unchanged.
func (e *Encoder) Append(dst *millrace.Chain, t Type, timestamp uint32, body *millrace.Chain) (Tag,
	error) {
	n := body.Len()
	if n > MaxData {
		body.Release()
		return Tag{}, &LimitError{What: "tag data (the format's 24 bits)", Have: int64(n),
			Limit: MaxData}
	}
	head := [tagHeaderSize]byte{byte(t), byte(n >> 16), byte(n >> 8), byte(n)}
	putTimestamp(head[:], timestamp)
	tag := parseTagHeader(head[:])
	var data [peekSize]byte
	tag.parseData(data[:body.CopyTo(data[:])])
	e.put(dst, head[:])
	dst.Merge(body)
	var last [trailerSize]byte
	binary.BigEndian.PutUint32(last[:], uint32(tagHeaderSize+n))
	e.put(dst, last[:])
	return tag, nil
}

// Retime appends the tag in src, which must be one whole tag as appended by Next, to dst with
// another timestamp: 11 bytes are copied, the rest is shared. It borrows src and changes no byte
// that others may share. It panics if src is not one whole tag.
func (e *Encoder) Retime(dst, src *millrace.Chain, timestamp uint32) {
	var head [tagHeaderSize]byte
	if src.CopyTo(head[:]) < len(head) {
		panic(fmt.Sprintf("flv: Retime of a chain of %d bytes, which is no tag", src.Len()))
	}
	if t := parseTagHeader(head[:]); t.Len() != src.Len() {
		panic(fmt.Sprintf("flv: Retime of a chain of %d bytes for a tag of %d", src.Len(), t.Len()))
	}
	putTimestamp(head[:], timestamp)
	e.put(dst, head[:])
	src.Slice(dst, tagHeaderSize, src.Len())
}

// put appends a copy of p.
func (e *Encoder) put(dst *millrace.Chain, p []byte) {
	if len(e.room.Bytes()) < len(p) {
		e.room.Release()
		e.room = millrace.DefaultPool().Get(headerBlock)
	}
	r := e.room.Cut(copy(e.room.Bytes(), p))
	dst.Append(&r)
}

// putTimestamp writes ts into a tag header: three low bytes, then the high one.
func putTimestamp(head []byte, ts uint32) {
	head[4], head[5], head[6], head[7] = byte(ts>>16), byte(ts>>8), byte(ts), byte(ts>>24)
}
