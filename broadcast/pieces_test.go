package broadcast_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/broadcast"
)

// A ring keeps MaxPieces pieces, however they are distributed over frames. It evicts the oldest
// frames for more.
func TestGroupOfMaxPieces(t *testing.T) {
	const block = 10
	for most := 1; most <= 20; most++ {
		for each := 1; each <= most; each++ { // pieces per frame
			f := newFeed(block)
			r := broadcast.New(broadcast.MaxPieces(most))
			fit := most / each
			for round := range 20 {
				group := f.group(t, r, fit, each*block)
				check(t, r)
				wantLate(t, r, group)
				// The first frame of the next GOP does not fit next to this GOP.
				if s := r.Stats(); s.GroupsCut != uint64(round) || s.Frames != fit {
					t.Fatalf("MaxPieces %d, frames of %d: %d groups cut, %d frames, want %d, %d",
						most, each, s.GroupsCut, s.Frames, round, fit)
				}
			}
			r.Close()
			f.done(t)
		}
	}
}

// A frame of more pieces than the ring can keep is refused, like a frame of too many bytes.
func TestFrameOfTooManyPieces(t *testing.T) {
	f := newFeed(10)
	r := broadcast.New(broadcast.MaxPieces(4))
	f.publish(t, r, 20, true)
	big := f.next(50)
	err := r.Publish(&big, broadcast.Frame{})
	var e *broadcast.FrameTooLargeError
	if !errors.As(err, &e) || e.Pieces != 5 || e.MaxPieces != 4 || e.Size != 50 {
		t.Errorf("Publish = %+v, want the pieces and the limit", err)
	}
	if want := "broadcast: a frame of 5 pieces is above the limit of 4"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	if big.Len() != 0 {
		t.Errorf("Publish left %d bytes", big.Len())
	}
	check(t, r)
	r.Close()
	f.done(t)
}

// Frames of any size come from blocks of any size, with adjacent pieces joined, under any limit. A
// reader gets each frame completely, or is told that it missed the frame.
func TestRandomFramesWithinMaxPieces(t *testing.T) {
	for _, most := range []int{1, 2, 4, 5, 17, 100, 2000} {
		for _, block := range []int{8, 100, 512} {
			rnd := rand.New(rand.NewPCG(uint64(most), uint64(block)))
			f := newFeed(block)
			r := broadcast.New(broadcast.MaxPieces(most), broadcast.MaxFrames(2000))
			var frames []string
			readers := []*follower{
				{cursor: r.Cursor(broadcast.FromHead(), broadcast.MaxLagFrames(0)), every: 1},
				{cursor: r.Cursor(broadcast.FromHead(), broadcast.MaxLagFrames(10)), every: 25},
				{cursor: r.Cursor(broadcast.FromHead(), broadcast.MaxLagFrames(0),
					broadcast.MaxLagBytes(0)), every: 700},
			}
			for i := range 3000 {
				frame := f.next(rnd.IntN(3 * block))
				frames = append(frames, text(&frame))
				var tooLarge *broadcast.FrameTooLargeError
				if err := r.Publish(&frame, broadcast.Frame{Key: rnd.IntN(40) == 0}); errors.As(err,
					&tooLarge) {
					frames[i] = "" // a lost frame
				} else if err != nil {
					t.Fatal(err)
				}
				if rnd.IntN(50) == 0 {
					pre := f.next(rnd.IntN(30))
					r.SetPreamble(&pre)
				}
				for _, reader := range readers {
					if i%reader.every == 0 {
						reader.follow(t, frames)
					}
				}
				check(t, r)
			}
			r.Close()
			for _, reader := range readers {
				reader.cursor.Close()
			}
			f.done(t)
		}
	}
}

// A follower compares the results of a cursor with all published frames.
type follower struct {
	cursor *broadcast.Cursor
	every  int
	next   int // the first frame that it has neither got nor missed
}

func (w *follower) follow(t *testing.T, frames []string) {
	t.Helper()
	for {
		got, b := take(t, w.cursor)
		if b.Frames == 0 {
			return
		}
		w.next += b.Missed.Frames
		want := strings.Join(frames[w.next:w.next+b.Frames], "")
		if got[b.Preamble:] != want {
			t.Fatalf("frames %d to %d: %d bytes, want %d others", w.next, w.next+b.Frames,
				b.Bytes-b.Preamble, len(want))
		}
		w.next += b.Frames
	}
}

// If the owner of a chain releases it after Publish, the call that drops it panics. Later calls
// work.
func TestChainPublishedAndReleased(t *testing.T) {
	f := newFeed(10)
	r := broadcast.New(broadcast.MaxPieces(100))
	for range 30 {
		stale := f.next(40)
		copied := stale
		stale.Release()
		if err := r.Publish(&copied, broadcast.Frame{Key: true}); err != nil {
			t.Fatal(err)
		}
		good := f.next(40)
		// This drops the stale chain.
		mustPanic(t, "released twice", func() { _ = r.Publish(&good, broadcast.Frame{Key: true}) })
	}
	for range 1000 {
		f.publish(t, r, 40, true)
	}
	wantLate(t, r, f.publish(t, r, 40, true))
	r.Close()
	f.done(t)
}

// Very large limits, which mean "no limit", do not allocate memory in advance.
func TestLimitsThatMeanNone(t *testing.T) {
	r := broadcast.New(broadcast.MaxBytes(math.MaxInt64))
	publish(t, r, "k", true)
	check(t, r)
	r.Close()
}
