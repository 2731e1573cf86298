package flvstream

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// The frames of the next publisher continue the time of the stream. Video begins at a keyframe, and
// no frame gets a time before the end of the publisher before.
func TestContinuation(t *testing.T) {
	const (
		key   = "\x17\x01\x00\x00\x00key"
		video = "\x27\x01\x00\x00\x00video"
		audio = "\xaf\x01audio"
	)
	var (
		enc      flv.Encoder
		finder   StartFinder
		preamble Preamble
	)
	defer enc.Release()
	defer preamble.Release()
	const second = 1e9
	n := Continue(true, 10_000, 5*second)
	for i, test := range []struct {
		body string
		at   uint32 // time of the publisher, in ms
		now  int64
		want uint32 // time of the stream, in ms; 0: the frame is dropped
	}{
		{video, 500, 7 * second, 0},
		{audio, 510, 7 * second, 12_010},
		{audio, 400, 7 * second, 11_900},
		{video, 540, 7 * second, 0},
		{key, 580, 7 * second, 12_080},
		{video, 620, 7 * second, 12_120},
		{audio, 1<<32 - 1700, 7 * second, 10_000},   // before the end of the publisher before
		{audio, 1<<32 - 20_000, 7 * second, 12_000}, // the clock has stepped back
		{video, 1<<32 - 19_960, 7 * second, 12_040},
	} {
		var c, body millrace.Chain
		body.AppendCopy([]byte(test.body))
		kind := flv.TypeVideo
		if test.body == audio {
			kind = flv.TypeAudio
		}
		tag, err := enc.Append(&c, kind, test.at, &body)
		if err != nil {
			t.Fatal(err)
		}
		finder.Note(tag)
		n.Begin(tag, test.now)
		ok := n.Fit(&tag, &c, test.now, &finder, &preamble, &enc)
		if ok != (test.want > 0) || ok && tag.Timestamp != test.want {
			t.Errorf("frame %d: %v, at %d ms, want %d", i, ok, tag.Timestamp, test.want)
		}
		c.Release()
	}
}
