package mp4_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// run runs a program that must print nothing to stderr, and returns its output.
func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	var out, diag bytes.Buffer
	cmd := exec.Command(name, append([]string{"-v", "warning"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &diag
	if err := cmd.Run(); err != nil || diag.Len() > 0 {
		t.Fatalf("%s %s failed or complained: %v\n%s", name, strings.Join(args, " "), err,
			diag.Bytes())
	}
	return out.Bytes()
}

var (
	h264 = []string{"-c:v", "libx264", "-preset", "veryfast", "-g", "25", "-pix_fmt", "yuv420p"}
	aac  = []string{"-c:a", "aac"}
)

// generate makes a file of 2.5 s of a test video and a tone with ffmpeg, and also returns its
// content.
func generate(t *testing.T, name string, args ...[]string) (file string, data []byte) {
	t.Helper()
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	file = filepath.Join(t.TempDir(), name)
	in := []string{"-y", "-f", "lavfi", "-i", "testsrc=size=322x182:rate=25",
		"-f", "lavfi", "-i", "sine=sample_rate=48000", "-t", "2.5"}
	run(t, "ffmpeg", slices.Concat(in, slices.Concat(args...), []string{file})...)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, data
}

// probed is a packet as ffprobe prints it.
type probed struct {
	Kind        string  `json:"codec_type"`
	PTS         float64 `json:"pts_time,string"`
	DTS         float64 `json:"dts_time,string"`
	Flags, Size string
	Hash        string `json:"data_hash"`
}

func (p probed) key() bool { return p.Flags[0] == 'K' }

// probe lists the packets of a file by stream, in order.
func probe(t *testing.T, file string) map[string][]probed {
	t.Helper()
	out := run(t, "ffprobe", "-show_packets", "-show_data_hash", "md5", "-of", "json", file)
	var all struct{ Packets []probed }
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	packets := map[string][]probed{}
	for _, p := range all.Packets {
		p.Flags = p.Flags[:1] // K for a keyframe
		packets[p.Kind] = append(packets[p.Kind], p)
	}
	return packets
}

// samePackets compares times to within a millisecond, and everything else exactly.
func samePackets(t *testing.T, got, want []probed) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		const ms = 0.001 + 1e-9
		if max(g.PTS-w.PTS, w.PTS-g.PTS, g.DTS-w.DTS, w.DTS-g.DTS) > ms {
			t.Fatalf("packet %d: pts %v, dts %v; want %v, %v", i, g.PTS, g.DTS, w.PTS, w.DTS)
		}
		g.PTS, g.DTS = w.PTS, w.DTS
		if g != w {
			t.Fatalf("packet %d: %+v, want %+v", i, g, w)
		}
	}
}

// decodes checks that every packet of a file can be decoded without complaints.
func decodes(t *testing.T, file string) {
	t.Helper()
	out := run(t, "ffprobe", "-count_frames", "-count_packets", "-show_entries",
		"stream=nb_read_frames,nb_read_packets",
		"-of", "csv=p=0", file)
	for line := range strings.Lines(string(out)) {
		if frames, packets, _ := strings.Cut(strings.TrimSpace(line), ","); frames != packets ||
			frames == "" {
			t.Errorf("%s frames of %s packets", frames, packets)
		}
	}
}

// eachTag calls f with each tag of an FLV file. f takes ownership of c.
func eachTag(t *testing.T, in io.Reader, f func(tag flv.Tag, c *millrace.Chain)) {
	t.Helper()
	r := millrace.NewReader(in)
	defer r.Release()
	for d := flv.NewDecoder(r); ; {
		var c millrace.Chain
		tag, err := d.Next(&c)
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		f(tag, &c)
	}
}

