package live_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
)

// patient lets viewers wait for programs that start slowly.
func patient(c *live.Config) { c.Latency, c.ViewerWait = defaultLatency, time.Minute }

// url returns the address of a stream.
func (f *rtmpFixture) url(name string) string { return "rtmp://" + f.rtmpAddr + "/live/" + name }

// frames returns ffmpeg's list of the packets of a file or a stream, with times and hashes.
func frames(t *testing.T, url string, args ...string) string {
	t.Helper()
	args = append(append([]string{"-v", "error", "-copyts"}, args...), "-i", url, "-c", "copy",
		"-f", "framemd5", "-")
	return run(t, "ffmpeg", args...)
}

// toRTMP lets ffmpeg publish a file.
func toRTMP(t *testing.T, file, url string, args ...string) {
	t.Helper()
	args = append(append([]string{"-v", "error"}, args...), "-i", file, "-c", "copy", "-f", "flv",
		"-flvflags",
		"no_duration_filesize", url)
	run(t, "ffmpeg", args...)
}

// ffmpeg publishes over RTMP, and viewers of each format get every packet.
func TestFFmpegSpeaksRTMP(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	f := serveRTMP(t, patient)
	source := film(t, "3")
	var wg sync.WaitGroup
	var byRTMP, byHTTP, asMP4 string
	wg.Go(func() { byRTMP = frames(t, f.url("film")) })
	wg.Go(func() { byHTTP = frames(t, f.URL("/live/film.flv")) })
	wg.Go(func() { asMP4 = probe(t, f.URL("/live/film.mp4")) })
	f.waiting("film", 3)
	toRTMP(t, source, f.url("film"))
	wg.Wait()
	want := frames(t, source)
	if byRTMP != want {
		t.Errorf("the viewer of RTMP got other packets:\n%s", firstDifference(byRTMP, want))
	}
	if byHTTP != want {
		t.Errorf("the viewer of FLV got other packets:\n%s", firstDifference(byHTTP, want))
	}
	if want := probe(t, source); asMP4 != want {
		t.Errorf("the viewer of MP4 got other packets:\n%s", firstDifference(asMP4, want))
	}
	f.Logged("publisher ended", "status=200")
}

// A stream published over HTTP reaches rtmpdump, which ends with the stream.
func TestRTMPDumpPlays(t *testing.T) {
	need.Program(t, "ffmpeg")
	need.Program(t, "rtmpdump")
	f := serveRTMP(t, patient)
	source, got := film(t, "3"), filepath.Join(t.TempDir(), "got.flv")
	var wg sync.WaitGroup
	wg.Go(func() { run(t, "rtmpdump", "-q", "--live", "-r", f.url("film"), "-o", got) })
	f.waiting("film", 1)
	run(t, "ffmpeg", "-v", "error", "-i", source, "-c", "copy", "-f", "flv", "-flvflags",
		"no_duration_filesize",
		"-send_expect_100", "1", "-method", "POST", f.URL("/live/film"))
	wg.Wait()
	if got, want := frames(t, got), frames(t, source); got != want {
		t.Errorf("rtmpdump got other packets:\n%s", firstDifference(got, want))
	}
}

// needGStreamer skips the test if GStreamer or one of its elements is not installed.
func needGStreamer(t *testing.T) {
	t.Helper()
	need.Program(t, "gst-launch-1.0")
	inspect := need.Program(t, "gst-inspect-1.0")
	for element, pkg := range map[string]string{"flvmux": "good", "aacparse": "good",
		"rtmp2sink": "bad", "h264parse": "bad"} {
		if exec.Command(inspect, "--exists", element).Run() != nil {
			need.Missing(t, element+" of GStreamer: apt-get install gstreamer1.0-plugins-"+pkg)
		}
	}
}

// GStreamer publishes over RTMP. Its muxer chooses the times, and the packets are those of the
// film.
func TestGStreamerPublishes(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	needGStreamer(t)
	f := serveRTMP(t, patient)
	source := film(t, "3")
	var wg sync.WaitGroup
	var packets string
	wg.Go(func() { packets = probe(t, f.URL("/live/film.flv")) })
	f.waiting("film", 1)
	pipeline := "filesrc location=" + source +
		" ! flvdemux name=in  flvmux name=out streamable=true ! rtmp2sink sync=false location=" + f.url("film") +
		"  in.video ! queue ! h264parse ! out.video  in.audio ! queue ! aacparse ! out.audio"
	run(t, "gst-launch-1.0", append([]string{"-q"}, strings.Fields(pipeline)...)...)
	wg.Wait()
	var media []string // without the metadata, which the muxer repeats
	for _, line := range strings.Split(packets, "\n") {
		if strings.HasPrefix(line, "video") || strings.HasPrefix(line, "audio") {
			media = append(media, line)
		}
	}
	if got, want := strings.Join(media, "\n"), probe(t, source); got != want {
		t.Errorf("the viewer has other packets:\n%s", firstDifference(got, want))
	}
}

