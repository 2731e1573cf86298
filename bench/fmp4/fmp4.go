// Package fmp4 reads the samples of fragmented MP4 with the frames of package load. It accepts only
// the structure that the millrace server writes: one video and one audio track, and an mdat box
// after each moof box.
package fmp4

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/internal/load"
)

// ErrBoxes means that the sizes or the positions of boxes are wrong.
var ErrBoxes = errors.New("the boxes do not fit one another")

// ErrNoHeader means that a fragment came before the header.
var ErrNoHeader = errors.New("a fragment before the header")

// MaxBox is the maximum size of a box in bytes. A larger size is treated as an error.
const MaxBox = 4 << 20

// A Sample is an audio or video frame.
type Sample struct {
	Kind       byte   // load.Video or load.Audio
	Payload    []byte // payload of the frame's FLV tag, with a composition time of 0
	Start, End int64  // in units of the track
}

// A Reader reads one file. It stores the tracks of the file's header.
type Reader struct {
	tracks map[uint32]byte // the kind of each track; nil until Header has returned
}

// ParseHead returns the kind and the size of a box from its first 8 bytes.
func ParseHead(head []byte) (kind string, size int, err error) {
	kind, size = string(head[4:8]), int(binary.BigEndian.Uint32(head))
	if size < 8 || size > MaxBox {
		return kind, 0, fmt.Errorf("%w: a box %q of %d bytes", ErrBoxes, kind, size)
	}
	return kind, size, nil
}

// Header reads the content of a moov box. The header must have the codecs of the tags that
// load.Synth.Headers returns.
func (r *Reader) Header(moov []byte) error {
	r.tracks = make(map[uint32]byte)
	var id uint32
	err := walk(moov, func(kind string, content []byte) error {
		switch {
		case kind == "tkhd" && len(content) >= 16:
			id = binary.BigEndian.Uint32(content[12:])
		case kind == "hdlr" && len(content) >= 12:
			r.tracks[id] = map[string]byte{"vide": load.Video, "soun": load.Audio}[string(
				content[8:12])]
		}
		return nil
	})
	if err != nil || len(r.tracks) != 2 {
		return fmt.Errorf("a header of %d tracks: %w", len(r.tracks), errors.Join(err, ErrBoxes))
	}
	for _, h := range new(load.Synth).Headers(0) {
		if h.Kind == load.Video && !bytes.Contains(moov, h.Payload[5:]) ||
			h.Kind == load.Audio && !bytes.Contains(moov, h.Payload[2:]) {
			return errors.New("the header is not of the publisher's codecs")
		}
	}
	return nil
}

// Fragment calls f with each sample of a fragment. moof and mdat are the complete boxes. The
// payload of a sample is valid until f returns.
func (r *Reader) Fragment(moof, mdat []byte, f func(Sample) error) error {
	if r.tracks == nil {
		return ErrNoHeader
	}
	size, rest := len(moof)+len(mdat), mdat[8:]
	var track byte
	var at int64 // start time of the track's next sample
	err := walk(moof[8:], func(kind string, content []byte) error {
		switch {
		case kind == "tfhd" && len(content) >= 8:
			if track = r.tracks[binary.BigEndian.Uint32(content[4:])]; track == 0 {
				return ErrBoxes
			}
		case kind == "tfdt" && len(content) >= 12:
			at = int64(binary.BigEndian.Uint64(content[4:]))
		case kind == "trun" && len(content) >= 12 && track != 0:
			count, offset, rows := int(binary.BigEndian.Uint32(content[4:])),
				int(binary.BigEndian.Uint32(content[8:])), content[12:]
			width := 8 // bytes per sample: duration and size; video also has flags and delay
			if track == load.Video {
				width = 16
			}
			if len(rows) != count*width || offset != size-len(rest) {
				return ErrBoxes
			}
			for ; len(rows) > 0; rows = rows[width:] {
				n := int(binary.BigEndian.Uint32(rows[4:]))
				if n > len(rest) {
					return ErrBoxes
				}
				s := Sample{Kind: track, Start: at,
					End: at + int64(binary.BigEndian.Uint32(rows))}
				switch {
				case track == load.Audio:
					s.Payload = append([]byte{0xaf, 1}, rest[:n]...)
				case binary.BigEndian.Uint32(rows[8:]) == 2<<24: // depends on no other sample
					s.Payload = append([]byte{0x17, 1, 0, 0, 0}, rest[:n]...)
				default:
					s.Payload = append([]byte{0x27, 1, 0, 0, 0}, rest[:n]...)
				}
				if err := f(s); err != nil {
					return err
				}
				at, rest = s.End, rest[n:]
			}
		}
		return nil
	})
	if err == nil && len(rest) > 0 {
		err = ErrBoxes
	}
	return err
}

// Bytes reads the complete boxes of b: a header, or fragments. It calls f with each sample.
func (r *Reader) Bytes(b []byte, f func(Sample) error) error {
	var moof []byte
	for len(b) > 0 {
		if len(b) < 8 {
			return io.ErrUnexpectedEOF
		}
		kind, size, err := ParseHead(b)
		if err != nil {
			return err
		}
		if size > len(b) {
			return io.ErrUnexpectedEOF
		}
		box := b[:size]
		b = b[size:]
		switch {
		case kind == "moov":
			err = r.Header(box[8:])
		case kind == "moof" && moof == nil:
			moof = box
			continue
		case kind == "mdat" && moof != nil:
			err = r.Fragment(moof, box, f)
			moof = nil
		case moof != nil || kind != "ftyp" && kind != "styp" && kind != "free":
			err = fmt.Errorf("%w: an unexpected box %q", ErrBoxes, kind)
		}
		if err != nil {
			return err
		}
	}
	if moof != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// walk calls f for each box in b. For a container box, it calls f for the inner boxes instead.
func walk(b []byte, f func(kind string, content []byte) error) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return ErrBoxes
		}
		kind, size := string(b[4:8]), int(binary.BigEndian.Uint32(b))
		if size < 8 || size > len(b) {
			return ErrBoxes
		}
		var err error
		switch content := b[8:size]; kind {
		case "trak", "mdia", "traf":
			err = walk(content, f)
		default:
			err = f(kind, content)
		}
		if err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}