// mux passes an FLV file through a Muxer, and writes the output for a viewer who begins at the
// given keyframe, 0 for the first.
func mux(t *testing.T, in io.Reader, out string, begin int, opts ...mp4.Option) {
	t.Helper()
	m := mp4.NewMuxer(opts...)
	defer m.Release()
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys, inits := -1, 0
	began := false
	send := func(frag mp4.Fragment, dst *millrace.Chain) {
		defer dst.Release()
		if frag.Samples == 0 {
			return
		}
		if frag.NewInit {
			inits++
		}
		if frag.Key {
			keys++
		}
		var all millrace.Chain
		defer all.Release()
		if !began && (begin == 0 || keys == begin) {
			began = true
			if err := m.AppendInit(&all); err != nil {
				t.Fatal(err)
			}
		}
		if began {
			all.Merge(dst)
		}
		if _, err := all.WriteTo(f); err != nil {
			t.Fatal(err)
		}
	}
	eachTag(t, in, func(tag flv.Tag, c *millrace.Chain) {
		var dst millrace.Chain
		frag, err := m.WriteTag(&dst, tag, c)
		if err != nil {
			t.Fatal(err)
		}
		send(frag, &dst)
	})
	var dst millrace.Chain
	send(m.Flush(&dst), &dst)
	if inits != 1 || keys < begin {
		t.Fatalf("%d init segments, want 1; %d keyframes", inits, keys+1)
	}
}

// The MP4 has the same packets as ffmpeg's FLV, for a viewer from the start and for a viewer who
// joins at the second keyframe.
func TestAgainstFFmpeg(t *testing.T) {
	for i, tt := range []struct {
		name string
		args []string
	}{
		{"with B-frames", slices.Concat(h264, []string{"-bf", "2"}, aac, []string{"-ar", "44100"})},
		{"pictures alone", slices.Concat(h264, []string{"-an"})},
		{"sound alone", slices.Concat([]string{"-vn"}, aac)},
		{"B-pyramid", slices.Concat(h264, []string{"-bf", "5", "-b-pyramid", "normal"}, aac,
			[]string{"-ac", "2"})},
		{"without B-frames", slices.Concat(h264, []string{"-bf", "0"}, aac,
			[]string{"-ar", "22050"})},
		{"60 a second", slices.Concat(h264, []string{"-r", "60", "-tune", "zerolatency"}, aac)},
		{"29.97 a second", slices.Concat(h264, []string{"-r", "30000/1001"}, aac)},
		{"a picture a second", slices.Concat(h264, []string{"-r", "1", "-g", "1"}, aac)},
	} {
		if testing.Short() && i > 2 {
			break
		}
		t.Run(tt.name, func(t *testing.T) {
			leaktest.Check(t, millrace.DefaultPool())
			source, b := generate(t, "source.flv", tt.args)
			want := probe(t, source)
			whole := filepath.Join(t.TempDir(), "whole.mp4")
			mux(t, bytes.NewReader(b), whole, 0)
			got := probe(t, whole)
			if len(got) != len(want) {
				t.Errorf("%d streams, want %d", len(got), len(want))
			}
			for kind := range want {
				samePackets(t, got[kind], want[kind])
			}
			decodes(t, whole)
			late := filepath.Join(t.TempDir(), "late.mp4")
			mux(t, bytes.NewReader(b), late, 1)
			if tt.name == "a picture a second" { // audio does not wait for such rare video
				return
			}
			sameTail(t, probe(t, late), want)
			decodes(t, late)
		})
	}
}

// sameTail checks that got equals want from some keyframe to the end.
func sameTail(t *testing.T, got, want map[string][]probed) {
	t.Helper()
	for kind := range want {
		from := len(want[kind]) - len(got[kind])
		if from <= 0 || len(got[kind]) == 0 {
			t.Fatalf("%d %s packets of %d", len(got[kind]), kind, len(want[kind]))
		}
		samePackets(t, got[kind], want[kind][from:])
		if !got[kind][0].key() {
			t.Errorf("%s does not begin with a keyframe", kind)
		}
	}
	if v, a := got["video"], got["audio"]; len(v) > 0 && len(a) > 0 {
		if gap := a[0].DTS - v[0].DTS; gap < -0.2 || gap > 0.2 {
			t.Errorf("sound begins %v s after the picture", gap)
		}
	}
}

