package soak

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/millrace-io/millrace/internal/load"
)

// The shape of a film: a picture and a piece of sound every 40 ms, a key frame every 12 pictures. Sound and pictures have
// one numbering, from 1: odd numbers are pictures.
const (
	tagsATick = 2
	groupTags = 12 * tagsATick
	keyWeight = 6 // a key frame is that many times another picture
	soundSize = 200

	flvTagHead = 11
	flvTagFoot = 4
	// No tag is longer: a key frame at maxRate has half of it.
	maxTag = 4 << 20

	// Behind the codec's bytes of each tag: number of the film, number of the tag.
	tagNumbers = 16
)

const flvHead = "FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"

// A film says what each byte of an FLV stream is.
type film struct {
	id      uint64
	picture int // size of a picture that is no key frame
}

// newFilm returns the film of number id with tick bytes per tick.
func newFilm(id uint64, tick int) film {
	const group = groupTags / tagsATick
	return film{id: id, picture: max(64, (tick-soundSize)*group/(group-1+keyWeight))}
}

// filmHeads are the tags that come before all others, and that a server sends again to whoever joins.
var filmHeads = sync.OnceValue(func() (tags [][]byte) {
	for _, t := range load.NewSynth(0, 1<<20, 1).Headers(1 << 20) {
		tags = append(tags, appendTag(nil, t.Kind, 0, t.Payload))
	}
	return tags
})

func appendTag(b []byte, kind byte, timestamp uint32, payload []byte) []byte {
	b = appendTagHead(b, kind, timestamp, len(payload))
	b = append(b, payload...)
	return binary.BigEndian.AppendUint32(b, uint32(flvTagHead+len(payload)))
}

func appendTagHead(b []byte, kind byte, timestamp uint32, n int) []byte {
	return append(b, kind, byte(n>>16), byte(n>>8), byte(n),
		byte(timestamp>>16), byte(timestamp>>8), byte(timestamp), byte(timestamp>>24), 0, 0, 0)
}

func isPicture(seq uint64) bool  { return seq%tagsATick == 1 }
func isKeyFrame(seq uint64) bool { return seq%groupTags == 1 }

// appendTo appends tag number seq, whole, with head and foot.
func (f film) appendTo(b []byte, seq uint64) []byte {
	kind, size, codec := load.Audio, soundSize, "\xaf\x01"
	if isPicture(seq) {
		kind, codec = load.Video, "\x27\x01\x00\x00\x00"
		size = f.picture/2 + int(mix(f.id^seq)%uint64(f.picture))
		if isKeyFrame(seq) {
			size, codec = f.picture*keyWeight, "\x17\x01\x00\x00\x00"
		}
	}
	n := len(codec) + tagNumbers + size
	b = appendTagHead(b, kind, uint32((seq-1)/tagsATick)*uint32(tick.Milliseconds()), n)
	b = append(b, codec...)
	b = binary.BigEndian.AppendUint64(b, f.id)
	b = binary.BigEndian.AppendUint64(b, seq)
	at := len(b)
	b = append(b, make([]byte, size)...)
	fill(b[at:], mix(f.id)+seq, 0)
	return binary.BigEndian.AppendUint32(b, uint32(flvTagHead+n))
}

// payloadOf returns the codec's bytes of a tag, which are a part of it.
func payloadOf(tag []byte) []byte {
	at := flvTagHead + 2
	if tag[0] == load.Video {
		at = flvTagHead + 5
	}
	end := len(tag) - flvTagFoot
	return tag[min(at, end):end]
}

// numbersIn finds the numbers of a film and of a tag in the codec's bytes of the tag.
func numbersIn(payload []byte) (id, seq uint64, ok bool) {
	if len(payload) < tagNumbers {
		return 0, 0, false
	}
	return binary.BigEndian.Uint64(payload), binary.BigEndian.Uint64(payload[8:]), true
}

// errCut is the end of a body that had no proper one: the server cut it, or the connection broke.
var errCut = errors.New("the response was cut")

// A cutReader distinguishes such an end from one that comes too early for whoever reads.
type cutReader struct{ r io.Reader }

func (c cutReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err == io.ErrUnexpectedEOF {
		err = errCut
	}
	return n, err
}

// A filmVerifier reads what a viewer of a film gets, and compares every byte with what was sent.
type filmVerifier struct {
	name   string
	lookup func(id uint64) (film, bool)

	id   uint64 // of the film; valid once last > 0
	last uint64 // number of the tag that came last
	gaps uint64 // tags that were passed over
	read int64

	arrived bytes.Buffer
	got     []byte // the tag in arrived
	want    []byte
}

// verify reads to the end. It returns nil if that is where a tag ends.
func (v *filmVerifier) verify(body io.Reader) error {
	r := bufio.NewReaderSize(cutReader{body}, 64<<10)
	head := make([]byte, len(flvHead))
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	if string(head) != flvHead {
		return wrong("%s: the stream begins with %x", v.name, head)
	}
	for {
		switch err := v.next(r); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// next reads a tag. io.EOF stands for the end where a tag would begin.
func (v *filmVerifier) next(r *bufio.Reader) error {
	head, err := r.Peek(flvTagHead)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			return wrong("%s: the stream ends inside a tag, after tag %d", v.name, v.last)
		}
		return err
	}
	n := flvTagHead + int(head[1])<<16 + int(head[2])<<8 + int(head[3]) + flvTagFoot
	if n > maxTag {
		return wrong("%s: a tag of %d bytes after tag %d: %x", v.name, n, v.last, head)
	}
	v.arrived.Reset()
	if _, err := io.CopyN(&v.arrived, r, int64(n)); err != nil {
		if err == io.EOF {
			return wrong("%s: the stream ends properly, but inside a tag, after tag %d", v.name, v.last)
		}
		return err
	}
	v.got = v.arrived.Bytes()
	v.read += int64(n)
	for _, h := range filmHeads() {
		if bytes.Equal(v.got, h) {
			return nil
		}
	}
	return v.compare()
}

// compare looks at the tag in got.
func (v *filmVerifier) compare() error {
	id, seq, ok := numbersIn(payloadOf(v.got))
	f, known := v.lookup(id)
	switch {
	case !ok || !known:
		return wrong("%s: a tag that nobody sent here, after tag %d of film %x", v.name, v.last, v.id)
	case v.last > 0 && id != v.id:
		return wrong("%s: a tag of film %x after tag %d of film %x", v.name, id, v.last, v.id)
	case v.last == 0 && !isKeyFrame(seq):
		return wrong("%s: the stream begins with tag %d, which is no key frame", v.name, seq)
	case v.last > 0 && seq <= v.last:
		return wrong("%s: tag %d after tag %d", v.name, seq, v.last)
	case v.last > 0 && seq > v.last+1 && !isKeyFrame(seq):
		return wrong("%s: tag %d, which is no key frame, after tag %d", v.name, seq, v.last)
	}
	v.want = f.appendTo(v.want[:0], seq)
	if !bytes.Equal(v.got, v.want) {
		n := min(len(v.got), len(v.want))
		return wrong("%s: tag %d has %d bytes, want %d, and differs from byte %d on",
			v.name, seq, len(v.got), len(v.want), firstDifference(v.got[:n], v.want[:n]))
	}
	if v.last > 0 {
		v.gaps += seq - v.last - 1
	}
	v.id, v.last = id, seq
	return nil
}
