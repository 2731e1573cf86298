package live_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live"
)

// An RTMP publisher is disconnected at any moment and returns over either protocol. Viewers of each
// format stay, no clock goes back, and video resumes at a keyframe.
func TestAnRTMPPublisherComesBack(t *testing.T) {
	cuts := map[string]string{
		"between messages": "",
		"in a header":      "\x06\x00\x00",
		"in a chunk":       "\x06\x00\x00\xf0\x00\x10\x00\x09\x01\x00\x00\x00\x27\x01\x00\x00\x00pict",
	}
	for moment, part := range cuts {
		for _, by := range []string{"RTMP", "HTTP"} {
			t.Run(moment+", by "+by, func(t *testing.T) {
				t.Parallel()
				f := serveRTMP(t, func(c *live.Config) { c.PublisherReturn = testTimeout })
				sc := newScript(2, 3, 5000)
				var watching sync.WaitGroup
				var byFLV, byRTMP [][]byte
				var byMP4 []byte
				watching.Go(func() { byFLV = cut(t, f.Watcher("/live/cam.flv", 0).Rest()[13:]) })
				watching.Go(func() { byRTMP, _ = f.playRTMP("cam", 0).Rest() })
				watching.Go(func() { byMP4 = f.Watcher("/live/cam.mp4", 0).Rest() })
				f.waiting("cam", 3)

				first := f.publishRTMP("cam", 4096)
				_ = first.SendTags(slices.Concat(sc.config, sc.tags)...)
				_, _ = first.Conn.Write([]byte(part))
				_ = first.Conn.Close()
				f.Logged("stream waits for its publisher")
				if by == "RTMP" {
					second := f.publishRTMP("cam", 0)
					_ = second.SendTags(slices.Concat(sc.config, sc.tags)...)
					unpublish(t, second)
				} else {
					second := f.Publisher("cam")
					second.Send(sc.whole())
					second.End()
				}
				watching.Wait()

				wantTags(t, "RTMP beside FLV", byRTMP, byFLV)
				if n, want := len(byFLV), len(sc.config)+2*len(sc.tags); n != want {
					t.Fatalf("%d tags, want %d: headers that have not changed once, and all else twice", n, want)
				}
				for i := 1; i < len(byFLV); i++ {
					if timeOf(byFLV[i]) < timeOf(byFLV[i-1]) {
						t.Errorf("the clock goes from %d back to %d", timeOf(byFLV[i-1]),
							timeOf(byFLV[i]))
					}
				}
				again := byFLV[len(sc.config)+len(sc.tags):]
				for i, tag := range again {
					if !bytes.Equal(tag[11:], sc.tags[i][11:]) {
						t.Fatalf("tag %d after the return is another one", i)
					}
				}
				if again[0][0] != byte(flv.TypeVideo) || again[0][11]>>4 != 1 {
					t.Error("what comes first is no keyframe")
				}
				if n := len(stretches(t, byMP4)); n == 0 {
					t.Error("nothing came as MP4")
				}
			})
		}
	}
}
