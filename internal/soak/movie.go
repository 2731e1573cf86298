package soak

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// boxHead is the size and the kind that each box of MP4 begins with.
const boxHead = 8

// The tracks of a film as MP4.
const (
	pictures = iota
	sound

	movieTracks // how many there are
)

// A movieTrack is where a viewer has got to in a track.
type movieTrack struct {
	id    uint32
	scale int64  // units of time in a second; 0: the file has no such track
	last  uint64 // number of the tag that its newest sample came in; 0: there was none
	end   int64  // when that sample is over
	shift int64  // by how much, in ms, the file's time of a sample is above the publisher's
}

// A movieVerifier reads what a viewer of a film gets as MP4, and compares every sample with what was sent.
type movieVerifier struct {
	name   string
	lookup func(id uint64) (film, bool)

	id   uint64 // of the film; valid once last > 0
	last uint64 // the highest number of a tag that has come
	gaps uint64 // tags that were passed over
	leap uint64 // number of the newest key frame before which pictures were passed over; 0: there was none

	tracks [movieTracks]movieTrack
	moof   bytes.Buffer
	mdat   bytes.Buffer
	want   []byte
}

// verify reads to the end. It returns nil if that is where a fragment ends, or if there is nothing at all: the stream was
// over before there was a fragment.
func (v *movieVerifier) verify(body io.Reader) error {
	r := bufio.NewReaderSize(cutReader{body}, 64<<10)
	switch err := v.begin(r); err {
	case nil:
	case io.EOF:
		return nil
	default:
		return err
	}
	for {
		switch err := v.fragment(r); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// box reads a box, which must be of that kind, into b, and returns what is in it. io.EOF stands for the end where a box would
// begin.
func (v *movieVerifier) box(r *bufio.Reader, kind string, b *bytes.Buffer) ([]byte, error) {
	head, err := r.Peek(boxHead)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			return nil, wrong("%s: the file ends inside a box, after tag %d", v.name, v.last)
		}
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head))
	if got := string(head[4:]); got != kind || n < boxHead || n > maxTag {
		return nil, wrong("%s: a box %q of %d bytes where %s is due, after tag %d", v.name, got, n, kind, v.last)
	}
	b.Reset()
	if _, err := io.CopyN(b, r, n); err != nil {
		if err == io.EOF {
			return nil, wrong("%s: the file ends properly, but inside a box, after tag %d", v.name, v.last)
		}
		return nil, err
	}
	return b.Bytes()[boxHead:], nil
}

// begin reads the header, which is what the publisher said of the codecs.
func (v *movieVerifier) begin(r *bufio.Reader) error {
	if _, err := v.box(r, "ftyp", &v.moof); err != nil {
		return err
	}
	moov, err := v.box(r, "moov", &v.moof)
	if err == io.EOF {
		return wrong("%s: the file ends in its header", v.name)
	}
	if err != nil {
		return err
	}
	if err := walk(moov, func(kind string, in []byte) error {
		if kind != "trak" {
			return nil
		}
		return v.track(in)
	}); err != nil {
		return wrong("%s: the file's header: %v", v.name, err)
	}
	for i, what := range []string{"pictures", "sound"} {
		if v.tracks[i].scale == 0 {
			return wrong("%s: the file's header has no %s", v.name, what)
		}
	}
	for _, h := range filmHeads() {
		if h[0] != load.Script && !bytes.Contains(moov, payloadOf(h)) {
			return wrong("%s: the file's header is not of the publisher's codecs", v.name)
		}
	}
	return nil
}

// track reads what the header says of a track.
func (v *movieVerifier) track(trak []byte) error {
	var t movieTrack
	handler := ""
	var visit func(kind string, in []byte) error
	visit = func(kind string, in []byte) error {
		n := numbers{p: in}
		switch kind {
		case "mdia":
			return walk(in, visit)
		case "tkhd":
			n.skip(4 + 8) // version, created, modified
			t.id = n.u32()
		case "mdhd":
			n.skip(4 + 8)
			t.scale = int64(n.u32())
		case "hdlr":
			n.skip(4 + 4)
			handler = string(n.take(4))
		}
		return n.err
	}
	if err := walk(trak, visit); err != nil {
		return err
	}
	switch handler {
	case "vide":
		v.tracks[pictures] = t
	case "soun":
		v.tracks[sound] = t
	}
	return nil
}

// fragment reads a fragment. io.EOF stands for the end where one would begin.
func (v *movieVerifier) fragment(r *bufio.Reader) error {
	moof, err := v.box(r, "moof", &v.moof)
	if err != nil {
		return err
	}
	mdat, err := v.box(r, "mdat", &v.mdat)
	if err == io.EOF {
		return wrong("%s: the file ends inside a fragment, after tag %d", v.name, v.last)
	}
	if err != nil {
		return err
	}
	s := samples{at: boxHead + len(moof) + boxHead, rest: mdat}
	if err := walk(moof, func(kind string, in []byte) error {
		if kind != "traf" {
			return nil
		}
		return v.run(in, &s)
	}); err != nil && !isWrong(err) {
		return wrong("%s: a fragment after tag %d: %v", v.name, v.last, err)
	} else if err != nil {
		return err
	}
	if len(s.rest) > 0 {
		return wrong("%s: %d bytes behind the samples of a fragment, after tag %d", v.name, len(s.rest), v.last)
	}
	return nil
}

// samples is what of a fragment's bytes is still to come, and how far from the fragment's beginning that is.
type samples struct {
	at   int
	rest []byte
}

