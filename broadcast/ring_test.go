package broadcast_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// A script lists the events of a ring, and the results of a single cursor:
//
//	K:text       publish a keyframe     p:text   publish another frame
//	big          publish a frame above MaxBytes
//	P:text       set the preamble        sleep:d  let time pass
//	join, head   open the cursor, at the newest keyframe or at the head
//	take:text    Take gives text, and nothing was missed
//	miss:N/B/why behind a take: it says that N frames, B bytes were missed
//	eof          Take returns io.EOF     close    close the ring
//	keep:text    the ring keeps frames of so many bytes in all as text has
var scripts = []struct {
	name   string
	ring   []broadcast.Option
	cursor []broadcast.CursorOption
	script string
}{
	{name: "a late joiner starts at the newest keyframe with its preamble",
		script: "P:<pre> K:one p:two K:three p:four join take:<pre>threefour take: p:five take:five"},
	{name: "a joiner starts at the first keyframe that comes, if its allowance lets it",
		script: "join K:k p:a K:l p:b take:kalb"},
	{name: "a joiner's allowance counts from the keyframe on that it starts at",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(2)},
		script: "p:x join p:y K:k p:a K:l p:b take:lb miss:2/2/lag_frames"},
	{name: "from the head, keyframe or not, after the current preamble",
		script: "P:<pre> K:k p:a head take: p:b take:<pre>b p:c take:c"},
	{name: "from the next keyframe, though one is there",
		script: "P:<1> K:k p:a next take: p:b P:<2> take: K:l p:c take:<2>lc"},
	{name: "from the next keyframe, of which there are several before a Take",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(3)},
		script: "K:k next K:l p:a keep:la K:m take:lam K:n p:b K:o p:c K:q take:q miss:4/4/lag_frames"},
	{name: "nothing is kept, or lost, for who waits for the next keyframe",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(1)},
		ring:   []broadcast.Option{broadcast.MaxFrames(3)},
		script: "K:k next p:a p:b p:c keep:abc take: K:l keep:l take:l"},
	{name: "a batch ends at BatchBytes, between frames",
		cursor: []broadcast.CursorOption{broadcast.BatchBytes(5)},
		script: "K:aa p:bb p:cc p:dddddddd p:e join take:aabb take:cc take:dddddddd take:e take:"},
	{name: "a batch ends at BatchPieces",
		cursor: []broadcast.CursorOption{broadcast.BatchPieces(2)},
		script: "K:aa p:bb p:cc p:d join take:aabb take:ccd"},
	{name: "a keyframe keeps what a cursor has not taken",
		script: "K:k p:a join take:ka p:b K:l keep:bl take:bl K:m keep:m"},
	{name: "an allowance in frames",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(3)},
		script: "K:k join take:k p:aa p:bb K:l keep:aabbl take:aabbl p:c p:d p:e K:m take:m miss:3/3/lag_frames"},
	{name: "an allowance in bytes",
		cursor: []broadcast.CursorOption{broadcast.MaxLagBytes(10)},
		script: "K:k join take:k p:aaaa K:llllll take:aaaallllll p:bbbb K:mmmmmmm take:mmmmmmm miss:1/4/lag_bytes"},
	{name: "an allowance in time",
		cursor: []broadcast.CursorOption{broadcast.MaxLagTime(time.Second)},
		script: "K:k join take:k p:a sleep:1s K:l take:al p:b sleep:1001ms K:m take:m miss:1/1/lag_time"},
	{name: "no allowance is without limit",
		cursor: []broadcast.CursorOption{broadcast.MaxLagTime(0), broadcast.MaxLagFrames(0),
			broadcast.MaxLagBytes(0)},
		script: "K:k join take:k p:a sleep:1h K:l p:b K:m p:c take:alb~mc"},
	{name: "a cursor is not moved within the newest group",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(1)},
		script: "K:k join take:k p:a p:b p:c sleep:1h take:abc"},
	{name: "nor a late joiner out of the group that it begins with",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(1),
			broadcast.MaxLagTime(time.Second)},
		script: "K:k p:a p:b sleep:1h join take:kab"},
	{name: "a move gives a preamble that the cursor does not have",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(1)},
		script: "P:<1> K:k join take:<1>k P:<2> p:a K:l take:<2>l miss:1/1/lag_frames p:b K:m take:m miss:1/1/lag_frames"},
	{name: "moves that were not told of add up, under the first reason",
		cursor: []broadcast.CursorOption{broadcast.MaxLagFrames(2),
			broadcast.MaxLagTime(time.Second)},
		script: "K:k join take:k p:a p:b K:l sleep:2s K:m take:m miss:3/3/lag_frames"},
	{name: "the oldest frames make room for bytes",
		ring:   []broadcast.Option{broadcast.MaxBytes(8)},
		script: "K:aaa p:bbb p:ccc keep:bbbccc p:dddddddd keep:dddddddd p: keep:dddddddd"},
	{name: "no cursor starts in the middle of a group that outgrew the ring",
		ring:   []broadcast.Option{broadcast.MaxFrames(3)},
		script: "K:k p:a p:b p:c join take: p:d take: K:l p:e take:le"},
	{name: "an evicted cursor waits for the next keyframe",
		ring:   []broadcast.Option{broadcast.MaxFrames(3)},
		script: "P:<1> K:k join take:<1>k p:a p:bb p:c p:d take: p:e take: K:l take:l miss:5/6/evicted"},
	{name: "a refused frame ends its group",
		ring:   []broadcast.Option{broadcast.MaxBytes(8)},
		script: "K:k p:a join big p:b take:ka take: p:c take: K:l take:l miss:3/2/refused"},
	{name: "the rest of a closed ring",
		script: "K:k join take:k p:a K:l p:b close take:alb eof eof keep:"},
	{name: "a closed ring has nothing for those who come",
		script: "K:k p:a close keep: join eof"},
	{name: "a loss that no keyframe ended is told at the end",
		ring:   []broadcast.Option{broadcast.MaxFrames(2)},
		script: "K:k join take:k p:a p:bb p:c close take: miss:3/4/evicted eof"},
}

