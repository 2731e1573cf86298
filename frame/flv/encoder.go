package flv

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace"
)

// AppendTag appends a tag to dst: a new header, body by reference, and the previous-tag-size. The body of a sound or video tag
// begins with the codec's header. AppendTag takes ownership of body, which is left empty, even if it returns an error: a
// *LimitError for a body above MaxData. dst is as it was then.
func AppendTag(dst *millrace.Chain, t Type, timestamp uint32, body *millrace.Chain) error {
	n := body.Len()
	if n > MaxData {
		body.Release()
		return &LimitError{What: "tag data (the format's 24 bits)", Have: int64(n), Limit: MaxData}
	}
	head := [tagHeaderSize]byte{byte(t), byte(n >> 16), byte(n >> 8), byte(n)}
	putTimestamp(head[:], timestamp)
	dst.AppendCopy(head[:])
	dst.Merge(body)
	var last [trailerSize]byte
	binary.BigEndian.PutUint32(last[:], uint32(tagHeaderSize+n))
	dst.AppendCopy(last[:])
	return nil
}

// Retime appends the tag in src, as Next appended it, to dst with another timestamp: 11 bytes are copied, the rest is shared. It
// borrows src and changes no byte that others may share. It panics if src is not one whole tag.
func Retime(dst, src *millrace.Chain, timestamp uint32) {
	var head [tagHeaderSize]byte
	if src.CopyTo(head[:]) < len(head) {
		panic(fmt.Sprintf("flv: Retime of a chain of %d bytes, which is no tag", src.Len()))
	}
	if t := parseTagHeader(head[:]); t.Len() != src.Len() {
		panic(fmt.Sprintf("flv: Retime of a chain of %d bytes for a tag of %d", src.Len(), t.Len()))
	}
	putTimestamp(head[:], timestamp)
	dst.AppendCopy(head[:])
	src.Slice(dst, tagHeaderSize, src.Len())
}

// putTimestamp writes ts into a tag header: three low bytes, then the high one.
func putTimestamp(head []byte, ts uint32) {
	head[4], head[5], head[6], head[7] = byte(ts>>16), byte(ts>>8), byte(ts), byte(ts>>24)
}
