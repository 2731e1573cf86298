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
	trailerSize = 4 // size of a previous-tag-size field; the first field, after the header, is 0

	flagVideo = 1 << 0
	flagAudio = 1 << 2

	// maxHeader is the maximum size of a header in bytes. In FLV version 1, a header has 9 bytes.
	// The Decoder skips the additional bytes of a longer header.
	maxHeader = 1 << 10
)

// Header is the header of a stream. It announces whether the stream has audio and video. Live
// streams often announce tracks that never arrive.
type Header struct {
	HasAudio bool
	HasVideo bool
}

// Sniff reports whether p begins like an FLV stream. It checks the signature and the version in the
// first 4 bytes and, if p has at least 9 bytes, the data offset. If p has fewer than 4 bytes, it
// returns false. Sniff borrows p.
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

// AppendHeader appends 13 bytes to dst: an FLV header and the first previous-tag-size, which is 0.
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

// Header reads the stream's header and the previous-tag-size after it. Next calls Header if the
// caller has not called it before. Later calls return the same header. If the stream is empty, the
// error is io.EOF. If the stream is not FLV, the error is [ErrNotFLV] or wraps it. All other errors
// are described at [Decoder.Next].
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
	// Players ignore the first previous-tag-size, so any value is accepted.
	if err := d.r.ReadChain(&d.tag, int(off)+trailerSize); err != nil {
		return Header{}, noEOF(err)
	}
	d.tag.Release()
	d.header, d.began = h, true
	return h, nil
}

// headerError returns the error for an FLV header that could not be read completely. p is the part
// of the header that was read, and err is the error from the reader.
func headerError(p []byte, err error) error {
	if !errors.Is(err, io.EOF) || len(p) == 0 {
		return err
	}
	if n := min(len(p), 3); string(p[:n]) != "FLV"[:n] {
		return ErrNotFLV
	}
	return io.ErrUnexpectedEOF
}

// noEOF converts io.EOF to io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
