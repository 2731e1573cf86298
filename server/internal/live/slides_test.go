package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// A memoryRecorder records the fragments of a stream.
type memoryRecorder struct {
	inits []mp4.Movie
	first []mp4.FragmentInfo // the first fragment after each init segment
	all   []byte
}

func (r *memoryRecorder) Init(body *millrace.Chain) {
	movie, err := mp4.ReadMovie(body.Bytes())
	if err != nil {
		panic(err)
	}
	r.inits = append(r.inits, movie)
	body.Release()
}

func (r *memoryRecorder) Add(f mp4.FragmentInfo, body *millrace.Chain) {
	if len(r.first) < len(r.inits) {
		r.first = append(r.first, f)
	}
	r.all = append(r.all, body.Bytes()...)
	body.Release()
}

func (r *memoryRecorder) Close() {}

// The audio before the first video frame is in MP4 and in recordings, however long that frame
// lasts.
func TestAudioBeforeTheFirstSlideLeaves(t *testing.T) {
	const aac = 1024 / 44.1
	late := func(kind flv.Type) func(*timedFrame, int) {
		return func(f *timedFrame, _ int) {
			if f.kind == kind {
				f.at += 1000
			}
		}
	}
	for name, s := range map[string]source{
		"25 frames a second":                  {every(40), 50, aac, nil, 0},
		"a frame in 0.4 s":                    {every(400), 5, aac, nil, 0},
		"a slide in 2 s":                      {every(2000), 1, aac, nil, 0},
		"in 10 s":                             {every(10_000), 1, aac, nil, 0},
		"in 10 s, every third one a keyframe": {every(10_000), 3, aac, nil, 0},
		"a slide, and then 25 frames a second": {func(i int) float64 {
			return []float64{5000, 40}[min(i, 1)]
		}, 50, aac, nil, 0},
		"in 5 s, and the audio comes a second late": {every(5000), 1, aac, late(flv.TypeAudio), 0},
		"in 5 s, and the video comes a second late": {every(5000), 1, aac, late(flv.TypeVideo), 0},
		"in 5 s, without audio":                     {every(5000), 1, 0, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &memoryRecorder{}
				h := newHubTest(t, func(c *live.Config) {
					c.PublisherReturn = 0
					c.Record = func(string) live.Recorder { return rec }
				})
				p := h.open()
				p.Begin(flv.Header{HasAudio: s.audio > 0, HasVideo: true})
				h.send(p, avcHeader())
				if s.audio > 0 {
					h.send(p, flvTag(flv.TypeAudio, 0, []byte("\xaf\x00\x12\x10")))
				}
				v, err := live.NewAdmission(h.Hub).Admit(t.Context(),
					live.WatchRequest{Name: "cam", Format: rendition.MP4})
				if err != nil {
					t.Fatal(err)
				}
				defer v.Decline()
				start, sent := time.Now(), map[flv.Type]int{}
				for _, f := range s.frames(40_000) {
					time.Sleep(time.Until(start.Add(time.Duration(f.at * 1e6))))
					head := []byte{0xaf, 1}
					if f.kind == flv.TypeVideo {
						head = []byte{0x27, 1, 0, 0, 0}
						if f.key {
							head[0] = 0x17
						}
					}
					h.send(p, flvTag(f.kind, uint32(f.ts),
						append(head, unit(make([]byte, 100))...)))
					sent[f.kind]++
				}
				h.done(p, nil)
				synctest.Wait()
				h.AwaitRecorders()
				if len(rec.inits) != 1 || !rec.first[0].Key {
					t.Fatalf("%d init segments, then %+v", len(rec.inits), rec.first)
				}
				var c millrace.Chain
				defer c.Release()
				for err == nil {
					_, err = v.Start().Cursor.Take(&c)
				}
				for what, file := range map[string][]byte{"recording": rec.all, "MP4": c.Bytes()} {
					got := map[flv.Type]int{}
					list := stretches(t, file)
					contiguous(t, list)
					for _, stretch := range list {
						got[[]flv.Type{1: flv.TypeVideo,
							2: flv.TypeAudio}[stretch.track]] += stretch.samples
					}
					for kind, n := range sent {
						if got[kind] != n {
							t.Errorf("the %s has %d frames of %v, want %d", what, got[kind], kind,
								n)
						}
					}
				}
				h.Close()
			})
		})
	}
}
