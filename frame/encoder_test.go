package frame_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func chainOf(s string) (c millrace.Chain) {
	_, _ = c.ReadFrom(strings.NewReader(s))
	return c
}

// assemble builds a frame in buf, the payload in two steps.
func assemble(e *frame.Encoder, buf arena.Buffer, h frame.Header, payload string) (arena.Slice,
	error) {
	return e.Assemble(buf, h, func(buf arena.Buffer) error {
		half := len(payload) / 2
		copy(buf.Writable(half), payload)
		_, err := buf.Write([]byte(payload[half:]))
		return err
	})
}

// Built frames equal the frames read, by either method, in any Buffer, after any existing bytes.
func TestEncoderIsTheInverseOfDecoder(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	rnd := rand.New(rand.NewPCG(1, 5))
	frames, _ := slowParse(randomStream(rnd, 200), limits{most: 1 << 20})
	e := frame.NewEncoder(record{})
	buffers := []arena.Buffer{new(arena.Heap), arena.NewPool(1 << 18), arena.NewPool(2000)}
	var out, want millrace.Chain
	defer out.Release()
	defer want.Release()
	for i, f := range frames {
		h, payload := f.Header, f.raw[recordSize:]
		h.Payload = -1 // is filled in
		body := chainOf(payload)
		if err := e.Append(&out, h, &body); err != nil || body.Len() != 0 {
			t.Fatalf("%v, %d bytes left", err, body.Len())
		}
		want.AppendCopy([]byte(f.raw))

		before, buf := strings.Repeat("mark", i%4), buffers[i%len(buffers)]
		_, _ = buf.Write([]byte(before))
		s, err := assemble(e, buf, h, payload)
		if err != nil || string(s.Bytes()) != before+f.raw {
			t.Fatalf("%d bytes, %v, want the frame after the bytes before it", s.Len(), err)
		}
		s.Release()
	}
	if string(out.Bytes()) != string(want.Bytes()) {
		t.Error("the chain is not what was to be built")
	}
}

// The payload is shared, not copied.
func TestAppendSharesThePayload(t *testing.T) {
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	d := pool.Get(10_000)
	body := d.Bytes()
	ref := d.Freeze(len(body))
	var payload, dst millrace.Chain
	defer dst.Release()
	payload.Append(&ref)
	if err := frame.NewEncoder(record{}).Append(&dst, frame.Header{Kind: 1}, &payload); err != nil {
		t.Fatal(err)
	}
	for p := range dst.All() {
		if len(p) == len(body) && &p[0] == &body[0] {
			return
		}
	}
	t.Error("the payload lies elsewhere")
}

var errWrite = errors.New("no payload")

// After any error, everything is unchanged.
func TestEncoderErrors(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	e := frame.NewEncoder(record{})
	dst, body := chainOf("before"), chainOf(strings.Repeat("x", recordMost+1))
	defer dst.Release()
	err := e.Append(&dst, frame.Header{}, &body)
	if err != errTooLong || body.Len() != 0 || string(dst.Bytes()) != "before" {
		t.Errorf("%v, %d bytes left, %q", err, body.Len(), dst.Bytes())
	}

	full := arena.NewPool(10, arena.NoHeap())
	for _, tt := range []struct {
		name   string
		buf    arena.Buffer
		before string
		write  func(arena.Buffer) error
		want   error
	}{
		{"no room for the header", full, "seven b", nil, arena.ErrFull},
		{"no room for the payload", full, "",
			func(b arena.Buffer) error { _, err := b.Write(make([]byte, 7)); return err },
			arena.ErrFull},
		{"no payload", new(arena.Heap), "before",
			func(b arena.Buffer) error { b.Writable(100); return errWrite }, errWrite},
		{"no payload", arena.NewPool(50), "before",
			func(b arena.Buffer) error { b.Writable(100); return errWrite }, errWrite},
		{"too long", new(arena.Heap), "before",
			func(b arena.Buffer) error { b.Writable(recordMost + 1); return nil }, errTooLong},
	} {
		_, _ = tt.buf.Write([]byte(tt.before))
		s, err := e.Assemble(tt.buf, frame.Header{}, tt.write)
		if err != tt.want || s.Len() > 0 || string(tt.buf.Data(100)) != tt.before {
			t.Errorf("%s: %v, %d bytes, %q left", tt.name, err, s.Len(), tt.buf.Data(100))
		}
		tt.buf.Truncate(0)
		if s := tt.buf.Take(); s.Len() > 0 || !tt.buf.Droppable() {
			t.Errorf("%s: a slot is taken", tt.name)
		}
	}
}
