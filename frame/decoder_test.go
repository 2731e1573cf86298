package frame_test

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// way is a way to get the next frame from a Decoder.
type way struct {
	name string
	next func(*frame.Decoder) (slowFrame, error)
}

func byReference(d *frame.Decoder) (slowFrame, error) {
	var c millrace.Chain
	defer c.Release()
	h, err := d.Next(&c)
	if err != nil && c.Len() > 0 {
		err = fmt.Errorf("%d bytes given with the error %w", c.Len(), err)
	}
	return slowFrame{h, string(c.Bytes())}, err
}

func into(buf arena.Buffer) func(*frame.Decoder) (slowFrame, error) {
	return func(d *frame.Decoder) (slowFrame, error) {
		s, h, err := d.NextInto(buf)
		defer s.Release()
		if err != nil && (s.Len() > 0 || buf.Len() > 0) {
			err = fmt.Errorf("%d bytes given and %d left with the error %w", s.Len(), buf.Len(),
				err)
		}
		return slowFrame{h, string(s.Bytes())}, err
	}
}

func ways() []way {
	return []way{
		{"chain", byReference},
		{"heap", into(new(arena.Heap))},
		{"pool", into(arena.NewPool(1 << 18))},
		{"small pool", into(arena.NewPool(100))},
	}
}

// decodeAll reads all frames from src with a new pool. It checks that no block is left, and that
// all calls return the final error again.
func decodeAll(t testing.TB, src io.Reader, f frame.Format, w way,
	opts ...frame.Option) ([]slowFrame, error) {
	t.Helper()
	pool := millrace.NewPool()
	r := pool.NewReader(src, 4096)
	d := frame.NewDecoder(r, f, opts...)
	frames, err := drain(d, w)
	calls := []way{w}
	if _, sealed := f.(frame.Sealed); !sealed {
		calls = ways()
	}
	for _, call := range calls {
		if _, again := call.next(d); again != err {
			t.Fatalf("%s: %v after %v, want the same error again", call.name, again, err)
		}
	}
	r.Release()
	if n := pool.Stats().InUse; n != 0 {
		t.Fatalf("%s: %d bytes in use after Release", w.name, n)
	}
	return frames, err
}

func drain(d *frame.Decoder, w way) (frames []slowFrame, err error) {
	for {
		f, err := w.next(d)
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
}

// sameResult compares the result of a Decoder with the reference's.
func sameResult(t testing.TB, name string, got []slowFrame, gotErr error, want []slowFrame,
	wantErr error) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d frames (%v), want %d (%v)", name, len(got), gotErr, len(want), wantErr)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: frame %d:\n got %+v, %d bytes\nwant %+v, %d bytes", name, i,
				got[i].Header, len(got[i].raw), want[i].Header, len(want[i].raw))
		}
	}
	if gotErr != wantErr && !reflect.DeepEqual(gotErr, wantErr) {
		t.Fatalf("%s: error %v, want %v", name, gotErr, wantErr)
	}
}

// seedStreams are short streams with every kind of event.
var seedStreams = []string{
	"",
	rawFrame(1, ""),
	rawFrame(1, "a") + rawFrame(0x81, "bc") + rawFrame(2, "") + rawFrame(3,
		strings.Repeat("x", 20)),
	rawFrame(1, "whole") + rawFrame(1, "cut")[:6],
	rawFrame(1, "whole") + "\x01\x00",
	rawFrame(1, "whole") + rawFrame(badKind, "refused") + rawFrame(1, "not seen"),
	rawFrame(1, strings.Repeat("x", 100)) + rawFrame(4, strings.Repeat("x", 101)) + rawFrame(1,
		"not seen"),
	rawFrame(5, strings.Repeat("x", 300)) + rawFrame(6, "") + rawFrame(6, "x"),
	"\x01\xff\xff\xffabc",
}

// seedLimits accept some of seedStreams.
var seedLimits = limits{most: 100, kind: map[uint32]int{5: 300, 6: 0}}

