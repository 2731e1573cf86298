package soak

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// An mp4View watches fragmented MP4. It compares every sample with the payload of the tag that it was made of, and counts lost
// tags itself, because samples of one track come without those of the other between them.
type mp4View struct {
	view
	tracks  map[uint32]*mp4Track // by number; nil before the file's header
	first   uint64               // the lowest number of a tag so far
	samples uint64
}

type mp4Track struct {
	kind byte   // load.Video or load.Audio
	last uint64 // number of the tag of the last sample
	end  int64  // when the last sample is over
}

// heldBack is how many tags a healthy viewer may lack: a fragment's worth of one track is sent before the other's.
const heldBack = 100

// maxBox is the size of the largest box that is no mistake.
const maxBox = 4 << 20

var errBoxes = errors.New("the boxes do not fit one another")

// errBehind ends an MP4 viewer that the server has disconnected because it was behind.
var errBehind = errors.New("disconnected by the server")

// Next implements load.Subscription. It reads a fragment, or a box of the header.
func (v *mp4View) Next(a *load.Arrival) error {
	err := v.next(a)
	if isCut(err) && v.ctx.Err() == nil && v.session.up.Err() == nil {
		v.session.cut.Add(1)
		return errBehind
	}
	return err
}

func (v *mp4View) next(a *load.Arrival) error {
	head, err := v.Peek(8)
	if err != nil {
		return err
	}
	kind, size := string(head[4:8]), int(binary.BigEndian.Uint32(head))
	if size < 8 || size > maxBox {
		return v.wrong("a box of %d bytes, after tag %d", size, v.last)
	}
	box, err := v.Read(size)
	if err != nil {
		return err
	}
	switch kind {
	case "ftyp":
	case "moov":
		err = v.header(box[8:])
	case "moof":
		err = v.fragment(bytes.Clone(box))
	default:
		err = v.wrong("a box %q after tag %d", kind, v.last)
	}
	*a = load.Arrival{Kind: load.Video, Size: size, Waited: true, At: time.Now()}
	return err
}

// Close implements load.Subscription. It adds the tags that are missing to the lost ones.
func (v *mp4View) Close() error {
	if missing := v.last - v.first + 1 - v.samples; v.samples > 0 && missing > heldBack {
		v.session.lost.Add(int64(missing))
	}
	return v.Subscription.Close()
}

// boxes calls f for each box in b with its kind and what is in it.
func boxes(b []byte, f func(kind string, in []byte) error) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return errBoxes
		}
		size := int(binary.BigEndian.Uint32(b))
		if size < 8 || size > len(b) {
			return errBoxes
		}
		if err := f(string(b[4:8]), b[8:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// header reads which track has what.
func (v *mp4View) header(moov []byte) error {
	v.tracks = make(map[uint32]*mp4Track)
	err := boxes(moov, func(kind string, trak []byte) error {
		if kind != "trak" {
			return nil
		}
		var id uint32
		var visit func(kind string, in []byte) error
		visit = func(kind string, in []byte) error {
			switch {
			case kind == "mdia":
				return boxes(in, visit)
			case kind == "tkhd" && len(in) >= 16:
				id = binary.BigEndian.Uint32(in[12:])
			case kind == "hdlr" && len(in) >= 12:
				v.tracks[id] = &mp4Track{kind: map[string]byte{"vide": load.Video, "soun": load.Audio}[string(in[8:12])]}
			}
			return nil
		}
		return boxes(trak, visit)
	})
	if err != nil || len(v.tracks) != 2 {
		return v.wrong("a header of %d tracks: %v", len(v.tracks), err)
	}
	for _, h := range v.synth.Headers(0) {
		if h.Kind == load.Video && !bytes.Contains(moov, h.Payload[5:]) || h.Kind == load.Audio && !bytes.Contains(moov, h.Payload[2:]) {
			return v.wrong("the header is not of the publisher's codecs")
		}
	}
	return nil
}

// fragment reads the box after moof, which has the samples that moof describes.
func (v *mp4View) fragment(moof []byte) error {
	head, err := v.Peek(8)
	if err != nil {
		return err
	}
	if string(head[4:]) != "mdat" || v.tracks == nil {
		return v.wrong("a box %q where mdat is due, after tag %d", head[4:], v.last)
	}
	size := int(binary.BigEndian.Uint32(head))
	if size < 8 || size > maxBox {
		return v.wrong("a box of %d bytes, after tag %d", size, v.last)
	}
	mdat, err := v.Read(size)
	v.session.done.add(checked, int64(len(moof)+len(mdat)))
	if err != nil {
		return err
	}
	f := &mp4Fragment{view: v, all: append(moof, mdat...), rest: mdat[8:]}
	err = boxes(moof[8:], func(kind string, in []byte) error {
		if kind != "traf" {
			return nil
		}
		return boxes(in, f.box)
	})
	if err == nil && len(f.rest) > 0 {
		err = errBoxes
	}
	if err == errBoxes {
		return v.wrong("a fragment after tag %d: %v", v.last, err)
	}
	return err
}

// An mp4Fragment is a fragment while it is read.
type mp4Fragment struct {
	view  *mp4View
	all   []byte // moof and mdat
	rest  []byte // of mdat, what has not been compared
	track *mp4Track
	at    int64 // when the next sample of track begins
}

// box reads a box of a track's part of a fragment.
func (f *mp4Fragment) box(kind string, in []byte) error {
	switch {
	case kind == "tfhd" && len(in) >= 8:
		if f.track = f.view.tracks[binary.BigEndian.Uint32(in[4:])]; f.track == nil {
			return errBoxes
		}
	case kind == "tfdt" && len(in) >= 12:
		f.at = int64(binary.BigEndian.Uint64(in[4:]))
	case kind == "trun" && len(in) >= 12:
		return f.run(int(binary.BigEndian.Uint32(in[4:])), int(binary.BigEndian.Uint32(in[8:])), in[12:])
	}
	return nil
}

// run compares the samples of a track, each of which has a row: duration and size and, of pictures, flags and delay.
func (f *mp4Fragment) run(count, offset int, rows []byte) error {
	width := 8
	if f.track != nil && f.track.kind == load.Video {
		width = 16
	}
	if f.track == nil || len(rows) != count*width || offset != len(f.all)-len(f.rest) {
		return errBoxes
	}
	for ; len(rows) > 0; rows = rows[width:] {
		size := int(binary.BigEndian.Uint32(rows[4:]))
		if size > len(f.rest) {
			return errBoxes
		}
		key := width == 16 && binary.BigEndian.Uint32(rows[8:]) == 2<<24 // depends on no other sample
		if err := f.view.sample(f.track, key, f.rest[:size], f.at); err != nil {
			return err
		}
		f.at += int64(binary.BigEndian.Uint32(rows))
		f.track.end, f.rest = f.at, f.rest[size:]
	}
	return nil
}

// sample compares a sample, which begins at the time at.
func (v *mp4View) sample(t *mp4Track, key bool, got []byte, at int64) error {
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
	case at < t.end:
		return v.wrong("the sample of tag %d begins at %d, before the one in front of it is over at %d", seq, at, t.end)
	case v.samples == 0:
		v.first = seq
	}
	v.first, v.last = min(v.first, seq), max(v.last, seq)
	v.samples++
	t.last = seq
	return nil
}
