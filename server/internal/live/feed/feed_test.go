package feed

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A testTag is a tag of a publisher, or a tag that a viewer got.
type testTag struct {
	kind flv.Type
	at   uint32
	body string
}

func (t testTag) isHeader() bool { return t.body[1] == 0 }

var (
	avcHeader = testTag{flv.TypeVideo, 0, "\x17\x00\x00\x00\x00\x01\x42\x00\x1e\xff"}
	aacHeader = testTag{flv.TypeAudio, 0, "\xaf\x00\x12\x10"}
)

// A fixture is the feed of a stream and a viewer that joined before the stream.
type fixture struct {
	*Feed
	t    *testing.T
	set  *rendition.Set
	view *broadcast.Cursor
	enc  flv.Encoder
	now  int64
}

func newFixture(t *testing.T) *fixture {
	memory, log := millrace.DefaultPool().Account(), slog.New(slog.DiscardHandler)
	cfg := &rendition.Config{KeepBytes: 1 << 20, KeepFrames: 1 << 10, MaxTag: 1 << 20,
		Counters: &rendition.Counters{}}
	set := rendition.New(cfg, log, memory, rendition.FLV,
		[]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"))
	_, start := set.Join(rendition.FLV, false)
	f := &fixture{Feed: New(set, log, memory), t: t, set: set, view: start.Cursor}
	t.Cleanup(func() {
		f.enc.Release()
		f.Release()
		f.view.Close()
		set.Close()
	})
	return f
}

// write writes tags to the feed, in real time.
func (f *fixture) write(tags ...testTag) {
	f.t.Helper()
	for _, tag := range tags {
		var body, c millrace.Chain
		body.AppendCopy([]byte(tag.body))
		header, err := f.enc.Append(&c, tag.kind, tag.at, &body)
		if err == nil {
			f.now += 20e6
			err = f.Write(header, &c, f.now)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// got returns the tags that the viewer has got since the last call.
func (f *fixture) got() (list []testTag) {
	f.t.Helper()
	for {
		var c millrace.Chain
		b, err := f.view.Take(&c)
		if err != nil {
			f.t.Fatal(err)
		}
		if b.Missed.Why != broadcast.NotMissed {
			f.t.Fatalf("the viewer missed %v", b.Missed)
		}
		p := bytes.Clone(c.Bytes())
		c.Release()
		if len(p) == 0 {
			return list
		}
		for len(p) > 0 {
			n := int(p[1])<<16 | int(p[2])<<8 | int(p[3])
			at := uint32(p[7])<<24 | uint32(p[4])<<16 | uint32(p[5])<<8 | uint32(p[6])
			list, p = append(list, testTag{flv.Type(p[0]), at, string(p[11 : 11+n])}), p[15+n:]
		}
	}
}

// frames returns the tags that are not headers.
func frames(tags []testTag) []testTag {
	return slices.DeleteFunc(slices.Clone(tags), testTag.isHeader)
}

// film returns GOPs of three video frames with audio in between. No two frames are equal. keys has
// the index of each keyframe.
func film(gops int) (tags []testTag, keys []int) {
	for i := range 3 * gops {
		kind, at := "\x27", uint32(40*i)
		if i%3 == 0 {
			kind = "\x17"
			keys = append(keys, len(tags))
		}
		tags = append(tags,
			testTag{flv.TypeVideo, at, fmt.Sprintf("%s\x01\x00\x00\x00video %d", kind, i)},
			testTag{flv.TypeAudio, at + 10, fmt.Sprintf("\xaf\x01audio %d", i)})
	}
	return tags, keys
}

// A pull may be cut after any frame. The next one begins with the owner's newest GOP, and viewers
// get each frame once. In between, this node may have refused a publisher before its first keyframe.
func TestPullContinuesAfterTheLastFrame(t *testing.T) {
	for _, refused := range []bool{false, true} {
		testPullContinues(t, refused)
	}
}

func testPullContinues(t *testing.T, refused bool) {
	tags, keys := film(5)
	for cut := range len(tags) + 1 {
		// owner is the owner's position when the node reconnects.
		for owner := cut; owner <= len(tags); owner++ {
			t.Run(fmt.Sprintf("cut at %d, continued at %d", cut, owner), func(t *testing.T) {
				f := newFixture(t)
				f.Begin(Publisher{Address: "owner", Epoch: 7})
				f.write(avcHeader, aacHeader)
				f.write(tags[:cut]...)
				begin := 0
				for _, key := range keys {
					if key < owner {
						begin = key
					}
				}
				if refused {
					f.Resume(Publisher{Address: "encoder"}, f.now)
					f.write(avcHeader, testTag{flv.TypeVideo, 7, "\x27\x01\x00\x00\x00refused"})
				}
				f.Resume(Publisher{Address: "owner", Epoch: 7}, f.now)
				f.write(avcHeader, aacHeader)
				f.write(tags[begin:]...)
				want := slices.Concat(tags[:cut], tags[max(begin, cut):])
				if got := frames(f.got()); !slices.Equal(got, want) {
					t.Errorf("the viewer got\n%+v, want\n%+v", got, want)
				}
			})
		}
	}
}

// A returning publisher restarts its clock. For viewers, time advances by the length of the pause,
// and never goes back.
func TestTimeContinuesWithTheNextPublisher(t *testing.T) {
	tags, _ := film(2)
	f := newFixture(t)
	f.Begin(Publisher{Address: "first"})
	f.write(avcHeader, aacHeader)
	f.write(tags...)
	last := tags[len(tags)-1].at
	const pause = 3000
	f.now += pause * 1e6
	if got := f.Resume(Publisher{Address: "second"}, f.now).Milliseconds(); got != pause {
		t.Errorf("a pause of %d ms, want %d", got, pause)
	}
	f.got()
	f.write(avcHeader, aacHeader)
	f.write(tags...)
	second := frames(f.got())
	if len(second) != len(tags) {
		t.Fatalf("%d frames of the second publisher, want %d", len(second), len(tags))
	}
	first := second[0].at
	if first < last+pause || first > last+pause+1000 {
		t.Errorf("the second publisher begins at %d ms, the first one ended at %d", first, last)
	}
	for i, tag := range second {
		if want := first + tags[i].at; tag.at != want || tag.body != tags[i].body {
			t.Fatalf("frame %d is %q at %d, want %q at %d", i, tag.body, tag.at, tags[i].body, want)
		}
	}
}

// The video of the next publisher continues at a keyframe, because viewers cannot decode the frames
// before it. The audio continues at once.
func TestNextPublisherContinuesAtAKeyframe(t *testing.T) {
	tags, keys := film(2)
	f := newFixture(t)
	f.Begin(Publisher{Address: "first"})
	f.write(avcHeader, aacHeader)
	f.write(tags...)
	f.Resume(Publisher{Address: "second"}, f.now)
	f.got()
	f.write(avcHeader, aacHeader)
	f.write(tags[keys[0]+1:]...)
	var want, got []string
	for i, tag := range tags[keys[0]+1:] {
		if tag.kind == flv.TypeAudio || i+1 >= keys[1] {
			want = append(want, tag.body)
		}
	}
	for _, tag := range frames(f.got()) {
		got = append(got, tag.body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the viewer got\n%q, want\n%q", got, want)
	}
}

// A frame of the next publisher that is earlier than its first frame does not go back behind the
// frames of the publisher before.
func TestTimeDoesNotGoBackAtTheNextPublisher(t *testing.T) {
	tags, _ := film(2)
	f := newFixture(t)
	f.Begin(Publisher{Address: "first"})
	f.write(avcHeader, aacHeader)
	f.write(tags...)
	last := tags[len(tags)-1].at
	f.Resume(Publisher{Address: "second"}, f.now)
	f.got()
	f.write(avcHeader, aacHeader)
	f.write(testTag{flv.TypeVideo, 1000, tags[0].body}, testTag{flv.TypeAudio, 800, tags[1].body})
	for _, tag := range f.got() {
		if tag.at < last {
			t.Errorf("%q at %d ms, before %d", tag.body, tag.at, last)
		}
	}
}
