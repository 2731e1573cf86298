package live_test

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A sequence header in the middle of a GOP ends the MP4 once. The next MP4 begins at the next
// keyframe, and not before the sequence header, where it would end again.
func TestHLSCodecsChangeInAGroup(t *testing.T) {
	sound48 := flvTag(8, 0, []byte("\xaf\x00\x11\x90"))
	for _, tt := range []struct {
		name    string
		change  int // the tag before which the sequence header comes
		changes int
		ends    bool // the stream ends before the next keyframe
		want    int
	}{
		{"in the middle", 170, 1, false, 1},
		{"in front of a keyframe", 200, 1, false, 1},
		{"behind a keyframe", 201, 1, false, 1},
		{"there and back", 170, 2, false, 1},
		{"twenty times", 165, 20, false, 1},
		{"at the end of the stream", 170, 1, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				book := &nettest.LogBook{}
				h := newHubTest(t, func(c *live.Config) {
					c.HLS, c.PublisherReturn = hlsDefaults, 0
					c.Log = slog.New(slog.NewTextHandler(book,
						&slog.HandlerOptions{Level: slog.LevelDebug}))
				})
				sc := newScript(30, 25, 1000) // GOPs of one second
				p := h.publish(sc.config...)
				h.pace(p, sc.tags[:150])
				if _, err := h.playlist(hls.Reload{}, false); err != nil {
					t.Fatal(err)
				}
				h.pace(p, sc.tags[150:tt.change])
				at := tt.change
				for i := range tt.changes {
					header := sound48
					if i%2 == 1 {
						header = sc.config[2]
					}
					h.send(p, header)
					h.pace(p, sc.tags[at:at+1])
					at++
				}
				if tt.ends {
					h.done(p, nil)
				} else {
					h.pace(p, sc.tags[at:400])
				}
				synctest.Wait()
				list, err := h.playlist(hls.Reload{}, false)
				if err != nil {
					t.Fatal(err)
				}
				if n := strings.Count(list, "EXT-X-DISCONTINUITY\n"); n > 1 || n < tt.want {
					t.Errorf("%d discontinuities, want 1 at most\n%s", n, list)
				}
				if n := strings.Count(book.String(), "rendition started"); n > 2 {
					t.Errorf("MP4 was started %d times", n)
				}
				h.Close()
				if !tt.ends {
					h.done(p, nil)
				}
			})
		})
	}
}

// A recording has all frames around a change of the codecs, even if a publisher sends the whole
// stream at once. If the audio changes within a GOP, the frames up to the next keyframe are left out
// and counted.
func TestRecordingFollowsCodecChanges(t *testing.T) {
	headers := [][]byte{flvTag(8, 0, []byte("\xaf\x00\x11\x90")),
		flvTag(8, 0, []byte("\xaf\x00\x12\x10"))}
	for _, tt := range []struct {
		name    string
		changes int
		offset  int // number of tags from a keyframe to the change
		left    int // number of frames that are left out
	}{
		{"once", 1, 0, 0},
		{"in every GOP", 5, 0, 0},
		{"within GOPs", 3, 4, 3 * 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &memoryRecorder{}
				h := newHubTest(t, func(c *live.Config) {
					c.PublisherReturn, c.HLS = 0, hlsDefaults
					c.Record = func(string) live.Recorder { return rec }
				})
				sc := newScript(8, 5, 100) // GOPs of 10 tags
				all := slices.Clone(sc.config)
				for i, tag := range sc.tags {
					if n := (i - tt.offset) / 10; n >= 1 && n <= tt.changes && i%10 == tt.offset {
						all = append(all, headers[(n-1)%2])
					}
					all = append(all, tag)
				}
				p := h.publish(all...)
				h.done(p, nil)
				synctest.Wait()
				h.AwaitRecorders()
				if len(rec.inits) != 1+tt.changes {
					t.Errorf("%d files, want %d", len(rec.inits), 1+tt.changes)
				}
				samples := 0
				for _, stretch := range stretches(t, rec.all) {
					samples += stretch.samples
				}
				if want := len(sc.tags) - tt.left; samples != want {
					t.Errorf("%d frames are recorded, want %d", samples, want)
				}
				if n := h.Stats().Unstarted; n != int64(tt.left) {
					t.Errorf("%d frames counted, want %d", n, tt.left)
				}
				h.Close()
			})
		})
	}
}

