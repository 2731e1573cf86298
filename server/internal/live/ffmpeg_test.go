package live_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
)

// run runs a program to its end. The program must print nothing to stderr.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("%s %s failed or complained: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return stdout.String()
}

// film makes an FLV file of the given duration with a keyframe each second, B-frames and audio.
func film(t *testing.T, seconds string) string {
	t.Helper()
	path := filepath.Join(nettest.PlainDir(t), "film.flv")
	run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-f",
		"lavfi", "-i", "sine=frequency=440:sample_rate=44100",
		"-t", seconds, "-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-g", "25",
		"-sc_threshold", "0", "-pix_fmt", "yuv420p", "-b:v", "800k",
		"-c:a", "aac", "-b:a", "96k", "-flvflags", "no_duration_filesize", path)
	return path
}

// ffmpeg publishes in real time. Three ffmpegs watch from the start and get every packet. A late
// one decodes without an error, starting at a keyframe. ffprobe gets every packet from the MP4.
func TestFFmpeg(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	f := serve(t, func(c *live.Config) { c.Latency = 50 * time.Millisecond })
	source, dir := film(t, "15"), t.TempDir() // long enough for a late viewer on a busy machine
	url := f.URL("/live/film")

	var wg sync.WaitGroup
	frames := make([]string, 3)
	for i := range frames {
		wg.Go(func() {
			frames[i] = run(t, "ffmpeg", "-v", "error", "-i", url+".flv", "-c", "copy", "-f",
				"framemd5", "-")
		})
	}
	var packets string
	wg.Go(func() { packets = probe(t, url+".mp4") })
	f.waiting("film", 4)

	wg.Go(func() {
		run(t, "ffmpeg", "-v", "error", "-re", "-i", source, "-c", "copy", "-f", "flv", "-flvflags",
			"no_duration_filesize",
			"-send_expect_100", "1", "-method", "POST", url)
	})
	st := f.stream("film")
	eventually(t, "two seconds of film", func() bool {
		return time.Since(st.Started()) > 2*time.Second
	})
	late := filepath.Join(dir, "late.flv")
	run(t, "ffmpeg", "-v", "error", "-i", url, "-c", "copy", "-flvflags", "no_duration_filesize",
		late, "-f", "null", "-")
	wg.Wait()

	want := run(t, "ffmpeg", "-v", "error", "-i", source, "-c", "copy", "-f", "framemd5", "-")
	for i, got := range frames {
		if got != want {
			t.Errorf("viewer %d got other frames:\n%s", i, firstDifference(got, want))
		}
	}
	if want := probe(t, source); packets != want {
		t.Errorf("the MP4 has other packets:\n%s", firstDifference(packets, want))
	}
	first := run(t, "ffprobe", "-v", "error", "-select_streams", "v", "-show_entries",
		"packet=flags", "-of", "csv=p=0", "-read_intervals", "%+#1", late)
	if !strings.HasPrefix(first, "K") {
		t.Errorf("the late viewer starts at a picture with flags %q, want K", first)
	}
	if n := strings.Count(run(t, "ffprobe", "-v", "error", "-show_entries", "packet=size", "-of",
		"csv=p=0", late), "\n"); n < 50 {
		t.Errorf("the late viewer got %d packets", n)
	}
}

// probe lists the hashes of a file's packets, video first.
func probe(t *testing.T, url string) string {
	t.Helper()
	out := run(t, "ffprobe", "-v", "warning", "-show_packets", "-show_data_hash", "md5",
		"-show_entries", "packet=codec_type,data_hash", "-of", "csv=p=0", url)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.SortStableFunc(lines, func(a, b string) int { return -strings.Compare(a[:5], b[:5]) })
	return strings.Join(lines, "\n")
}

// stream waits for a stream to exist.
func (f *fixture) stream(name string) (st *live.Stream) {
	f.T.Helper()
	eventually(f.T, "the stream "+name, func() bool {
		st = f.LookUp(name)
		return st != nil
	})
	return st
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return "got  " + g[i] + "\nwant " + w[i]
		}
	}
	return "one ends earlier: " + strings.Join([]string{g[len(g)-1], w[len(w)-1]}, "\n")
}

// An ffmpeg that publishes is killed, and another one publishes the same film from its start.
// Earlier viewers can decode everything, and time never goes back.
func TestFFmpegIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	f := serve(t, func(c *live.Config) {
		c.Latency, c.PublisherReturn, c.ViewerWait = defaultLatency, time.Minute, time.Minute
	})
	source, dir := film(t, "4"), t.TempDir()
	url := f.URL("/live/film")
	var wg sync.WaitGroup
	files := []string{filepath.Join(dir, "view.flv"), filepath.Join(dir, "view.mp4")}
	for _, file := range files {
		wg.Go(func() {
			if err := os.WriteFile(file, []byte(f.Get("/live/film"+filepath.Ext(file)).Body),
				0o600); err != nil {
				t.Error(err)
			}
		})
	}
	f.waiting("film", len(files))

	publish := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "ffmpeg", "-v", "quiet", "-re", "-i", source, "-c",
			"copy", "-f", "flv",
			"-flvflags", "no_duration_filesize", "-send_expect_100", "1", "-method", "POST", url)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first := publish()
	st := f.stream("film")
	eventually(t, "a second of film", func() bool { return st.Forms().Stats().PublishedFrames > 60 })
	_ = first.Process.Kill()
	_ = first.Wait()
	f.waits("film")
	before := st.Forms().Stats().PublishedFrames
	if err := publish().Wait(); err != nil {
		t.Errorf("the second publisher: %v", err)
	}
	eventually(t, "the end of what it has sent", func() bool {
		return strings.Count(f.Log.String(), "publisher ended") == 2
	})
	f.stop()
	wg.Wait()

	packets := strings.Count(probe(t, source), "\n") + 1
	for _, file := range files {
		// The file can be decoded without an error.
		run(t, "ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames",
			file)
		for _, track := range []string{"v", "a"} {
			last := -1.0
			out := run(t, "ffprobe", "-v", "error", "-select_streams", track, "-show_entries",
				"packet=dts_time", "-of", "csv=p=0", file)
			for line := range strings.Lines(out) {
				at, err := strconv.ParseFloat(strings.Trim(line, ",\n"), 64)
				if err != nil || at < last {
					t.Errorf("%s, track %s: a packet at %q after %v", filepath.Base(file), track,
						line, last)
				}
				last = at
			}
		}
		if n := strings.Count(probe(t, file), "\n") + 1; n < packets+int(before)/2 {
			t.Errorf("%s has %d packets: %d of the first publisher and %d of the second were sent",
				filepath.Base(file), n, before, packets)
		}
	}
}
