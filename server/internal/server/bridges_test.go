package server

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A source that speaks SRT or RTSP is published with the commands of docs/bridges.md.
func TestBridges(t *testing.T) {
	need.Program(t, "ffmpeg")
	need.Program(t, "gst-launch-1.0")
	commands := regexp.MustCompile(`(?m)^(?:ffmpeg|gst-launch-1.0) .*127\.0\.0\.1/live/cam.*$`).
		FindAllString(userPage(t, "bridges.md"), -1)
	if len(commands) != 3 {
		t.Fatalf("the page has %d commands, want 3: %q", len(commands), commands)
	}
	python := need.Python(t, "from gi.repository import GstRtspServer",
		"python3-gi gir1.2-gst-rtsp-server-1.0 gstreamer1.0-plugins-good")
	film := filepath.Join(t.TempDir(), "film.mp4")
	runProgram(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25",
		"-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100", "-t", "30",
		"-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-g", "50", "-pix_fmt", "yuv420p",
		"-b:v", "800k", "-c:a", "aac", film)
	for i, command := range commands {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			f := serveRTMP(t, nil)
			port := strconv.Itoa(nettest.FreePort(t))
			run := background(t)
			if strings.Contains(command, "srt:") {
				run("ffmpeg", "-v", "error", "-re", "-i", film, "-c", "copy", "-f", "mpegts",
					"srt://127.0.0.1:"+port)
			} else {
				run(python, "testdata/camera.py", port, film)
			}
			command := strings.NewReplacer("0.0.0.0:9000", "127.0.0.1:"+port, "CAMERA/PATH",
				"127.0.0.1:"+port+"/cam", "rtmp://127.0.0.1/", "rtmp://"+f.rtmp+"/").Replace(command)
			run("sh", "-c", "exec "+command)
			w := f.Watcher("/live/cam.flv", 0)
			if got := w.Next(100_000); len(got) != 100_000 {
				t.Errorf("a viewer gets %d bytes, want 100,000", len(got))
			}
		})
	}
}

// background returns a function that runs a program, again and again, until the test has ended.
func background(t *testing.T) (run func(name string, args ...string)) {
	ctx, stop := context.WithCancel(context.Background())
	var programs sync.WaitGroup
	var log nettest.LogBook
	t.Cleanup(func() {
		stop()
		programs.Wait()
		if t.Failed() {
			t.Logf("the programs' logs:\n%s", &log)
		}
	})
	return func(name string, args ...string) {
		programs.Go(func() {
			for ctx.Err() == nil {
				cmd := exec.CommandContext(ctx, name, args...)
				cmd.Stdout, cmd.Stderr = &log, &log
				if err := cmd.Run(); err != nil {
					_, _ = fmt.Fprintln(&log, name, err)
				}
				sleep.For(ctx, 200*time.Millisecond)
			}
		})
	}
}
