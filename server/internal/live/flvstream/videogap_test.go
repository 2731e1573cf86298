package flvstream

import (
	"testing"

	"github.com/millrace-io/millrace/media/flv"
)

func TestVideoGap(t *testing.T) {
	picture := func(at uint32) flv.Tag {
		return flv.Tag{Type: flv.TypeVideo, Packet: flv.PacketFrame, Timestamp: at}
	}
	other := func(at uint32) flv.Tag {
		return flv.Tag{Type: flv.TypeVideo, Packet: flv.PacketFrame, Track: 1, Timestamp: at}
	}
	sound := func(at uint32) flv.Tag {
		return flv.Tag{Type: flv.TypeAudio, Packet: flv.PacketFrame, Timestamp: at}
	}
	header := flv.Tag{Type: flv.TypeVideo, Packet: flv.PacketSequenceHeader}
	for _, tt := range []struct {
		name string
		kept bool // a GOP
		tags []flv.Tag
		want bool
	}{
		{"sound for ten seconds", false, []flv.Tag{sound(0), sound(5000), sound(10_000)}, true},
		{"for less", false, []flv.Tag{sound(0), sound(9999)}, false},
		{"while pictures are kept", true, []flv.Tag{sound(0), sound(10_000)}, false},
		{"a picture in between", false, []flv.Tag{sound(0), picture(20), sound(30), sound(10_020)},
			false},
		{"pictures of another track", false, []flv.Tag{sound(0), other(20), sound(30),
			sound(10_000)}, true},
		{"a picture behind", false, []flv.Tag{sound(0), sound(10_000), picture(0)}, false},
		{"a header is no picture", false, []flv.Tag{sound(0), header, sound(10_000), header}, true},
		{"pictures with times of their own", false,
			[]flv.Tag{picture(0), sound(60_000), picture(40), sound(60_040)}, false},
		{"times that begin anew", false, []flv.Tag{sound(60_000), sound(0), sound(9000)}, false},
		{"times that wrap", false, []flv.Tag{sound(1<<32 - 5000), sound(4000), sound(5000)}, true},
		{"it lasts", false, []flv.Tag{sound(0), sound(10_000), sound(10_020), sound(0)}, true},
	} {
		var g VideoGap
		got := false
		for _, tag := range tt.tags {
			got = g.Note(tag, func() bool { return tt.kept })
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