// process starts a program that runs until it is killed, at the latest at the end of the test.
func process(t *testing.T, cmd *exec.Cmd) (kill func()) {
	t.Helper()
	var said nettest.LogBook
	if cmd.Stdout == nil {
		cmd.Stdout = &said
	}
	cmd.Stderr = &said
	var guard childproc.Guard
	if err := guard.Start(cmd); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		guard.Release()
	})
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Logf("%s says:\n%s", filepath.Base(cmd.Path), &said)
		}
	})
	return kill
}

// nginxRTMP is a configuration with which nginx pushes its streams to the server, and pulls them
// from the server for its players.
const nginxRTMP = `%[1]s
daemon off;
master_process off;
pid %[2]s/nginx.pid;
error_log stderr warn;
events {}
rtmp {
	access_log off;
	server {
		listen %[3]s;
		application up { live on; push rtmp://%[4]s/live; }
		application down { live on; pull rtmp://%[4]s/live; }
	}
}
`

// nginx pushes a stream to the server, and pulls it from the server.
func TestNginxPushesAndPulls(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	nginx := need.Program(t, "nginx")
	module := need.NginxModule(t, nginx, "rtmp")
	f := serveRTMP(t, patient)
	dir, addr := nettest.PlainDir(t), unusedAddress(t)
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxRTMP, module, dir, addr, f.rtmpAddr),
		0o600); err != nil {
		t.Fatal(err)
	}
	process(t, exec.Command(nginx, "-p", dir, "-e", "stderr", "-c", conf))
	eventually(t, "nginx to listen", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})

	source := film(t, "4")
	var wg sync.WaitGroup
	var got string
	wg.Go(func() { got = frames(t, "rtmp://"+addr+"/down/film", "-t", "1.5") })
	f.waiting("film", 1)
	// nginx does not send the end to its viewer, which reads a part of the stream.
	toRTMP(t, source, "rtmp://"+addr+"/up/film", "-readrate", "2")
	wg.Wait()
	f.Logged("publisher ended", "stream=film")
	known := make(map[string]bool)
	for _, line := range hashes(frames(t, source)) {
		known[line] = true
	}
	lines := hashes(got)
	for i, line := range lines {
		if !known[line] {
			t.Errorf("packet %d is none of the film's: %s", i, line)
		}
	}
	if len(lines) < 60 {
		t.Errorf("%d packets came", len(lines))
	}
}

// hashes returns the track and the hash of each packet in a list of frames.
func hashes(list string) (lines []string) {
	for line := range strings.Lines(list) {
		if fields := strings.Split(strings.TrimSpace(line), ","); len(fields) > 5 {
			lines = append(lines, fields[0]+strings.TrimSpace(fields[5]))
		}
	}
	return lines
}

// obsFiles configure OBS to send an image to the address that replaces ADDRESS, as the stream obs.
var obsFiles = map[string]string{
	"global.ini": "[General]\nFirstRun=true\nEnableAutoUpdates=false\n[Basic]\nProfile=P\nProfileDir=P\nSceneCollection=C\n" +
		"SceneCollectionFile=C\n[BasicWindow]\nWarnBeforeStartingStream=false\n",
	"basic/profiles/P/basic.ini": "[General]\nName=P\n[Video]\nBaseCX=320\nBaseCY=240\nOutputCX=320\nOutputCY=240\nFPSCommon=30\n" +
		"[Output]\nMode=Simple\n[SimpleOutput]\nStreamEncoder=x264\nVBitrate=300\nABitrate=64\nPreset=ultrafast\n",
	"basic/profiles/P/service.json": `{"type":"rtmp_custom","settings":{"server":"rtmp://ADDRESS/live","key":"obs","use_auth":false}}`,
	"basic/scenes/C.json": `{"name":"C","current_scene":"Scene","current_program_scene":"Scene","scene_order":[{"name":"Scene"}],"sources":[
		{"id":"scene","name":"Scene","settings":{"id_counter":1,"items":[{"name":"Color","id":1,"visible":true}]}},
		{"id":"color_source","versioned_id":"color_source_v3","name":"Color","settings":{"color":4278255360,"width":320,"height":240}}]}`,
}

