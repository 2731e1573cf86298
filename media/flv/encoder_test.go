package flv_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/media/flv"
)

// Built tags equal the tags read.
func TestAppendIsTheInverseOfNext(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	var enc flv.Encoder
	defer enc.Release()
	var out millrace.Chain
	defer out.Release()
	flv.AppendHeader(&out, flv.Header{HasAudio: true, HasVideo: true})
	var tags []flv.Tag
	want := fileHeader
	for i, seed := range dataSeeds {
		ts := uint32(i) * 0x01020304
		body := chainOf(seed.data)
		tag, err := enc.Append(&out, flv.Type(seed.kind), ts, &body)
		if err != nil || body.Len() != 0 {
			t.Fatalf("%v, %d bytes left", err, body.Len())
		}
		tags = append(tags, tag)
		want += rawTag(seed.kind, ts, seed.data)
	}
	if got := string(out.Bytes()); got != want {
		t.Errorf("built\n%q, want\n%q", got, want)
	}
	r := millrace.NewReader(out.Reader())
	defer r.Release()
	d := flv.NewDecoder(r, flv.MaxTag(flv.MaxData))
	for i, tag := range tags {
		var c millrace.Chain
		if want, err := d.Next(&c); err != nil || tag != want {
			t.Errorf("tag %d is %+v, the Decoder says %+v (%v)", i, tag, want, err)
		}
		c.Release()
	}
}

// Headers of kept tags share blocks, so that a small tag does not hold a whole block.
func TestHeadersShareBlocks(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	var enc flv.Encoder
	defer enc.Release()
	var kept millrace.Chain
	defer kept.Release()
	before := millrace.DefaultPool().Stats().Taken
	for i := range 680 {
		var none millrace.Chain
		if _, err := enc.Append(&kept, flv.TypeAudio, uint32(i), &none); err != nil {
			t.Fatal(err)
		}
	}
	if n := millrace.DefaultPool().Stats().Taken - before; n > 12 {
		t.Errorf("%d blocks for 680 headers of 15 bytes", n)
	}
}

// Headers are whole, wherever a block of headers ends.
func TestHeadersAtTheEndOfABlock(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	rnd := rand.New(rand.NewPCG(1, 1))
	var enc flv.Encoder
	defer enc.Release()
	tag := chainOf(rawTag(8, 0, "x"))
	defer tag.Release()
	for i := range uint32(20_000) {
		var got millrace.Chain
		want := rawTag(8, i, "x")
		if rnd.IntN(2) == 0 {
			enc.Retime(&got, &tag, i)
		} else {
			body := chainOf("x")
			if _, err := enc.Append(&got, 8, i, &body); err != nil {
				t.Fatal(err)
			}
		}
		if string(got.Bytes()) != want {
			t.Fatalf("tag %d is %q, want %q", i, got.Bytes(), want)
		}
		got.Release()
	}
}

func TestAppendHeader(t *testing.T) {
	for want, h := range map[string]flv.Header{
		"FLV\x01\x00\x00\x00\x00\x09\x00\x00\x00\x00": {},
		"FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00": {HasVideo: true},
		"FLV\x01\x04\x00\x00\x00\x09\x00\x00\x00\x00": {HasAudio: true},
	} {
		var c millrace.Chain
		flv.AppendHeader(&c, h)
		if got := string(c.Bytes()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		c.Release()
	}
}

// A body that is too large for the format is released.
func TestAppendTagTooLarge(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	var c, dst millrace.Chain
	_, _ = c.ReadFrom(io.LimitReader(zeros{}, 1<<24))
	var enc flv.Encoder
	defer enc.Release()
	_, err := enc.Append(&dst, flv.TypeVideo, 0, &c)
	var limit *flv.LimitError
	if !errors.As(err, &limit) || limit.Have != 1<<24 || dst.Len() != 0 || c.Len() != 0 {
		t.Errorf("%v; %d bytes given, %d left", err, dst.Len(), c.Len())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Retime changes only the time, and does not change src.
func TestRetime(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	data := "\x17\x01\x00\x00\x00" + strings.Repeat("picture", 2000)
	in := rawTag(video, 40, data)
	src := chainOf(in)
	defer src.Release()
	var once, twice millrace.Chain
	defer once.Release()
	defer twice.Release()
	var enc flv.Encoder
	defer enc.Release()
	enc.Retime(&once, &src, 0x89abcdef)
	enc.Retime(&twice, &once, 40)
	if got := string(once.Bytes()); got != rawTag(video, 0x89abcdef, data) {
		t.Errorf("retimed to %q...", got[:20])
	}
	if string(twice.Bytes()) != in || string(src.Bytes()) != in {
		t.Error("not what it was")
	}
}
