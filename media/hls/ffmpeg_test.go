package hls_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
)

// TestFFmpegPlaysIt makes a stream with ffmpeg, and compares the results of ffprobe for it and for
// the playlist.
func TestFFmpegPlaysIt(t *testing.T) {
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	dir := t.TempDir()
	source := filepath.Join(dir, "source.flv")
	run(t, "ffmpeg", "-y", "-f", "lavfi", "-i", "testsrc=size=322x182:rate=25", "-f", "lavfi", "-i",
		"sine=sample_rate=48000",
		"-t", "5.3", "-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-pix_fmt", "yuv420p",
		"-c:a", "aac", source)
	c := config
	c.Segments = 100
	r := newRig(t, c)
	window(t, r.w, source)
	for _, name := range r.list() {
		data, _ := r.get(name)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := r.playlist()
	if n := len(p.segments); n != 6 || !p.ended {
		t.Errorf("%d segments, want 6 and the end: %s", n, p)
	}
	for _, s := range p.segments {
		for _, part := range s.parts {
			if part.duration != 200 && part != s.parts[len(s.parts)-1] ||
				part.independent != (part == s.parts[0]) {
				t.Errorf("%+v, want 200 ms, and only the first independent", part)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "media.m3u8"), r.w.AppendPlaylist(nil, false),
		0o600); err != nil {
		t.Fatal(err)
	}
	want, got := packets(t, source), packets(t, filepath.Join(dir, "media.m3u8"))
	if strings.Count(want, "\n") < 300 || got != want {
		t.Errorf("%d lines, want %d", strings.Count(got, "\n"), strings.Count(want, "\n"))
	}
}

// run returns the output of a program, which must print nothing to stderr.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out, diag bytes.Buffer
	cmd := exec.Command(name, append([]string{"-v", "warning"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &diag
	if err := cmd.Run(); err != nil || diag.Len() > 0 {
		t.Fatalf("%s failed or complained: %v\n%s", name, err, diag.Bytes())
	}
	return out.String()
}

// packets returns a line for each packet of a file, first of the video, then of the audio.
func packets(t *testing.T, file string) (all string) {
	t.Helper()
	for _, stream := range []string{"v", "a"} {
		all += run(t, "ffprobe", "-select_streams", stream, "-show_packets", "-show_data_hash",
			"md5",
			"-show_entries", "packet=size,data_hash", "-of", "csv", file)
	}
	return all
}

// window feeds a Window with an FLV file.
func window(t *testing.T, w *hls.Window, file string) {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r := millrace.NewReader(in)
	defer r.Release()
	m := mp4.NewMuxer(mp4.Tracks(true, true))
	defer m.Release()
	add := func(f mp4.Fragment, body *millrace.Chain, keyNext bool) {
		if f.NewInit {
			var init millrace.Chain
			if err := m.AppendInit(&init); err != nil {
				t.Fatal(err)
			}
			w.Init(&init)
		}
		w.Add(hls.Fragment{Duration: f.Duration, Key: f.Key, KeyNext: keyNext,
			Time: time.Unix(0, 0).Add(f.Start)}, body)
	}
	for d := flv.NewDecoder(r); ; {
		var tag, fragment millrace.Chain
		info, err := d.Next(&tag)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.WriteTag(&fragment, info, &tag)
		if err != nil {
			t.Fatal(err)
		}
		if f.Samples > 0 { // the tag begins the next fragment
			add(f, &fragment, info.Type == flv.TypeVideo && info.Key)
		}
	}
	var fragment millrace.Chain
	add(m.Flush(&fragment), &fragment, false)
	w.End()
}

var object = regexp.MustCompile(`0-[i0-9.]+(mp4|m4s)`)

// list returns the names in the playlist.
func (r *rig) list() []string {
	return object.FindAllString(string(r.w.AppendPlaylist(nil, false)), -1)
}
