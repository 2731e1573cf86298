package mp4_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/mp4"
)

func unhex(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Sequence headers as libx264, libx265 and ffmpeg's AAC encoder write them.
var (
	avc640x360 = unhex("014d401fffe1001a674d401fa6110280bfe5c044000003000400000300c83c60c84601000668e843044b20")
	avc320x240 = unhex("0142c00dffe100186742c00dd90141fb011000000300100000030320f142a48001000568cb83cb20")
	// hvcC with its parameter sets, but without libx265's message about itself.
	hevc322x182 = unhex("0101600000009000000000003cf000fcfdf8f800000f03" +
		"2000010018" + "40010c01ffff01600000030090000003000003003c959809" +
		"210001002a" + "42010101600000030090000003000003003ca00a480b9c9596566924caf0168080000003008000000c84" +
		"2200010007" + "4401c172b46240")
	aac44100 = unhex("121056e500") // stereo
	aac48000 = unhex("118856e500") // mono
)

// Data of tags, each for a decoder's configuration or a frame.
func avcHeader(record string) string { return "\x17\x00\x00\x00\x00" + record }
func aacHeader(record string) string { return "\xaf\x00" + record }
func aacFrame(data string) string    { return "\xaf\x01" + data }
func avcKey(data string) string      { return "\x17\x01\x00\x00\x00" + data }
func avcDelta(shift int32, data string) string {
	return "\x27\x01" + string([]byte{byte(shift >> 16), byte(shift >> 8), byte(shift)}) + data
}

// rig feeds a Muxer with tags and keeps what it says.
type rig struct {
	t         testing.TB
	m         *mp4.Muxer
	fragments []mp4.Fragment
	bytes     [][]byte // of each fragment
}

func newRig(t testing.TB, opts ...mp4.Option) *rig {
	r := &rig{t: t, m: mp4.NewMuxer(opts...)}
	t.Cleanup(r.m.Release)
	return r
}

// tag gives the Muxer one tag and fails when it is refused.
func (r *rig) tag(kind flv.Type, ts uint32, data string) {
	r.t.Helper()
	if err := r.try(kind, ts, data); err != nil {
		r.t.Fatal(err)
	}
}

// try gives the Muxer one tag and returns its word.
func (r *rig) try(kind flv.Type, ts uint32, data string) error {
	r.t.Helper()
	tag, c := makeTag(r.t, kind, ts, data)
	return r.write(tag, &c)
}

func (r *rig) write(tag flv.Tag, c *millrace.Chain) error {
	r.t.Helper()
	var dst millrace.Chain
	f, err := r.m.WriteTag(&dst, tag, c)
	if c.Len() > 0 || err != nil && dst.Len() > 0 || (f.Samples > 0) != (dst.Len() > 0) {
		r.t.Fatalf("%v: %d bytes left, %d bytes given, %+v", err, c.Len(), dst.Len(), f)
	}
	r.keep(f, &dst)
	return err
}

func (r *rig) flush() {
	var dst millrace.Chain
	r.keep(r.m.Flush(&dst), &dst)
}

func (r *rig) keep(f mp4.Fragment, dst *millrace.Chain) {
	if f.Samples > 0 {
		r.fragments = append(r.fragments, f)
		r.bytes = append(r.bytes, bytes.Clone(dst.Bytes()))
	}
	dst.Release()
}

func (r *rig) init() []byte {
	r.t.Helper()
	var c millrace.Chain
	defer c.Release()
	if err := r.m.AppendInit(&c); err != nil {
		r.t.Fatal(err)
	}
	return bytes.Clone(c.Bytes())
}

// packets reads all fragments from the given one on.
func (r *rig) packets(from int) []packet {
	return readFragments(bytes.Join(r.bytes[from:], nil))
}

// ofTrack picks the packets of one track: 1 is video, 2 is sound.
func ofTrack(id uint32, all []packet) (some []packet) {
	for _, p := range all {
		if p.track == id {
			some = append(some, p)
		}
	}
	return some
}

// makeTag builds a tag and has a Decoder describe it.
func makeTag(t testing.TB, kind flv.Type, ts uint32, data string) (flv.Tag, millrace.Chain) {
	t.Helper()
	var stream, body, c millrace.Chain
	flv.AppendHeader(&stream, flv.Header{})
	body.AppendCopy([]byte(data))
	if err := flv.AppendTag(&stream, kind, ts, &body); err != nil {
		t.Fatal(err)
	}
	r := millrace.NewReaderFrom(func(dst *millrace.Chain) error { dst.Merge(&stream); return io.EOF })
	defer r.Release()
	tag, err := flv.NewDecoder(r).Next(&c)
	if err != nil {
		t.Fatal(err)
	}
	return tag, c
}