// OBS publishes, is killed and returns. A viewer that stays can decode everything, and no time goes
// back.
func TestOBSPublishes(t *testing.T) {
	if testing.Short() {
		t.Skip("OBS takes long to start")
	}
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	obs, xvfb := need.Program(t, "obs"), need.Program(t, "Xvfb")
	f := serveRTMP(t, func(c *live.Config) {
		patient(c)
		c.PublisherReturn = time.Minute
	})
	home := nettest.PlainDir(t)
	for name, text := range obsFiles {
		name = filepath.Join(home, ".config/obs-studio", name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(text, "ADDRESS", f.rtmpAddr)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	display := startXvfb(t, xvfb)
	start := func() (kill func()) {
		// OBS would know from this file that it was killed.
		_ = os.RemoveAll(filepath.Join(home, ".config/obs-studio/.sentinel"))
		cmd := exec.Command(obs, "--startstreaming", "--minimize-to-tray", "--multi", "--profile",
			"P", "--collection", "C")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home,
			"XDG_RUNTIME_DIR=" + home, "DISPLAY=" + display,
			"LIBGL_ALWAYS_SOFTWARE=1", "QT_QPA_PLATFORM=xcb", "LC_ALL=C.UTF-8"}
		return process(t, cmd)
	}
	// OBS may take longer to start than the usual time limit of tests.
	comes := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited in vain: %s", what)
			}
		}
	}
	kill := start()
	var st *live.Stream
	comes("OBS publishes", func() bool {
		st = f.LookUp("obs")
		return st != nil && st.Forms().Stats().PublishedFrames > 100
	})
	file := filepath.Join(t.TempDir(), "obs.flv")
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := os.WriteFile(file, []byte(f.Get("/live/obs.flv").Body), 0o600); err != nil {
			t.Error(err)
		}
	})
	f.viewers(1)
	if out := run(t, "ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height",
		"-of", "csv=p=0", f.url("obs")); !strings.Contains(out, "h264,320,240") ||
		!strings.Contains(out, "aac") {
		t.Errorf("the stream of OBS has %q", out)
	}
	kill()
	f.waits("obs")
	before := st.Forms().Stats().PublishedFrames
	kill = start()
	comes("OBS comes back", func() bool { return st.Forms().Stats().PublishedFrames > before+200 })
	if n := st.Returns(); n != 1 {
		t.Errorf("OBS has come back %d times", n)
	}
	kill()
	f.waits("obs")
	f.stop()
	wg.Wait()
	// The file can be decoded without an error.
	run(t, "ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames",
		file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkTracks(t, cut(t, data[13:]))
}

// checkTracks checks that the times of each track do not go back.
func checkTracks(t *testing.T, tags [][]byte) {
	t.Helper()
	last := make(map[byte]uint32)
	for i, tag := range tags {
		if at := timeOf(tag); tag[12] == 1 {
			if at < last[tag[0]] {
				t.Errorf("tag %d of type %d is at %d ms, after %d ms", i, tag[0], at, last[tag[0]])
			}
			last[tag[0]] = at
		}
	}
	if len(last) != 2 {
		t.Errorf("%v tracks, want audio and video", last)
	}
}

// startXvfb starts an X server without a screen, and returns its display.
func startXvfb(t *testing.T, xvfb string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(xvfb, "-displayfd", "3", "-screen", "0", "800x600x24", "-nolisten", "tcp")
	cmd.ExtraFiles = []*os.File{w}
	process(t, cmd)
	_ = w.Close()
	_ = r.SetReadDeadline(time.Now().Add(testTimeout))
	var line bytes.Buffer
	for p := make([]byte, 16); !strings.HasSuffix(line.String(), "\n"); {
		n, err := r.Read(p)
		if err != nil {
			t.Fatalf("Xvfb does not start: %v", err)
		}
		line.Write(p[:n])
	}
	return ":" + strings.TrimSpace(line.String())
}

// unusedAddress returns an address without a listener, for a program that must be given a fixed
// one.
func unusedAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
