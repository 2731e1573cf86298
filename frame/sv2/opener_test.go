package sv2_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
)

// openAll opens messages until an error comes.
func openAll(o *sv2.Opener, buf arena.Buffer) (messages []slowMessage, err error) {
	for {
		s, h, err := o.NextInto(buf)
		if err != nil {
			if s.Len() > 0 || buf.Len() > 0 {
				err = fmt.Errorf("%d bytes given and %d left with the error %w", s.Len(), buf.Len(), err)
			}
			return messages, err
		}
		if inside, err := sv2.ParseHeader(s.Bytes()); err != nil || inside != h {
			return messages, fmt.Errorf("%+v in front of the payload, %+v given, %v", inside, h, err)
		}
		messages = append(messages, slowMessage{h, string(s.Bytes()[sv2.HeaderSize:])})
		s.Release()
	}
}

func buffers() []arena.Buffer {
	return []arena.Buffer{new(arena.Heap), arena.NewPool(1 << 20), arena.NewPool(50)}
}

func check(t testing.TB, name string, got []slowMessage, gotErr error, want []slowMessage, wantErr error) {
	t.Helper()
	if len(got) != len(want) || gotErr != wantErr && !reflect.DeepEqual(gotErr, wantErr) {
		t.Fatalf("%s: %d messages (%v), want %d (%v)", name, len(got), gotErr, len(want), wantErr)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: message %d: %+v, want %+v", name, i, got[i].Header, want[i].Header)
		}
	}
}

// weather is a source of which anything can be expected: portions of any size, nothing at all, and errors.
type weather struct {
	s   string
	rnd *rand.Rand
}

var errWeather = errors.New("bad weather")

func (w *weather) Read(p []byte) (int, error) {
	switch w.rnd.IntN(6) {
	case 0:
		return 0, errWeather
	case 1:
		return 0, nil
	}
	n := copy(p[:min(len(p), 1<<w.rnd.IntN(17))], w.s)
	if w.s = w.s[n:]; len(w.s) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Errors of the source and full arenas lose nothing, wherever they come.
func TestOpenerGoesOn(t *testing.T) {
	aead := newAEAD(t)
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		want := randomMessages(rnd, 1+rnd.IntN(10), 1<<rnd.IntN(19))
		wire, _ := slowSeal(aead, 0, want...)
		blocks := millrace.NewPool()
		r := blocks.NewReader(&weather{wire, rnd}, 32<<rnd.IntN(8))
		o := sv2.NewOpener(r, aead)
		bufs := append(buffers(), arena.NewPool(1<<18, arena.NoHeap()), arena.NewPool(99, arena.NoHeap()))
		var got []slowMessage
		for {
			messages, err := openAll(o, bufs[rnd.IntN(len(bufs))])
			got = append(got, messages...)
			if err != errWeather && err != arena.ErrFull {
				check(t, "weather", got, err, want, io.EOF)
				break
			}
		}
		r.Release()
		for _, buf := range bufs {
			if !buf.Droppable() {
				t.Fatal("a slot is taken")
			}
		}
		if n := blocks.Stats().InUse; n != 0 {
			t.Fatalf("%d bytes in use after Release", n)
		}
	}
}

// A message that was changed anywhere does not come out, and the error says which call failed.
func TestDamage(t *testing.T) {
	aead := newAEAD(t)
	messages := []slowMessage{{sv2.Header{Length: 3}, "abc"}, {}, {sv2.Header{Channel: true, Length: 5}, "defgh"}}
	long := longMessages()[8] // two chunks
	messages = append(messages, long)
	var ends []int // of each call
	for i, m := range messages {
		wire, _ := slowSeal(aead, 0, messages[:i]...)
		ends = append(ends, len(wire)+22)
		for n := m.Length; n > 0; n -= 65519 {
			ends = append(ends, ends[len(ends)-1]+min(n, 65519)+16)
		}
	}
	wire, _ := slowSeal(aead, 0, messages...)
	whole := []int{0, 0, 1, 2, 2, 3, 3, 3} // messages before each call's
	parts := []frame.Part{0, 1, 0, 0, 1, 0, 1, 1}
	if len(ends) != len(whole) || ends[len(ends)-1] != len(wire) {
		t.Fatalf("calls end at %d of %d bytes", ends, len(wire))
	}
	call := 0
	for at := 0; at < len(wire); at += 1 + at/200*100 {
		for at >= ends[call] {
			call++
		}
		damaged := []byte(wire)
		damaged[at] ^= 1 << (at % 8)
		for _, buf := range buffers() {
			r := millrace.NewReader(strings.NewReader(string(damaged)))
			o := sv2.NewOpener(r, aead)
			got, err := openAll(o, buf)
			var tag *sv2.TagError
			if !errors.As(err, &tag) || tag.Part != parts[call] || tag.Nonce != uint64(call) || tag.Err == nil {
				t.Fatalf("byte %d: %v, want an error of call %d", at, err, call)
			}
			check(t, "damaged", got, nil, messages[:whole[call]], nil)
			if _, again := openAll(o, buf); again != err {
				t.Fatalf("%v after %v", again, err)
			}
			r.Release()
		}
	}
}

