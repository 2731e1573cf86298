package relay

import (
	"context"
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

// What docs/publish.md says about encoders that speak RTMP alone: an ffmpeg that listens for one brings every packet of
// it.
func TestFFmpegBringsRTMP(t *testing.T) {
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	f := serve(t, func(c *Config) { c.ViewerWait = time.Minute })
	source := film(t, "3")
	var wg sync.WaitGroup
	var packets string
	wg.Go(func() { packets = probe(t, f.URL("/live/camera.flv")) })
	f.waiting("camera", 1)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	from := "rtmp://" + unusedAddress(t) + "/live/camera"
	bridge := exec.CommandContext(ctx, "ffmpeg", "-v", "error", "-listen", "1", "-i", from, "-c", "copy", "-f", "flv",
		"-flvflags", "no_duration_filesize", "-send_expect_100", "1", "-method", "POST", f.URL("/live/camera"))
	if err := bridge.Start(); err != nil {
		t.Fatal(err)
	}
	// The first tries may come before the bridge listens. None can be made to look: it takes one connection.
	eventually(t, "the bridge", func() bool {
		return exec.CommandContext(ctx, "ffmpeg", "-v", "quiet", "-i", source, "-c", "copy", "-f", "flv",
			"-flvflags", "no_duration_filesize", from).Run() == nil
	})
	if err := bridge.Wait(); err != nil {
		t.Errorf("the bridge: %v", err)
	}
	wg.Wait()
	if want := probe(t, source); packets != want {
		t.Errorf("the viewer has other packets:\n%s", firstDifference(packets, want))
	}
}

// unusedAddress returns an address without a listener, for a program that can only be told one.
func unusedAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
