package flv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace"
)

const (
	headerSize  = 9 // signature, version, flags, data offset
	trailerSize = 4 // a previous-tag-size; the one after the header is 0

	flagVideo = 1 << 0
	flagAudio = 1 << 2

	// maxHeader bounds the data offset. Version 1 says 9; the field is there for a longer header that nobody has written in
	// twenty years, so what lies between 9 and this is skipped and more is refused.
	maxHeader = 1 << 10
)

// Header is what a stream says before its first tag.
type Header struct {
	HasAudio bool // a promise of the writer's, often wrong in live streams
	HasVideo bool // likewise
}

// Sniff reports whether p begins like an FLV stream. It needs the first 4 bytes and looks at 9 if it has them; it borrows
// p.
func Sniff(p []byte) bool {
	if len(p) < 4 || string(p[:3]) != "FLV" || p[3] != 1 {
		return false
	}
	if len(p) < headerSize {
		return true
	}
	off := binary.BigEndian.Uint32(p[5:])
	return off >= headerSize && off <= maxHeader
}

// AppendHeader appends an FLV header and the previous-tag-size of 0 that follows it, 13 bytes, to dst, which owns them from
// then on.
func AppendHeader(dst *millrace.Chain, h Header) {
	b := [headerSize + trailerSize]byte{'F', 'L', 'V', 1, 0, 0, 0, 0, headerSize}
	if h.HasAudio {
		b[4] |= flagAudio
	}
	if h.HasVideo {
		b[4] |= flagVideo
	}
	dst.AppendCopy(b[:])
}

// Header reads the stream's header and the previous-tag-size behind it. Next does that first if Header was not called;
// a second call gives the same answer. io.EOF means that the stream is empty. Errors are as with Next, and [ErrNotFLV].
func (d *Decoder) Header() (Header, error) {
	if d.began || d.err != nil {
		return d.header, d.err
	}
	p, err := d.r.Peek(headerSize)
	if err != nil {
		return Header{}, headerError(p, err)
	}
	if string(p[:3]) != "FLV" {
		return Header{}, d.fail(ErrNotFLV)
	}
	if p[3] != 1 {
		return Header{}, d.fail(fmt.Errorf("%w: version %d", ErrNotFLV, p[3]))
	}
	off := binary.BigEndian.Uint32(p[5:])
	if off < headerSize {
		return Header{}, d.fail(fmt.Errorf("%w: data offset %d", ErrNotFLV, off))
	}
	if off > maxHeader {
		return Header{}, d.fail(&LimitError{What: "header", Have: int64(off), Limit: maxHeader})
	}
	h := Header{HasAudio: p[4]&flagAudio != 0, HasVideo: p[4]&flagVideo != 0}
	// The first previous-tag-size has no tag to agree with. It is 0 in every stream made to the letter; some are not, and
	// every player goes on, so it is not looked at.
	if err := d.r.ReadChain(&d.tag, int(off)+trailerSize); err != nil {
		return Header{}, noEOF(err)
	}
	d.tag.Release()
	d.header, d.began = h, true
	return h, nil
}

// headerError explains why the first 9 bytes did not come: p is what did.
func headerError(p []byte, err error) error {
	if !errors.Is(err, io.EOF) || len(p) == 0 {
		return err
	}
	if n := min(len(p), 3); string(p[:n]) != "FLV"[:n] {
		return ErrNotFLV
	}
	return io.ErrUnexpectedEOF
}

// noEOF turns io.EOF, which would read as a clean end, into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
