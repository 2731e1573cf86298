package soak

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/mp4"
)

// makeMovie makes MP4 of a film's tags: the header, and each fragment.
func makeMovie(t *testing.T, f film, seqs []uint64) (head []byte, fragments [][]byte) {
	t.Helper()
	stream := []byte(flvHead)
	for _, h := range filmHeads() {
		stream = append(stream, h...)
	}
	for _, seq := range seqs {
		stream = f.appendTo(stream, seq)
	}
	r := millrace.NewReader(bytes.NewReader(stream))
	defer r.Release()
	dec, m := flv.NewDecoder(r), mp4.NewMuxer(mp4.Tracks(true, true))
	var tag, part millrace.Chain
	take := func(made mp4.Fragment) {
		if made.NewInit {
			var c millrace.Chain
			if err := m.AppendInit(&c); err != nil {
				t.Fatal(err)
			}
			head = bytes.Clone(c.Bytes())
			c.Release()
		}
		if made.Samples > 0 {
			fragments = append(fragments, bytes.Clone(part.Bytes()))
		}
		part.Release()
	}
	for {
		tg, err := dec.Next(&tag)
		if err == io.EOF {
			take(m.Flush(&part))
			return head, fragments
		}
		if err != nil {
			t.Fatal(err)
		}
		made, err := m.WriteTag(&part, tg, &tag)
		if err != nil {
			t.Fatal(err)
		}
		take(made)
	}
}

// span returns the numbers from first to last.
func span(first, last uint64) (list []uint64) {
	for ; first <= last; first++ {
		list = append(list, first)
	}
	return list
}

// changed returns what f makes of a copy of b.
func changed(b []byte, f func(b []byte)) []byte {
	b = bytes.Clone(b)
	f(b)
	return b
}

// moveTime changes the times of all tracks in a fragment by so many of their units.
func moveTime(fragment []byte, by int64) {
	for at := 0; ; {
		i := bytes.Index(fragment[at:], []byte("tfdt"))
		if i < 0 {
			return
		}
		at += i + 8
		binary.BigEndian.PutUint64(fragment[at:], uint64(int64(binary.BigEndian.Uint64(fragment[at:]))+by))
	}
}

