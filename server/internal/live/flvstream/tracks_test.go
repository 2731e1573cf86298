package flvstream

import (
	"testing"

	"github.com/millrace-io/millrace/media/flv"
)

// TrackWait is counted from the first frame, and again when times go back.
func TestTrackTimer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		times []uint32
		want  bool
	}{
		{"one frame", []uint32{5000}, false},
		{"almost a second", []uint32{0, TrackWait - 1}, false},
		{"a second", []uint32{0, TrackWait}, true},
		{"times that wrap", []uint32{1<<32 - 500, TrackWait - 500}, true},
		{"times that begin anew", []uint32{60_000, 0, TrackWait - 1}, false},
	} {
		var timer TrackTimer
		got := false
		for _, at := range tt.times {
			got = timer.Passed(at)
		}
		if got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A track is absent if the other one has continued without it for long enough.
func TestPresence(t *testing.T) {
	frame := func(kind flv.Type, from, to uint32) (tags []flv.Tag) {
		for at := from; at <= to; at += 40 {
			tags = append(tags, flv.Tag{Type: kind, Packet: flv.PacketFrame, Timestamp: at})
		}
		return tags
	}
	header := flv.Tag{Type: flv.TypeVideo, Packet: flv.PacketSequenceHeader, SequenceHeader: true}
	video := func(at uint32) flv.Tag {
		return flv.Tag{Type: flv.TypeVideo, Packet: flv.PacketFrame, Timestamp: at}
	}
	for _, tt := range []struct {
		name   string
		tags   []flv.Tag
		absent bool // video
	}{
		{"video that never comes", frame(flv.TypeAudio, 0, TrackWait), true},
		{"video that may come yet", frame(flv.TypeAudio, 0, TrackWait-40), false},
		{"a header alone", append([]flv.Tag{header}, frame(flv.TypeAudio, 0, headerAbsentAfter)...),
			true},
		{"a slide every 20 s", append([]flv.Tag{video(0)}, frame(flv.TypeAudio, 0, 20_000)...),
			false},
		{"video that has stopped", append([]flv.Tag{video(0)},
			frame(flv.TypeAudio, 0, videoAbsentAfter)...), true},
		{"one odd time", append([]flv.Tag{video(0)}, frame(flv.TypeAudio, 60_000, 60_040)...),
			false},
	} {
		var p Presence
		for _, tag := range tt.tags {
			p.Note(tag)
		}
		if got := p.Absent(flv.TypeVideo); got != tt.absent {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.absent)
		}
		if p.Absent(flv.TypeAudio) {
			t.Errorf("%s: audio is absent", tt.name)
		}
	}
}

// A track that is absent for weeks stays absent.
func TestPresenceAfterWeeks(t *testing.T) {
	var p Presence
	for ms := uint64(0); ms < 3<<32; ms += longestStep { // 149 days
		p.Note(flv.Tag{Type: flv.TypeAudio, Packet: flv.PacketFrame, Timestamp: uint32(ms)})
		if ms > TrackWait && !p.Absent(flv.TypeVideo) {
			t.Fatalf("after %d days without video, video is not absent", ms/86_400_000)
		}
	}
}