// The audio changes within a GOP, and then the video stops. The recording continues with the audio
// as soon as it would without the change.
func TestRecordingFollowsAudioWithoutVideo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &memoryRecorder{}
		h := newHubTest(t, func(c *live.Config) {
			c.PublisherReturn = 0
			c.Record = func(string) live.Recorder { return rec }
		})
		sc := newScript(4, 25, 100) // GOPs of one second
		p := h.publish(sc.config...)
		h.pace(p, sc.tags[:170])
		at := uint32(3400)
		h.send(p, flvTag(8, at, []byte("\xaf\x00\x11\x90")))
		for range 15 * 50 {
			at += 20
			time.Sleep(20 * time.Millisecond)
			h.send(p, flvTag(8, at, append([]byte{0xaf, 1}, make([]byte, 100)...)))
		}
		h.done(p, nil)
		synctest.Wait()
		h.AwaitRecorders()
		if len(rec.inits) != 2 || rec.first[1].First > 14*time.Second {
			t.Errorf("%d files, the last from %v, want 2 from about 13.4 s", len(rec.inits),
				rec.first[len(rec.first)-1].First)
		}
		h.Close()
	})
}

// The numbers of a name grow, even if a publisher fills segments faster than its clock says, and
// the next publisher connects at once.
func TestHLSNumbersGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
		sc := newScript(60, 25, 300)
		p := h.publish(append(sc.config, sc.tags[:100]...)...)
		if _, err := h.playlist(hls.Reload{}, false); err != nil {
			t.Fatal(err)
		}
		h.send(p, sc.tags[100:]...)
		synctest.Wait()
		before, err := h.playlist(hls.Reload{}, false)
		if err != nil {
			t.Fatal(err)
		}
		h.done(p, nil)
		synctest.Wait()
		p = h.publish(append(sc.config, sc.tags[:200]...)...)
		after, err := h.playlist(hls.Reload{}, false)
		if err != nil {
			t.Fatal(err)
		}
		number := regexp.MustCompile(`#EXT-X-DISCONTINUITY-SEQUENCE:(\d+)`)
		// Numbers with the same number of digits are compared as text.
		if a, b := number.FindString(before), number.FindString(after); a >= b {
			t.Errorf("%s, and later %s", a, b)
		}
		if a, b := hint(t, before), hint(t, after); b.MSN <= a.MSN+1 || b.Epoch <= a.Epoch {
			t.Errorf("%s, and later %s", a, b)
		}
		h.Close()
		h.done(p, nil)
	})
}

// Requests arrive all the time while streams of one name begin and end.
func TestHLSRequestsWhileStreamsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
		sc := newScript(6, 25, 300)
		stop := make(chan struct{})
		var asking sync.WaitGroup
		var mu sync.Mutex
		newest := hls.Object{}
		for i := range 8 {
			asking.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(3+i) * time.Millisecond):
					}
					list, err := h.playlist(hls.Reload{}, false)
					if err != nil || !strings.Contains(list, "PRELOAD-HINT") {
						continue
					}
					o := hint(t, list)
					mu.Lock()
					if o.Epoch > newest.Epoch && o.MSN < newest.MSN {
						t.Errorf("%s comes after %s", o, newest)
					}
					if o.Epoch > newest.Epoch || o.Epoch == newest.Epoch && o.MSN > newest.MSN {
						newest = o
					}
					mu.Unlock()
					var c millrace.Chain
					_ = live.NewHLS(h.Hub).Object(t.Context(), "cam", o, &c)
					c.Release()
					_, _ = live.NewHLS(h.Hub).Master(t.Context(), "cam")
				}
			})
		}
		for i := range 6 {
			p := h.publish(sc.config...)
			if i%2 == 1 {
				h.send(p, sc.tags...) // much faster than its clock
			} else {
				h.pace(p, sc.tags)
			}
			h.done(p, nil)
			time.Sleep(time.Duration(i) * 700 * time.Millisecond)
		}
		close(stop)
		asking.Wait()
		h.Close()
		synctest.Wait()
		if n, _ := h.Windows(); n != 0 {
			t.Errorf("%d windows of a hub that has ended", n)
		}
		if fmt.Sprint(h.Stats().HLS.Waiting) != "0" {
			t.Error("requests wait")
		}
	})
}