// A movie that is whole, or from a key frame on, is what it should be; anything else is not.
func TestMovie(t *testing.T) {
	f := newFilm(99, 4000)
	lookup := func(id uint64) (film, bool) { return f, id == f.id }
	head, parts := makeMovie(t, f, span(1, 2*groupTags+10))
	late := slices.IndexFunc(parts, func(p []byte) bool { return bytes.Contains(p, f.payload(groupTags+1)) })
	join := func(list ...[][]byte) []byte {
		return bytes.Join(append([][]byte{head}, slices.Concat(list...)...), nil)
	}
	with := func(i int, f func(p []byte)) []byte {
		all := slices.Clone(parts)
		all[i] = changed(all[i], f)
		return join(all)
	}
	two := [][]byte{parts[0], parts[1]}
	_, gone := makeMovie(t, f, slices.Concat(span(1, 5), span(groupTags+1, 2*groupTags)))
	_, short := makeMovie(t, f, slices.Concat(span(1, 5), span(7, 20)))
	_, mute := makeMovie(t, f, slices.Concat(span(1, 5), []uint64{7}, span(9, 20)))
	_, other := makeMovie(t, newFilm(98, 4000), span(1, 10))
	const none = ^uint64(0)
	for _, test := range []struct {
		name string
		body []byte
		gaps uint64 // none: it is wrong
		says string
	}{
		{"whole", join(parts), 0, ""},
		{"nothing", nil, 0, ""},
		{"from a key frame on", join(parts[late:]), 0, ""},
		{"on to a key frame", join(gone), groupTags - 5, ""},
		{"from the middle on", join(parts[2:]), none, "begins with tag"},
		{"a picture less", join(parts[:3], parts[4:]), none, "which is no key frame, after that of tag"},
		{"no sound for a moment", join(short), none, "no picture passed over"},
		{"two pieces of sound less", join(mute), none, "no picture passed over"},
		{"a fragment twice", join(two, two), none, "after that of tag"},
		{"the end in the header", head[:len(head)-1], none, "inside a box"},
		{"the header's first box alone", head[:binary.BigEndian.Uint32(head)], none, "ends in its header"},
		{"the end in a fragment", join(parts)[:len(join(two))-20], none, "inside a box"},
		{"the end between two boxes", join(two)[:len(join(two[:1]))+int(binary.BigEndian.Uint32(parts[1]))], none, "inside a fragment"},
		{"half a box at the end", append(join(two), 0, 0, 0), none, "inside a box"},
		{"a second header", slices.Concat(join(two), head), none, "where moof is due"},
		{"no header", bytes.Join(parts, nil), none, "where ftyp is due"},
		{"no sound in the header", changed(join(parts), func(b []byte) { copy(b[bytes.Index(b, []byte("soun")):], "text") }), none, "has no sound"},
		{"other codecs", changed(join(parts), func(b []byte) { b[bytes.Index(b, []byte("avcC"))+10] ^= 1 }), none, "publisher's codecs"},
		{"a film nobody sent", join(other), none, "nobody sent here"},
		{"a wrong byte", with(2, func(p []byte) { p[len(p)-1] ^= 1 }), none, "differs from byte"},
		{"a wrong size", with(2, func(p []byte) { p[bytes.Index(p, []byte("traf"))-1]++ }), none, "do not fit one another"},
		{"a wrong offset", with(2, func(p []byte) { p[bytes.Index(p, []byte("trun"))+15]++ }), none, "samples are said to begin"},
		{"another track", with(2, func(p []byte) { p[bytes.Index(p, []byte("tfhd"))+11] = 7 }), none, "of track 7"},
		{"not a key frame", with(0, func(p []byte) { p[bytes.Index(p, []byte("trun"))+24] = 1 }), none, "key frame is said to be"},
		{"later", with(3, func(p []byte) { moveTime(p, 500) }), none, "from where it belongs"},
		{"earlier", with(3, func(p []byte) { moveTime(p, -30) }), none, "before the one in front of it is over"},
	} {
		for _, body := range []io.Reader{bytes.NewReader(test.body), iotest.OneByteReader(bytes.NewReader(test.body))} {
			v := &movieVerifier{name: "x", lookup: lookup}
			err := v.verify(body)
			switch {
			case test.gaps != none && (err != nil || v.gaps != test.gaps):
				t.Errorf("%s: %v, %d passed over", test.name, err, v.gaps)
			case test.gaps == none && (!isWrong(err) || !strings.Contains(err.Error(), test.says)):
				t.Errorf("%s: %v, want %q", test.name, err, test.says)
			}
		}
	}
	cut := io.MultiReader(bytes.NewReader(join(parts)[:5000]), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := (&movieVerifier{lookup: lookup}).verify(cut); err != errCut {
		t.Errorf("a response that was cut: %v", err)
	}
}

// payload returns the codec's bytes of tag seq.
func (f film) payload(seq uint64) []byte { return payloadOf(f.appendTo(nil, seq)) }

// Where the server passes pictures over, and goes on without a pause, their number is told.
func TestMovieThatIsMovedForward(t *testing.T) {
	f := newFilm(99, 4000)
	head, parts := makeMovie(t, f, span(1, 4*groupTags))
	pictureAt := func(seq uint64) int {
		return slices.IndexFunc(parts, func(p []byte) bool { return bytes.Contains(p, f.payload(seq)) })
	}
	// Up to tag 10, the last sound of which is in the next fragment, and on from the next group but one.
	from, to := pictureAt(11), pictureAt(2*groupTags+1)
	_, first := makeMovie(t, f, span(1, 10))
	passed := int64(2*groupTags-10) / tagsATick * tick.Milliseconds()
	body := bytes.Join(append([][]byte{head}, first...), nil)
	for i, p := range parts[to:] {
		if i == 0 { // its sound is that before the key frame, which is passed over as well
			p = withoutSound(p)
		}
		body = append(body, changed(p, func(p []byte) { moveBack(p, passed) })...)
	}
	v := &movieVerifier{name: "x", lookup: func(id uint64) (film, bool) { return f, id == f.id }}
	if err := v.verify(bytes.NewReader(body)); err != nil || v.gaps != 2*groupTags-10 || v.last != 4*groupTags {
		t.Errorf("%v, %d passed over, the last is %d (%d to %d)", err, v.gaps, v.last, from, to)
	}
}

// moveBack takes so many milliseconds off the times of a fragment.
func moveBack(fragment []byte, ms int64) {
	scales := []int64{1000, 44_100}
	for at := 0; ; {
		i := bytes.Index(fragment[at:], []byte("tfhd"))
		if i < 0 {
			return
		}
		at += i + 8
		scale := scales[binary.BigEndian.Uint32(fragment[at:])-1]
		at += bytes.Index(fragment[at:], []byte("tfdt")) + 8
		binary.BigEndian.PutUint64(fragment[at:], binary.BigEndian.Uint64(fragment[at:])-uint64(ms*scale/1000))
	}
}

// withoutSound returns a fragment without its last track, which is of one sample.
func withoutSound(fragment []byte) []byte {
	b := bytes.Clone(fragment)
	moof := binary.BigEndian.Uint32(b)
	traf := uint32(bytes.LastIndex(b[:moof], []byte("traf")) - 4)
	size := binary.BigEndian.Uint32(b[traf:])
	sound := binary.BigEndian.Uint32(b[moof-4:])
	mdat := binary.BigEndian.Uint32(b[moof:])
	binary.BigEndian.PutUint32(b[moof:], mdat-sound)
	binary.BigEndian.PutUint32(b, moof-size)
	offset := bytes.Index(b, []byte("trun")) + 12
	binary.BigEndian.PutUint32(b[offset:], binary.BigEndian.Uint32(b[offset:])-size)
	return slices.Concat(b[:traf], b[traf+size:len(b)-int(sound)])
}

// Whichever byte is wrong, reading comes to its end; and it is an error if the byte is a sample's.
func TestMovieWithAWrongByte(t *testing.T) {
	f := newFilm(99, 300)
	head, parts := makeMovie(t, f, span(1, 12))
	body := bytes.Join(append([][]byte{head}, parts...), nil)
	mdat := len(head) + int(binary.BigEndian.Uint32(parts[0])) + boxHead
	for i := range body {
		bad := changed(body, func(b []byte) { b[i] ^= 0x90 })
		err := (&movieVerifier{lookup: func(id uint64) (film, bool) { return f, id == f.id }}).verify(bytes.NewReader(bad))
		if mdat <= i && i < len(head)+len(parts[0]) && !isWrong(err) {
			t.Errorf("byte %d of a sample is wrong: %v", i, err)
		}
	}
}