// A clip that is sent twice on one connection, with times that restart, is played twice.
func TestTwiceAgainstFFmpeg(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	_, b := generate(t, "source.flv", h264, []string{"-bf", "2"}, aac)
	once, twice := filepath.Join(t.TempDir(), "once.mp4"), filepath.Join(t.TempDir(), "twice.mp4")
	const header = 9 + 4 // with the previous-tag-size
	mux(t, bytes.NewReader(b), once, 0)
	mux(t, bytes.NewReader(slices.Concat(b, b[header:])), twice, 0)
	want, got := probe(t, once), probe(t, twice)
	offset := got["audio"][len(want["audio"])].DTS - want["audio"][0].DTS
	if offset < 2.5 || offset > 2.6 {
		t.Errorf("the second time begins at %v s", offset)
	}
	for kind := range want {
		n := len(want[kind])
		samePackets(t, got[kind][:n], want[kind])
		second := slices.Clone(want[kind])
		for i := range second {
			second[i].PTS += offset
			second[i].DTS += offset
		}
		// The first video frames come before the audio. The audio of the first round ended later,
		// and moves the rest after its end.
		from := map[string]int{"video": 4}[kind]
		samePackets(t, got[kind][n+from:], second[from:])
	}
	decodes(t, twice)
	run(t, "ffmpeg", "-i", twice, "-f", "null", "-")
}

// file writes the output for a viewer from the start.
func (r *rig) file(name string) string {
	r.t.Helper()
	name = filepath.Join(r.t.TempDir(), name)
	if err := os.WriteFile(name, slices.Concat(r.init(), bytes.Join(r.bytes, nil)),
		0o600); err != nil {
		r.t.Fatal(err)
	}
	return name
}

// This version of ffmpeg's FLV muxer cannot write HEVC. The frames are therefore taken from an MP4
// file of ffmpeg.
func TestHEVCAgainstFFmpeg(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	source, b := generate(t, "source.mp4", []string{"-an", "-c:v", "libx265", "-preset",
		"ultrafast",
		"-x265-params", "log-level=none:keyint=25:bframes=0", "-tag:v", "hvc1", "-pix_fmt",
		"yuv420p",
		"-movflags", "empty_moov+default_base_moof+frag_every_frame"})
	at := bytes.Index(b, []byte("hvcC"))
	record := string(b[at+4 : at-4+int(binary.BigEndian.Uint32(b[at-4:]))])
	r := newRig(t)
	r.tag(video, 0, "\x90hvc1"+record)
	n := 0
	readBoxes(b, func(kind string, in []byte) {
		if kind != "mdat" {
			return
		}
		head := "\xa3hvc1"
		if n%25 == 0 {
			head = "\x93hvc1"
		}
		r.tag(video, uint32(40*n), head+string(in))
		n++
	})
	r.flush()
	file := r.file("hevc.mp4")
	got, want := probe(t, file), probe(t, source)
	samePackets(t, got["video"], want["video"])
	decodes(t, file)
	if v := readInit(r.init())[0]; v.width != 322 || v.height != 182 {
		t.Errorf("the track is %+v, want 322x182", v)
	}
}

// ffprobe reads the file and finds every video frame in it, for each channel configuration that a
// sequence header of AAC can announce. In an earlier version, values other than 1 to 7, such as
// reserved ones, made the whole file unreadable.
func TestChannelConfigurationsAgainstFFmpeg(t *testing.T) {
	source, b := generate(t, "source.flv", h264, aac)
	pictures := len(probe(t, source)["video"])
	for channels := range byte(16) {
		if testing.Short() && channels%7 > 1 {
			continue
		}
		r := newRig(t, mp4.Tracks(true, true))
		var refused error
		eachTag(t, bytes.NewReader(b), func(tag flv.Tag, c *millrace.Chain) {
			if tag.Type == audio && tag.Packet == flv.PacketSequenceHeader {
				c.Release()
				refused = r.try(audio, tag.Timestamp,
					aacHeader("\x11"+string([]byte{0x80 | channels<<3})))
			} else if err := r.write(tag, c); err != nil {
				t.Fatal(err)
			}
		})
		r.flush()
		if valid := 1 <= channels && channels <= 7; valid != (refused == nil) {
			t.Errorf("channel configuration %d: %v", channels, refused)
		}
		out, err := exec.Command("ffprobe", "-v", "quiet", "-select_streams", "v", "-show_entries",
			"packet=pts",
			"-of", "csv", r.file("channels.mp4")).Output()
		if n := bytes.Count(out, []byte("packet")); err != nil || n != pictures {
			t.Errorf("channel configuration %d: ffprobe finds %d video frames, want %d: %v",
				channels, n, pictures, err)
		}
		if n := len(r.fragments); n < pictures-1 {
			t.Errorf("channel configuration %d: %d fragments of %d video frames: they waited for the sound", channels, n, pictures)
		}
	}
}