func TestScripts(t *testing.T) {
	for _, test := range scripts {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := player{T: t, ring: broadcast.New(test.ring...), opts: test.cursor}
				for _, word := range strings.Fields(test.script) {
					p.play(word)
					check(t, p.ring)
				}
				if p.last.Missed != (broadcast.Missed{}) {
					t.Errorf("the last batch missed %v", p.last.Missed)
				}
				p.ring.Close()
				if p.cursor != nil {
					p.cursor.Close()
				}
				check(t, p.ring)
			})
		})
	}
}

type player struct {
	*testing.T
	ring   *broadcast.Ring
	opts   []broadcast.CursorOption
	cursor *broadcast.Cursor
	last   broadcast.Batch
}

func (p *player) play(word string) {
	p.Helper()
	verb, arg, _ := strings.Cut(word, ":")
	switch verb {
	case "K", "p":
		publish(p, p.ring, arg, verb == "K")
	case "big":
		p.tooLarge()
	case "P":
		c := chainOf(arg)
		p.ring.SetPreamble(&c)
	case "sleep":
		d, err := time.ParseDuration(arg)
		if err != nil {
			p.Fatal(err)
		}
		time.Sleep(d)
	case "join":
		p.cursor = p.ring.Cursor(p.opts...)
	case "head":
		p.cursor = p.ring.Cursor(append(p.opts, broadcast.FromHead())...)
	case "next":
		p.cursor = p.ring.Cursor(append(p.opts, broadcast.FromNextKey())...)
	case "take":
		p.take(strings.ReplaceAll(arg, "~", ""))
	case "miss":
		want := arg
		if got := fmt.Sprintf("%d/%d/%v", p.last.Missed.Frames, p.last.Missed.Bytes,
			p.last.Missed.Why); got != want {
			p.Errorf("missed %s, want %s", got, want)
		}
		p.last.Missed = broadcast.Missed{}
	case "close":
		p.ring.Close()
	case "eof":
		var dst millrace.Chain
		if b, err := p.cursor.Take(&dst); err != io.EOF || b != (broadcast.Batch{}) ||
			dst.Len() != 0 {
			p.Errorf("Take = %+v, %v with %d bytes, want io.EOF", b, err, dst.Len())
		}
	case "keep":
		if s := p.ring.Stats(); s.Bytes != int64(len(arg)) {
			p.Errorf("the ring keeps %d bytes, want %d (%q)", s.Bytes, len(arg), arg)
		}
	default:
		p.Fatalf("no such word: %s", word)
	}
}

func (p *player) take(want string) {
	p.Helper()
	if p.last.Missed != (broadcast.Missed{}) {
		p.Errorf("missed %v", p.last.Missed)
	}
	var got string
	if got, p.last = take(p, p.cursor); got != want {
		p.Errorf("Take gave %q, want %q", got, want)
	}
}