// Segments of a name have greater numbers than earlier ones, also after a stream that was faster
// than its clock, and after a stream that ended before it had a playlist.
func TestHLSNumbersAfterAFastStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, func(c *live.Config) { c.HLS, c.PublisherReturn = hlsDefaults, 0 })
		sc := newScript(20, 25, 300)
		number := func() uint64 {
			t.Helper()
			list, err := h.playlist(hls.Reload{}, false)
			if err != nil {
				t.Fatal(err)
			}
			return hint(t, list).MSN
		}
		p := h.publish(sc.config...)
		asked := make(chan error)
		ask := func() { _, err := h.playlist(hls.Reload{}, false); asked <- err }
		go ask()
		synctest.Wait()
		h.send(p, sc.tags...)
		if err := <-asked; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := number()
		h.done(p, nil)
		synctest.Wait()

		p = h.publish(sc.config...)
		go ask()
		synctest.Wait()
		h.done(p, nil)
		if err := <-asked; err == nil {
			t.Error("a stream without frames has a playlist")
		}

		p = h.publish(sc.config...)
		go ask()
		synctest.Wait()
		h.send(p, sc.tags...)
		if err := <-asked; err != nil {
			t.Fatal(err)
		}
		if after := number(); after <= before {
			t.Errorf("segment %d comes after %d", after, before)
		}
		h.done(p, nil)
		h.Close()
		synctest.Wait()
	})
}

// While the publisher is away or silent, requests are answered within three target durations after
// the last part, and later requests after one or two.
func TestHLSAnswersWhileStreamPauses(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHubTest(t, func(c *live.Config) {
				c.HLS, c.PublisherReturn = hlsDefaults, 15*time.Second
			})
			defer h.Close()
			sc := newScript(60, 50, 300)
			p := h.publish(sc.config...)
			h.pace(p, sc.tags[:550])
			_, _ = h.playlist(hls.Reload{}, false) // the first request
			h.pace(p, sc.tags[550:600])
			if cut {
				h.done(p, errors.New("cut"))
			}
			silence := time.Now()
			time.Sleep(time.Second) // the waiting fragments arrive
			list, err := h.playlist(hls.Reload{}, false)
			if err != nil {
				t.Fatal(err)
			}
			target, next := 2*time.Second, hint(t, list)
			media := func(want hls.Reload) *hlslive.Playlist {
				t.Helper()
				list, err := live.NewHLS(h.Hub).Media(t.Context(), "cam", hlslive.MediaName, want,
					true)
				if err != nil {
					t.Fatal(err)
				}
				return list
			}
			segment, part := hls.Reload{MSN: next.MSN, Part: -1},
				hls.Reload{MSN: next.MSN, Part: next.Part}
			answered := make(chan time.Duration, 1)
			go func() {
				var c millrace.Chain
				defer c.Release()
				err := live.NewHLS(h.Hub).Object(t.Context(), "cam", next, &c)
				var refused *refuse.Refusal
				if !errors.As(err, &refused) || refused.Status != 503 || refused.RetryAfter == 0 {
					t.Errorf("a part that does not come: %v", err)
				}
				answered <- time.Since(silence)
			}()
			got := media(segment)
			if !got.Late || strings.Contains(string(got.Text), "ENDLIST") {
				t.Errorf("late %v, want a late playlist without an end\n%s", got.Late, got.Text)
			}
			if took := max(time.Since(silence), <-answered); took > 3*target {
				t.Errorf("answered after %v, want at most %v", took, 3*target)
			}
			for range 2 {
				asked := time.Now()
				if got := media(part); !got.Late || time.Since(asked) > 2*target ||
					time.Since(asked) < target {
					t.Errorf("asked again: late %v after %v", got.Late, time.Since(asked))
				}
			}
			if cut {
				p = h.publish(sc.config...)
			}
			paced := make(chan struct{})
			go func() {
				defer close(paced)
				h.pace(p, sc.tags[600:1200])
			}()
			if got := media(part); got.Late {
				t.Errorf("the publisher is back, and the playlist is late:\n%s", got.Text)
			}
			<-paced
			h.done(p, nil)
		})
	}
}
