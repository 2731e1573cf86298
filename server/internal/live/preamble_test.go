package live_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
)

// listed returns a tag with a list of one track. The first byte of the track is that of an ordinary
// enhanced tag.
func listed(kind flv.Type, at uint32, track byte, ordinary string) []byte {
	tracks := byte(6)
	if kind == flv.TypeAudio {
		tracks = 5
	}
	data := []byte{ordinary[0]&0xf0 | tracks, ordinary[0] & 0x0f}
	data = append(data, ordinary[1:5]...)
	data = append(data, track)
	return flvTag(kind, at, append(data, ordinary[5:]...))
}

// Late viewers get the headers of all tracks, and start where the default track can be decoded.
func TestLateViewersOfSeveralTracks(t *testing.T) {
	head := []byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")
	plain := [][]byte{avcHeader(), flvTag(flv.TypeAudio, 0, []byte("\xaf\x00\x12\x10"))}
	numbered := [][]byte{
		listed(flv.TypeVideo, 0, 0, "\x90avc1the first picture's"),
		listed(flv.TypeAudio, 0, 0, "\x90mp4athe first sound's"),
	}
	others := [][]byte{
		listed(flv.TypeVideo, 0, 1, "\x90avc1the second picture's"),
		listed(flv.TypeVideo, 0, 1, "\x94avc1what is to be known of it"),
		listed(flv.TypeAudio, 0, 1, "\x90mp4athe second sound's"),
		listed(flv.TypeVideo, 0, 2, "\x90hvc1the third picture's"),
	}
	key := flvTag(flv.TypeVideo, 40, []byte("\x17\x01\x00\x00\x00"+unitOf("key")))
	group := [][]byte{
		listed(flv.TypeAudio, 40, 1, "\x91mp4asound"),
		listed(flv.TypeVideo, 40, 1, "\x91avc1key of the second"),
		flvTag(flv.TypeVideo, 80, []byte("\x27\x01\x00\x00\x00"+unitOf("picture"))),
		listed(flv.TypeVideo, 80, 2, "\x91hvc1key of the third"),
	}
	for _, tt := range []struct {
		name string
		sent [][]byte
		want [][]byte
	}{
		{"the first as ever", [][]byte{plain[0], plain[1], join(others), key, join(group)},
			[][]byte{join(plain), join(others), key, join(group)}},
		{"the first behind the others", [][]byte{join(others), join(plain), key, join(group)},
			[][]byte{join(plain), join(others), key, join(group)}},
		{"the first in a list", [][]byte{join(numbered), join(others), key, join(group)},
			[][]byte{join(numbered), join(others), key, join(group)}},
		{"again", [][]byte{join(plain), join(others), key, join(group), others[0], plain[0], key},
			[][]byte{join(plain), join(others), key}},
		{"none of them the first", [][]byte{join(others), join(group[:2]), group[3]},
			[][]byte{join(others), group[3]}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := serve(t, nil)
			p := f.Publisher("cam")
			p.Send(append(bytes.Clone(head), join(tt.sent)...))
			f.published("cam", len(join(tt.sent)))
			w := f.Watcher("/live/cam", 0)
			p.End()
			same(t, "what a late viewer gets", w.Rest(),
				append(bytes.Clone(head), join(tt.want)...))
		})
	}
}

func join(tags [][]byte) []byte { return bytes.Join(tags, nil) }

// A second video track, with a codec that MP4 does not support, does not affect the MP4 of the
// first track.
func TestLateMP4OfSeveralTracks(t *testing.T) {
	f := serve(t, nil)
	w := f.Publisher("cam")
	stream := [][]byte{avcHeader(), listed(flv.TypeVideo, 0, 1, "\x90av01config")}
	for i := range uint32(25) {
		first, second := byte(0x27), byte(0xa1)
		if i%10 == 0 {
			first, second = 0x17, 0x91
		}
		stream = append(stream, flvTag(flv.TypeVideo, 40*i,
			fmt.Appendf(nil, "%c\x01\x00\x00\x00%s", first, unitOf("picture"))),
			listed(flv.TypeVideo, 40*i, 1, string([]byte{second})+"av01other"))
	}
	w.Send(append([]byte("FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"), join(stream)...))
	f.published("cam", len(join(stream)))
	late := f.Watcher("/live/cam.mp4", 0)
	f.viewers(1)
	w.End()
	list := stretches(t, late.Rest())
	if n := contiguous(t, list); n != 5 || list[0].at != 800 {
		t.Errorf("%d video frames from %+v on, want the last five", n, list)
	}
}