// The frames are the same, however the bytes arrive and whichever calls return the frames.
func TestEverySplit(t *testing.T) {
	check := func(name, wire string, f func() frame.Format, w way, in string, l limits) {
		want, wantErr := slowParse(in, l)
		from := func(src io.Reader) {
			t.Helper()
			got, err := decodeAll(t, src, f(), w, l.options()...)
			sameResult(t, name+", "+w.name, got, err, want, wantErr)
		}
		for cut := range len(wire) {
			from(io.MultiReader(strings.NewReader(wire[:cut]), strings.NewReader(wire[cut:])))
		}
		from(iotest.OneByteReader(strings.NewReader(wire)))
		from(iotest.HalfReader(strings.NewReader(wire)))
		from(iotest.DataErrReader(strings.NewReader(wire)))
	}
	for i, s := range seedStreams {
		for _, w := range ways() {
			check(fmt.Sprint("stream ", i), s, func() frame.Format { return record{} }, w, s,
				seedLimits)
		}
	}
	records := sealedRecords()
	for _, w := range sealedWays() {
		check("sealed", new(masked).seal(records...), func() frame.Format { return new(masked) }, w,
			strings.Join(records, ""), limits{most: 1 << 20})
	}
}

func TestLimitsOfKinds(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts []frame.Option
		kind byte
		n    int
		want error
	}{
		{"default", nil, 1, 1 << 20, nil},
		{"above default", nil, 1, 1<<20 + 1, &frame.LimitError{Kind: 1, Have: 1<<20 + 1,
			Limit: 1 << 20}},
		{"raised", []frame.Option{frame.MaxPayload(recordMost)}, 1, recordMost, nil},
		{"lowered", []frame.Option{frame.MaxPayload(9)}, 1, 10,
			&frame.LimitError{Kind: 1, Have: 10, Limit: 9}},
		{"none", []frame.Option{frame.MaxPayload(0)}, 1, 0, nil},
		{"kind raised", []frame.Option{frame.MaxKind(1, 10), frame.MaxPayload(9)}, 1, 10, nil},
		{"kind lowered", []frame.Option{frame.MaxKind(1, 9)}, 1, 10,
			&frame.LimitError{Kind: 1, Have: 10, Limit: 9}},
		{"the last word counts", []frame.Option{frame.MaxKind(1, 9), frame.MaxKind(1, 10)}, 1, 10,
			nil},
		{"another kind", []frame.Option{frame.MaxKind(1, 9)}, 2, 10, nil},
	} {
		for _, w := range ways() {
			s := rawFrame(tt.kind, strings.Repeat("x", tt.n))
			got, err := decodeAll(t, strings.NewReader(s), record{}, w, tt.opts...)
			if tt.want != nil {
				sameResult(t, tt.name, got, err, nil, tt.want)
			} else if err != io.EOF || len(got) != 1 || got[0].raw != s {
				t.Errorf("%s, %s: %d frames, %v, want one and io.EOF", tt.name, w.name, len(got),
					err)
			}
		}
	}
}

// Of a frame that is too large, only the header is read.
func TestTooLargeIsNotWaitedFor(t *testing.T) {
	head := rawFrame(1, strings.Repeat("x", 200))[:recordSize]
	for _, w := range ways() {
		src := io.MultiReader(strings.NewReader(head),
			iotest.ErrReader(errors.New("the payload was asked for")))
		_, err := decodeAll(t, src, record{}, w, frame.MaxPayload(199))
		var limit *frame.LimitError
		if !errors.As(err, &limit) || limit.Have != 200 {
			t.Errorf("%s: %v, want the size of 200", w.name, err)
		}
	}
}

// Frames that arrive together are one piece, so nothing has been copied.
func TestFramesOfOneBlockAreOnePiece(t *testing.T) {
	s := strings.Repeat(rawFrame(1, "payload"), 10)
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	r := pool.NewReader(strings.NewReader(s), 4096)
	defer r.Release()
	d := frame.NewDecoder(r, record{})
	var c millrace.Chain
	defer c.Release()
	for range 10 {
		if _, err := d.Next(&c); err != nil {
			t.Fatal(err)
		}
	}
	if c.Pieces() != 1 || string(c.Bytes()) != s {
		t.Errorf("%d pieces, want 1 with the frames", c.Pieces())
	}
	if n := pool.Stats().Taken; n != 1 {
		t.Errorf("%d blocks taken, want 1", n)
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&frame.LimitError{Kind: 0x12, Have: 9, Limit: 8},
			"frame: payload of 9 bytes announced in a frame of kind 0x12, limit 8"},
		{&frame.TimeoutError{Part: frame.InHeader, After: 2e9},
			"frame: the rest of a header did not come within 2s"},
		{&frame.TimeoutError{Part: frame.InPayload, After: 3e9},
			"frame: the rest of a payload did not come within 3s"},
		{&frame.TimeoutError{Part: 255, After: 3e9},
			"frame: the rest of a Part(255) did not come within 3s"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
