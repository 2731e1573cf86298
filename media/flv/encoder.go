package flv

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace"
)

// headerBlock is the size of a block for headers, in bytes. The headers and previous-tag-sizes of
// 68 tags fit into it.
const headerBlock = 1 << 10

// An Encoder builds tags. It writes the header and the previous-tag-size of a tag, and appends the
// tag's body by reference. Headers are in small blocks of memory, so a tag that is kept for a long
// time does not keep a large block in memory.
//
// The zero Encoder is ready to use. It belongs to one goroutine at a time. Call Release when the
// Encoder is no longer used.
type Encoder struct{ room millrace.Draft }

// Release releases the memory that the Encoder holds for headers. The appended tags stay valid.
func (e *Encoder) Release() { e.room.Release() }

// Append appends a tag to dst, which then owns the tag. It returns the same description of the tag
// as [Decoder.Next]. body is the tag's data. For an audio or video tag, body must begin with the
// codec's header.
//
// Append takes ownership of body and leaves body empty, even if Append returns an error. If body is
// larger than MaxData, the error is a *LimitError, and dst is unchanged.
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

// Retime appends the tag in src to dst with another timestamp. It borrows src. It copies only the
// tag's header. It panics if src does not contain exactly one tag.
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
	src.SliceTo(dst, tagHeaderSize, src.Len())
}

func (e *Encoder) put(dst *millrace.Chain, p []byte) {
	if len(e.room.Bytes()) < len(p) {
		e.room.Release()
		e.room = millrace.DefaultPool().Get(headerBlock)
	}
	r := e.room.Cut(copy(e.room.Bytes(), p))
	dst.Append(&r)
}

// putTimestamp writes ts into a tag header: the three low bytes first, then the high byte.
func putTimestamp(head []byte, ts uint32) {
	head[4], head[5], head[6], head[7] = byte(ts>>16), byte(ts>>8), byte(ts), byte(ts>>24)
}
