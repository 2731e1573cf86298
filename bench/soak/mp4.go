package soak

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// An mp4View watches a stream as fragmented MP4, and compares every sample with the payload of its
// tag. It counts lost tags itself. Package load cannot count them, because samples do not arrive in
// the order of their tags.
type mp4View struct {
	view
	tracks  map[uint32]*mp4Track // by track number; nil until the file's header was read
	first   uint64               // lowest tag number so far
	samples uint64
}

type mp4Track struct {
	kind byte   // load.Video or load.Audio
	last uint64 // tag number of the last sample
	end  int64  // end time of the last sample
}

// heldBack is the maximum number of missing tags that does not count as a loss. A viewer may
// disconnect after a fragment of one track, and then misses the other track's fragment.
const heldBack = 100

// maxBox is the maximum size of a box in bytes. A larger size is treated as an error.
const maxBox = 4 << 20

var errBoxes = errors.New("the boxes do not fit one another")

// errBehind is the error of an MP4 viewer that the server has disconnected for being behind.
var errBehind = errors.New("disconnected by the server")

// Next implements load.Subscription. It reads a fragment, or a box of the file's header.
func (v *mp4View) Next(a *load.Arrival) error {
	kind, box, err := v.nextBox()
	if err == nil {
		*a = load.Arrival{Kind: load.Video, Size: len(box), Waited: true, At: time.Now()}
		switch kind {
		case "ftyp":
		case "moov":
			err = v.header(box[8:])
		case "moof":
			err = v.readFragment(bytes.Clone(box))
		default:
			err = v.wrong("a box %q after tag %d", kind, v.last)
		}
	}
	if isCut(err) && v.ctx.Err() == nil && v.session.up.Err() == nil {
		v.session.cut.Add(1)
		return errBehind
	}
	return err
}

// Close implements load.Subscription. If more than heldBack tags are missing, Close adds their
// number to the session's counter lost.
func (v *mp4View) Close() error {
	if missing := v.last - v.first + 1 - v.samples; v.samples > 0 && missing > heldBack {
		v.session.lost.Add(int64(missing))
	}
	return v.Subscription.Close()
}

// nextBox reads the next box. The returned bytes include the size and the kind of the box. They are
// valid until the next call.
func (v *mp4View) nextBox() (kind string, box []byte, err error) {
	head, err := v.Peek(8)
	if err != nil {
		return "", nil, err
	}
	kind, size := string(head[4:]), int(binary.BigEndian.Uint32(head))
	if size < 8 || size > maxBox {
		return "", nil, v.wrong("a box of %d bytes, after tag %d", size, v.last)
	}
	box, err = v.Read(size)
	return kind, box, err
}

// walkBoxes calls f for each box in b. For a container box, it calls f for the inner boxes instead.
func walkBoxes(b []byte, f func(kind string, content []byte) error) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return errBoxes
		}
		kind, size := string(b[4:8]), int(binary.BigEndian.Uint32(b))
		if size < 8 || size > len(b) {
			return errBoxes
		}
		var err error
		switch content := b[8:size]; kind {
		case "trak", "mdia", "traf":
			err = walkBoxes(content, f)
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

func (v *mp4View) header(moov []byte) error {
	v.tracks = make(map[uint32]*mp4Track)
	var id uint32
	err := walkBoxes(moov, func(kind string, content []byte) error {
		switch {
		case kind == "tkhd" && len(content) >= 16:
			id = binary.BigEndian.Uint32(content[12:])
		case kind == "hdlr" && len(content) >= 12:
			v.tracks[id] = &mp4Track{kind: map[string]byte{"vide": load.Video,
				"soun": load.Audio}[string(content[8:12])]}
		}
		return nil
	})
	if err != nil || len(v.tracks) != 2 {
		return v.wrong("a header of %d tracks: %v", len(v.tracks), err)
	}
	for _, h := range v.synth.Headers(0) {
		if h.Kind == load.Video && !bytes.Contains(moov, h.Payload[5:]) || h.Kind == load.Audio &&
			!bytes.Contains(moov, h.Payload[2:]) {
			return v.wrong("the header is not of the publisher's codecs")
		}
	}
	return nil
}

// readFragment reads the mdat box that follows a moof box, and compares its samples with their
// tags.
func (v *mp4View) readFragment(moof []byte) error {
	kind, mdat, err := v.nextBox()
	if err != nil {
		return err
	}
	if kind != "mdat" || v.tracks == nil {
		return v.wrong("a box %q where mdat is due, after tag %d", kind, v.last)
	}
	size := len(moof) + len(mdat)
	v.session.done.add(checked, int64(size))
	rest := mdat[8:]
	var track *mp4Track
	var at int64 // start time of the track's next sample
	err = walkBoxes(moof[8:], func(kind string, content []byte) error {
		switch {
		case kind == "tfhd" && len(content) >= 8:
			if track = v.tracks[binary.BigEndian.Uint32(content[4:])]; track == nil {
				return errBoxes
			}
		case kind == "tfdt" && len(content) >= 12:
			at = int64(binary.BigEndian.Uint64(content[4:]))
		case kind == "trun" && len(content) >= 12 && track != nil:
			count, offset, rows := int(binary.BigEndian.Uint32(content[4:])),
				int(binary.BigEndian.Uint32(content[8:])), content[12:]
			width := 8 // bytes per sample: duration and size; video also has flags and delay
			if track.kind == load.Video {
				width = 16
			}
			if len(rows) != count*width || offset != size-len(rest) {
				return errBoxes
			}
			for ; len(rows) > 0; rows = rows[width:] {
				n := int(binary.BigEndian.Uint32(rows[4:]))
				if n > len(rest) {
					return errBoxes
				}
				// These flags mean that the sample depends on no other sample.
				key := width == 16 && binary.BigEndian.Uint32(rows[8:]) == 2<<24
				if err := v.checkSample(track, key, rest[:n], at); err != nil {
					return err
				}
				at += int64(binary.BigEndian.Uint32(rows))
				track.end, rest = at, rest[n:]
			}
		}
		return nil
	})
	if err == nil && len(rest) > 0 {
		err = errBoxes
	}
	if err == errBoxes {
		return v.wrong("a fragment after tag %d: %v", v.last, err)
	}
	return err
}

// checkSample compares a sample with its tag, and checks that it begins after the previous sample
// of the track.
func (v *mp4View) checkSample(t *mp4Track, key bool, got []byte, start int64) error {
	payload := append([]byte{0xaf, 1}, got...)
	if t.kind == load.Video {
		payload = append([]byte{0x27, 1, 0, 0, 0}, got...)
		if key {
			payload[0] = 0x17
		}
	}
	seq, err := v.verify(t.kind, payload)
	switch {
	case err != nil:
		return err
	case seq <= t.last:
		return v.wrong("the sample of tag %d after that of tag %d", seq, t.last)
	case start < t.end:
		return v.wrong(
			"the sample of tag %d begins at %d, before the one in front of it is over at %d", seq,
			start, t.end)
	case v.samples == 0:
		v.first = seq
	}
	v.first, v.last = min(v.first, seq), max(v.last, seq)
	v.samples++
	t.last = seq
	return nil
}
