package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/internal/testkit/need"
)

// runProgram runs a program to its end and returns its output.
func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %s failed with %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// decoded returns the checksums of a file's decoded video frames ("v"), or of its audio ("a").
func decoded(t *testing.T, file, stream string) []string {
	t.Helper()
	return sums(runProgram(t, "ffmpeg", "-v", "error", "-i", file, "-map", "0:"+stream, "-fps_mode",
		"passthrough", "-f", "framemd5", "-"))
}

// sums returns the last column of ffmpeg's framemd5 output.
func sums(framemd5 string) (list []string) {
	for line := range strings.Lines(framemd5) {
		if !strings.HasPrefix(line, "#") {
			list = append(list, strings.TrimSpace(line[strings.LastIndexByte(line, ',')+1:]))
		}
	}
	return list
}

// hlsFilm makes an FLV file with B-frames and audio.
func hlsFilm(t *testing.T, seconds int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "film.flv")
	runProgram(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25",
		"-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100",
		"-t", fmt.Sprint(seconds), "-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "50",
		"-sc_threshold", "0", "-pix_fmt", "yuv420p", "-b:v", "800k",
		"-c:a", "aac", "-b:a", "96k", "-flvflags", "no_duration_filesize", path)
	return path
}

// ffmpeg and GStreamer play a stream by whole segments, and a player that uses parts checks each
// playlist. All of them get the source's frames.
func TestHLSPlayers(t *testing.T) {
	if testing.Short() {
		t.Skip("plays in real time")
	}
	need.Program(t, "ffmpeg")
	gst := need.Program(t, "gst-launch-1.0")
	source := hlsFilm(t, 12)
	f := serve(t, func(c *Config) { keepAll(c); c.Latency = Defaults().Latency })
	url := f.URL("/live/film/index.m3u8")
	dir := t.TempDir()
	parts := new(bytes.Buffer)
	player := f.follow("film", func(c *hlscheck.Client) {
		c.Output, c.Delta, c.Hints, c.Timing = parts, true, true, false
	})

	fromFFmpeg, fromGst := filepath.Join(dir, "ffmpeg.mkv"), filepath.Join(dir, "gst.mkv")
	results := make(chan string, 2)
	play := func(file, program string, args ...string) {
		runProgram(t, program, args...)
		results <- file
	}
	publish := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-re", "-i", source, "-c",
		"copy", "-f", "flv",
		"-flvflags", "no_duration_filesize", "-send_expect_100", "1", "-method", "POST",
		f.URL("/live/film"))
	if err := publish.Start(); err != nil {
		t.Fatal(err)
	}
	go play(fromFFmpeg, "ffmpeg", "-v", "error", "-live_start_index", "0", "-i", url, "-c", "copy",
		fromFFmpeg)
	go play(fromGst, gst, "-q", "souphttpsrc", "location="+url, "!", "hlsdemux", "!", "qtdemux",
		"name=d",
		"d.video_0", "!", "queue", "!", "h264parse", "!", "matroskamux", "name=m", "!", "filesink",
		"location="+fromGst)
	if err := publish.Wait(); err != nil {
		t.Errorf("the publisher: %v", err)
	}
	stats := player.end()
	t.Log(stats)
	if stats.Missed > 0 || len(hlscheck.Without(stats.Problems, "bandwidth-low")) > 0 {
		t.Errorf("there are mistakes:\n%v", stats)
	}
	want := decoded(t, source, "v")
	byParts := filepath.Join(dir, "parts.mp4")
	if err := os.WriteFile(byParts, parts.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(who, file string, whole bool) {
		t.Helper()
		got := decoded(t, file, "v")
		first := max(0, slices.Index(want, append(got, "")[0]))
		if whole && first > 0 || len(got) == 0 || !slices.Equal(got, want[first:]) {
			t.Errorf("%s has %d video frames from %d on, and they are not the %d of the source",
				who, len(got), first, len(want))
		}
		t.Logf("%s: %d video frames", who, len(got))
	}
	check("the player of parts", byParts, true)
	for range 2 {
		file := <-results
		check(filepath.Base(file), file, file == fromFFmpeg)
	}
	if got, want := decoded(t, byParts, "a"), decoded(t, source, "a"); !slices.Equal(got, want) {
		t.Errorf("the sound has %d frames, want the source's %d", len(got), len(want))
	}
}

// hevcFilm makes a film with H.265, as FLV tags and as an MP4 file. ffmpeg 5 cannot write H.265 to
// FLV, so the frames are taken from the file.
func hevcFilm(t *testing.T) (film reel, source string) {
	t.Helper()
	need.Program(t, "ffmpeg")
	source = filepath.Join(t.TempDir(), "source.mp4")
	runProgram(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=322x182:rate=25",
		"-t", "6", "-c:v", "libx265",
		"-preset", "ultrafast", "-x265-params", "log-level=none:keyint=25:bframes=0", "-tag:v",
		"hvc1", "-pix_fmt", "yuv420p",
		"-movflags", "empty_moov+default_base_moof+frag_every_frame", source)
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	tag := func(ms int, head string, body []byte) []byte {
		n := len(head) + len(body)
		b := slices.Concat([]byte{videoTag, byte(n >> 16), byte(n >> 8), byte(n), 0, 0, 0, 0, 0, 0,
			0}, []byte(head), body)
		return binary.BigEndian.AppendUint32(withTime(b, ms), uint32(len(b)))
	}
	at := bytes.Index(data, []byte("hvcC"))
	film = reel{tag(0, "\x90hvc1", data[at+4:at-4+int(binary.BigEndian.Uint32(data[at-4:]))])}
	for n, in := 0, data; len(in) >= 8; in = in[binary.BigEndian.Uint32(in):] {
		if string(in[4:8]) != "mdat" {
			continue
		}
		head := "\xa3hvc1" // composition time offset 0
		if n%25 == 0 {
			head = "\x93hvc1"
		}
		film = append(film, tag(40*n, head, in[8:binary.BigEndian.Uint32(in)]))
		n++
	}
	return film, source
}

// H.265 plays, and its video frames are the source's.
func TestHLSOfHEVC(t *testing.T) {
	t.Parallel()
	film, source := hevcFilm(t)
	f := serve(t, keepAll)
	files := &filmFiles{t.TempDir()}
	player := f.follow("film", func(c *hlscheck.Client) { c.Output = files })
	p := f.Publisher("film")
	p.Send(film[:1].bytes(1))
	f.Logged("rendition started")
	p.Send(bytes.Join(film[1:], nil))
	eventually(t, "the codec in the playlist", func() bool {
		list := f.Get("/live/film/index.m3u8").Body
		return strings.Contains(list, `CODECS="hvc1.`) &&
			strings.Contains(list, "RESOLUTION=322x182,FRAME-RATE=25.000")
	})
	p.End()
	stats := player.end()
	if mistakes := hlscheck.Without(stats.Problems, "bandwidth-low", "frame-rate", "hint-broken",
		"hint-cut"); stats.Missed > 0 || len(mistakes) > 0 {
		t.Errorf("there are mistakes:\n%v", stats)
	}
	names := files.names()
	if len(names) != 1 {
		t.Fatal(names)
	}
	if got, want := decoded(t, names[0], "v"), decoded(t, source, "v"); len(want) != 150 ||
		!slices.Equal(got, want) {
		t.Errorf("%d video frames, and they are not the %d of the source", len(got), len(want))
	}
}
