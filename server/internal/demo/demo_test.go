package demo

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

// A tag is one FLV tag, parsed here without the project's own decoder, so that an error of the
// decoder is not hidden.
type tag struct {
	kind byte // 8 audio, 9 video, 18 script
	at   time.Duration
	data []byte
}

const headerLen = 9 + 4 // the FLV header and the first previous-tag-size

func tags(t *testing.T, flv []byte) []tag {
	t.Helper()
	if len(flv) < headerLen || string(flv[:3]) != "FLV" || flv[4] != 5 {
		t.Fatalf("not the header of an FLV file with audio and video: % x",
			flv[:min(len(flv), headerLen)])
	}
	var all []tag
	for rest := flv[headerLen:]; len(rest) > 0; {
		if len(rest) < 11 {
			t.Fatalf("%d bytes after the last tag", len(rest))
		}
		size := int(rest[1])<<16 | int(rest[2])<<8 | int(rest[3])
		if len(rest) < 11+size+4 {
			t.Fatalf("tag %d of %d bytes is cut off", len(all), size)
		}
		if back := binary.BigEndian.Uint32(rest[11+size:]); int(back) != 11+size {
			t.Fatalf("tag %d: previous-tag-size is %d, want %d", len(all), back, 11+size)
		}
		ms := int(rest[7])<<24 | int(rest[4])<<16 | int(rest[5])<<8 | int(rest[6])
		all = append(all, tag{rest[0], time.Duration(ms) * time.Millisecond, rest[11 : 11+size]})
		rest = rest[11+size+4:]
	}
	return all
}

func TestSampleIsH264AndAACFromAKeyFrameOn(t *testing.T) {
	all := tags(t, Sample)
	if all[0].kind != 18 || !bytes.Contains(all[0].data, []byte("onMetaData")) {
		t.Error("the first tag is not onMetaData")
	}
	if bytes.Contains(all[0].data, []byte("duration")) {
		t.Error("onMetaData gives a duration: a player would take the live stream for a file that ends")
	}
	var video, audio, keys int
	for i, tag := range all {
		switch tag.kind {
		case 9:
			if codec := tag.data[0] & 0x0f; codec != 7 {
				t.Fatalf("tag %d: video codec %d, want 7 (AVC)", i, codec)
			}
			key := tag.data[0]>>4 == 1
			switch tag.data[1] {
			case 0:
				if video != 0 {
					t.Errorf("tag %d: a sequence header in the middle", i)
				}
				continue
			case 2:
				t.Errorf("tag %d: an end of sequence", i)
				continue
			}
			if key != (video%25 == 0) {
				t.Errorf("video frame %d: keyframe is %v", video, key)
			}
			if key {
				keys++
			}
			if composition := tag.data[2:5]; !bytes.Equal(composition, []byte{0, 0, 0}) {
				t.Errorf("video frame %d: shown % x after it is decoded, want at once", video,
					composition)
			}
			video++
		case 8:
			if tag.data[0] != 0xae && tag.data[0] != 0xaf {
				t.Fatalf("tag %d: sound byte %#x, want AAC", i, tag.data[0])
			}
			if tag.data[1] == 1 {
				audio++
			}
		}
	}
	if video != 200 || keys != 8 || audio != 375 {
		t.Errorf("%d video frames, %d keyframes, %d audio frames; want 200, 8, 375", video, keys,
			audio)
	}
}

func TestSampleIsLengthLongInBothTracks(t *testing.T) {
	for _, track := range []struct {
		name  string
		kind  byte
		count int // number of frames in Length
	}{{"video", 9, 200}, {"audio", 8, 375}} {
		n := 0
		for _, tag := range tags(t, Sample) {
			if tag.kind != track.kind || tag.data[1] != 1 {
				continue
			}
			// Timestamps are whole milliseconds: allow rounding in either direction.
			want := Length * time.Duration(n) / time.Duration(track.count)
			if d := tag.at - want; d <= -time.Millisecond || d >= time.Millisecond {
				t.Errorf("%s frame %d at %v, want %v", track.name, n, tag.at, want)
			}
			n++
		}
		if n != track.count {
			t.Errorf("%d %s frames, want %d", n, track.name, track.count)
		}
	}
}

func TestSampleIsSmall(t *testing.T) {
	if most := 400 << 10; len(Sample) > most {
		t.Errorf("%d bytes in every binary, more than %d", len(Sample), most)
	}
}

// Two rounds, the second shifted by Length, form one stream that ffmpeg decodes without a message.
func TestSampleLoops(t *testing.T) {
	ffmpeg := need.Program(t, "ffmpeg")
	cmd := exec.Command(ffmpeg, "-v", "warning", "-xerror", "-i", "pipe:0", "-f", "null", "-")
	cmd.Stdin = bytes.NewReader(append(bytes.Clone(Sample), again(t)...))
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("ffmpeg finds faults in the loop: %v\n%s", err, out)
	}
}

// again returns the media tags of Sample one Length later.
func again(t *testing.T) []byte {
	var b []byte
	for _, tag := range tags(t, Sample) {
		if tag.kind == 18 || tag.data[1] == 0 {
			continue // metadata and sequence headers apply to all rounds
		}
		ms, n := (tag.at + Length).Milliseconds(), len(tag.data)
		b = append(b, tag.kind, byte(n>>16), byte(n>>8), byte(n), byte(ms>>16), byte(ms>>8),
			byte(ms), byte(ms>>24), 0, 0, 0)
		b = append(b, tag.data...)
		b = binary.BigEndian.AppendUint32(b, uint32(11+n))
	}
	return b
}