func TestOpenerErrors(t *testing.T) {
	aead := newAEAD(t)
	m := slowMessage{sv2.Header{ExtensionType: 1, MessageType: 2, Length: 70_000}, strings.Repeat("x", 70_000)}
	wire, _ := slowSeal(aead, 0, m)
	late, _ := slowSeal(aead, math.MaxUint64-2, m)
	for _, tt := range []struct {
		name  string
		wire  string
		opts  []frame.Option
		calls uint64
		want  error
	}{
		{"cut in the header", wire[:21], nil, 0, io.ErrUnexpectedEOF},
		{"cut behind the header", wire[:22], nil, 0, io.ErrUnexpectedEOF},
		{"cut in a chunk", wire[:65_000], nil, 0, io.ErrUnexpectedEOF},
		{"cut between chunks", wire[:22+65535], nil, 0, io.ErrUnexpectedEOF},
		{"too long", wire[:22], []frame.Option{frame.MaxKind(0x102, 69_999)}, 0,
			&frame.LimitError{Kind: 0x102, Have: 70_000, Limit: 69_999}},
		{"no nonce for the header", wire, nil, math.MaxUint64, sv2.ErrNonces},
		{"no nonce for the last chunk", late, nil, math.MaxUint64 - 2, sv2.ErrNonces},
	} {
		for _, buf := range buffers() {
			r := millrace.NewReader(strings.NewReader(tt.wire))
			o := sv2.NewOpener(r, aead, tt.opts...)
			o.SetCalls(tt.calls)
			got, err := openAll(o, buf)
			check(t, tt.name, got, err, nil, tt.want)
			r.Release()
		}
	}
	err := error(&sv2.TagError{Part: frame.InPayload, Nonce: 7, Err: io.ErrNoProgress})
	want := "sv2: encrypted payload with nonce 7: " + io.ErrNoProgress.Error()
	if err.Error() != want || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%q, want %q", err, want)
	}
}

// mostGranted is a Heap that knows how long its frame has been.
type mostGranted struct {
	arena.Heap
	most int
}

func (b *mostGranted) Writable(n int) []byte {
	b.most = max(b.most, b.Len()+n)
	return b.Heap.Writable(n)
}

// A peer that announces 16 MiB, sends some of it and stalls gets twice as much memory as it has filled, and that only until
// the deadline.
func TestStalledMessages(t *testing.T) {
	aead := newAEAD(t)
	m := slowMessage{sv2.Header{Length: sv2.MaxPayload}, strings.Repeat("x", 200_000)}
	wire, _ := slowSeal(aead, 0, m)
	for _, arrived := range []int{0, 10, 4096, 65535, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			go func() { _, _ = there.Write([]byte(wire[:22+arrived])) }()
			r := millrace.NewReader(here)
			o := sv2.NewOpener(r, aead, frame.MaxPayload(sv2.MaxPayload), frame.Deadlines(here, time.Second, 10*time.Second))
			began := time.Now()
			var buf mostGranted
			_, _, err := o.NextInto(&buf)
			var timeout *frame.TimeoutError
			if !errors.As(err, &timeout) || timeout.Part != frame.InPayload || time.Since(began) != 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			if limit := 2*arrived + 4<<10 + 100; buf.most > limit {
				t.Errorf("%d bytes came: %d granted, more than %d", arrived, buf.most, limit)
			}
			r.Release()
			_ = here.Close()
		})
	}
}