func (p *player) tooLarge() {
	p.Helper()
	c := chainOf("0123456789")
	err := p.ring.Publish(&c, broadcast.Frame{Key: true})
	var e *broadcast.FrameTooLargeError
	if !errors.As(err, &e) || e.Size != 10 || e.Limit != 8 {
		p.Errorf("Publish = %v", err)
	}
	if want := "broadcast: a frame of 10 bytes is above MaxBytes (8)"; err.Error() != want {
		p.Errorf("error %q, want %q", err, want)
	}
	if c.Len() != 0 {
		p.Errorf("Publish left %d bytes", c.Len())
	}
}

// Evict drops frames older than a given age: old GOPs, and the newest GOP if requested. Readers at
// the head are not affected.
func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed(512)
		r := broadcast.New()
		defer r.Close()
		behind := r.Cursor(broadcast.MaxLagTime(0))
		f.publish(t, r, 100, true)
		f.publish(t, r, 100, false)
		time.Sleep(time.Second)
		head := r.Cursor()
		takeAll(t, head)
		second := f.publish(t, r, 100, true)
		if n := r.Evict(2*time.Second, true); n != 0 {
			t.Errorf("%d bytes of frames went that are not so old", n)
		}
		if n := r.Evict(time.Second/2, false); n != 200 || r.Stats().Frames != 1 {
			t.Errorf("%d bytes of an old group of 200 went, %d frames are left", n,
				r.Stats().Frames)
		}
		time.Sleep(time.Millisecond)
		if n := r.Evict(0, false); n != 0 {
			t.Errorf("%d bytes of the newest group went", n)
		}
		if got := takeAll(t, head); got != second {
			t.Errorf("a reader at the head got %d bytes of %d", len(got), len(second))
		}
		var c millrace.Chain
		if b, err := behind.Take(&c); err != nil || b.Missed.Why != broadcast.Evicted ||
			b.Missed.Frames != 2 {
			t.Errorf("a reader that was behind: %+v, %v", b, err)
		}
		c.Release()
		check(t, r)
		third := f.publish(t, r, 100, false)
		time.Sleep(time.Millisecond)
		if got := takeAll(t, head); got != third {
			t.Errorf("a reader at the head got %d bytes of %d", len(got), len(third))
		}
		if n := r.Evict(0, true); n == 0 || r.Stats().Frames != 0 || r.Stats().GroupsCut != 1 {
			t.Errorf("%d bytes of the newest group went, %d frames are left", n, r.Stats().Frames)
		}
		check(t, r)
		head.Close()
		behind.Close()
	})
}

// A GOP is kept whole up to MaxFrames, and late readers get it. The array of its records grows,
// wherever its oldest record is.
func TestGroupOfMaxFrames(t *testing.T) {
	const most = 1500
	for _, before := range []int{0, 1, 100, 255, 256, 400, 1600} {
		f := newFeed(512)
		r := broadcast.New(broadcast.MaxFrames(most))
		for range before {
			f.publish(t, r, 10, true)
		}
		if n := r.Records(); n > 256 {
			t.Fatalf("room for %d records while one is kept", n)
		}
		group := f.publish(t, r, 10, true)
		behind := r.Cursor()
		for range most - 1 {
			group += f.publish(t, r, 10, false)
		}
		check(t, r)
		late := r.Cursor()
		for _, c := range []*broadcast.Cursor{behind, late} {
			if got := takeAll(t, c); got != group {
				t.Errorf("after %d groups of one frame: %d bytes of a group of %d", before,
					len(got), len(group))
			}
			c.Close()
		}
		if cut := r.Stats().GroupsCut; cut != 0 {
			t.Errorf("%d groups cut before the limit", cut)
		}
		f.publish(t, r, 10, false)
		if s := r.Stats(); s.GroupsCut != 1 || s.Frames != most {
			t.Errorf("beyond the limit: %d frames, %d groups cut", s.Frames, s.GroupsCut)
		}
		check(t, r)
		r.Close()
		f.done(t)
	}
}

func TestStrings(t *testing.T) {
	for _, test := range []struct {
		got, want string
	}{
		{broadcast.NotMissed.String(), "not_missed"},
		{broadcast.Reason(200).String(), "Reason(200)"},
		{broadcast.LagBytes.String(), "lag_bytes"},
		{broadcast.LagFrames.String(), "lag_frames"},
		{broadcast.LagTime.String(), "lag_time"},
		{broadcast.Evicted.String(), "evicted"},
		{broadcast.Refused.String(), "refused"},
		{broadcast.Missed{}.String(), "nothing"},
		{broadcast.Missed{Frames: 3, Bytes: 1000, Why: broadcast.LagTime}.String(),
			"3 frames, 1000 bytes (lag_time)"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}
