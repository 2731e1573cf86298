package mp4_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// feed is an endless stream of 2 Mbit/s: a video frame of 10,000 bytes and two audio frames of 300
// bytes in turn.
type feed struct {
	t    testing.TB
	m    *mp4.Muxer
	tags [3]flv.Tag
	data [3]millrace.Chain
	n    int
	dst  millrace.Chain
}

func newFeed(t testing.TB) *feed {
	f := &feed{t: t, m: mp4.NewMuxer()}
	for _, tag := range []struct {
		kind flv.Type
		data string
	}{{video, avcHeader(avc640x360)}, {audio, aacHeader(aac48000)}, {video, avcKey("K")}} {
		tag, c := makeTag(t, tag.kind, 0, tag.data)
		if _, err := f.m.WriteTag(&f.dst, tag, &c); err != nil {
			t.Fatal(err)
		}
	}
	f.tags[0], f.data[0] = makeTag(t, video, 0, avcDelta(40, strings.Repeat("x", 10_000)))
	for i := 1; i < 3; i++ {
		f.tags[i], f.data[i] = makeTag(t, audio, 0, aacFrame(strings.Repeat("x", 300)))
	}
	return f
}

// next writes a tag and releases the fragment, if there is one.
func (f *feed) next() {
	i := f.n % len(f.tags)
	f.n++
	tag := f.tags[i]
	tag.Timestamp = uint32(f.n) * 1024 / 96 // two audio frames per video frame
	var c millrace.Chain
	f.data[i].CloneTo(&c)
	if _, err := f.m.WriteTag(&f.dst, tag, &c); err != nil {
		f.t.Fatal(err)
	}
	f.dst.Release()
}

func (f *feed) close() {
	f.m.Release()
	f.dst.Release()
	for i := range f.data {
		f.data[i].Release()
	}
}

func BenchmarkWriteTag(b *testing.B) {
	f := newFeed(b)
	defer f.close()
	b.SetBytes(10_600 / 3)
	b.ReportAllocs()
	for b.Loop() {
		f.next()
	}
}

func BenchmarkAppendInit(b *testing.B) {
	f := newFeed(b)
	defer f.close()
	for range 10 {
		f.next()
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := f.m.AppendInit(&f.dst); err != nil {
			b.Fatal(err)
		}
		f.dst.Release()
	}
}