// run reads the samples of one track in a fragment.
func (v *movieVerifier) run(traf []byte, s *samples) error {
	track, at := movieTracks, int64(0)
	return walk(traf, func(kind string, in []byte) error {
		n := numbers{p: in}
		n.skip(4) // version and flags
		switch kind {
		case "tfhd":
			id := n.u32()
			for track = range v.tracks {
				if v.tracks[track].id == id {
					return n.err
				}
			}
			return wrong("%s: a fragment of track %d, after tag %d", v.name, id, v.last)
		case "tfdt":
			at = n.i64()
		case "trun":
			if track == movieTracks {
				return errBox
			}
			return v.trun(track, at, &n, s)
		}
		return n.err
	})
}

// trun reads the samples that n tells of, the first of which begins at at.
func (v *movieVerifier) trun(track int, at int64, n *numbers, s *samples) error {
	count, offset := n.u32(), n.u32()
	if int(offset) != s.at {
		return wrong("%s: samples are said to begin %d bytes behind their fragment's beginning, and do at %d", v.name, offset, s.at)
	}
	for ; count > 0 && n.err == nil; count-- {
		duration, size := int64(n.u32()), int(n.u32())
		key := true
		if track == pictures {
			key = n.u32() == keySample
			n.skip(4) // from decoding to showing
		}
		if n.err != nil || size > len(s.rest) {
			return errBox
		}
		if err := v.sample(track, key, s.rest[:size]); err != nil {
			return err
		}
		if err := v.time(&v.tracks[track], at, duration); err != nil {
			return err
		}
		s.at, s.rest = s.at+size, s.rest[size:]
		at += duration
	}
	if n.err == nil && len(n.p) > 0 {
		return errBox
	}
	return n.err
}

// keySample are the flags of a picture that depends on no other.
const keySample = 2 << 24

// sample compares a sample with the tag that it came in.
func (v *movieVerifier) sample(track int, key bool, got []byte) error {
	t := &v.tracks[track]
	id, seq, ok := numbersIn(got)
	f, known := v.lookup(id)
	switch {
	case !ok || !known || isPicture(seq) != (track == pictures):
		return wrong("%s: a sample that nobody sent here, after tag %d of film %x", v.name, t.last, v.id)
	case v.last > 0 && id != v.id:
		return wrong("%s: a sample of film %x after tag %d of film %x", v.name, id, t.last, v.id)
	case track == pictures && key != isKeyFrame(seq):
		return wrong("%s: whether tag %d is a key frame is said to be %v", v.name, seq, key)
	}
	if err := v.order(track, seq); err != nil {
		return err
	}
	v.want = f.appendTo(v.want[:0], seq)
	want := payloadOf(v.want)
	if !bytes.Equal(got, want) {
		n := min(len(got), len(want))
		return wrong("%s: the sample of tag %d has %d bytes, want %d, and differs from byte %d on",
			v.name, seq, len(got), len(want), firstDifference(got[:n], want[:n]))
	}
	v.id, v.last, t.last = id, max(v.last, seq), seq
	return nil
}

// order says whether the sample of tag seq may come now. Where pictures are passed over, a key frame goes on, and the
// sound goes on with it. At first there may be the sound before the first picture, because a piece of sound is complete
// when the next one comes.
func (v *movieVerifier) order(track int, seq uint64) error {
	t, picture := &v.tracks[track], v.tracks[pictures].last
	switch {
	case t.last > 0 && seq <= t.last:
		return wrong("%s: the sample of tag %d after that of tag %d", v.name, seq, t.last)
	case t.last == 0 && track == pictures && !isKeyFrame(seq):
		return wrong("%s: the file begins with tag %d, which is no key frame", v.name, seq)
	case t.last == 0 && track == sound && seq > picture+1:
		return wrong("%s: the sound begins with tag %d, behind the picture of tag %d", v.name, seq, picture)
	case t.last == 0 || seq == t.last+tagsATick:
		return nil
	case track == pictures && !isKeyFrame(seq):
		return wrong("%s: the sample of tag %d, which is no key frame, after that of tag %d", v.name, seq, t.last)
	case track == pictures:
		v.leap = seq
	case t.last > v.leap || seq != v.leap+1:
		return wrong("%s: the sound of tag %d after that of tag %d, with no picture passed over", v.name, seq, t.last)
	}
	v.gaps += (seq-t.last)/tagsATick - 1
	if track == pictures {
		v.tracks[sound].shift, t.shift = unshifted, unshifted
	}
	return nil
}

// unshifted marks a track whose time is to be settled by its next sample.
const unshifted = int64(1) << 62

// time looks when the newest sample of t is. Times go up, and are as far apart as the publisher's, of both tracks together.
// Where tags were passed over the file goes on without a pause, and is up to a picture late there.
func (v *movieVerifier) time(t *movieTrack, at, duration int64) error {
	if at < t.end {
		return wrong("%s: the sample of tag %d begins at %d, before the one in front of it is over at %d",
			v.name, t.last, at, t.end)
	}
	const slack = int64(tick / time.Millisecond)
	shift := at*1000/t.scale - int64((t.last-1)/tagsATick)*slack
	if t.end == 0 || t.shift == unshifted {
		t.shift = shift
	}
	t.end = at + duration
	for i := range v.tracks {
		o := &v.tracks[i]
		if o.last > 0 && o.shift != unshifted && max(shift-o.shift, o.shift-shift) > slack {
			return wrong("%s: the sample of tag %d is at %d ms, %d ms from where it belongs",
				v.name, t.last, at*1000/t.scale, shift-o.shift)
		}
	}
	return nil
}
