package sv2_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
)

// openAll opens messages until an error occurs.
func openAll(o *sv2.Opener, buf arena.Buffer) (messages []slowMessage, err error) {
	for {
		s, h, err := o.NextInto(buf)
		if err != nil {
			if s.Len() > 0 || buf.Len() > 0 {
				err = fmt.Errorf("%d bytes given and %d left with the error %w", s.Len(), buf.Len(),
					err)
			}
			return messages, err
		}
		if inside, err := sv2.ParseHeader(s.Bytes()); err != nil || inside != h {
			return messages, fmt.Errorf("%+v in front of the payload, %+v given, %v", inside, h,
				err)
		}
		messages = append(messages, slowMessage{h, string(s.Bytes()[sv2.HeaderSize:])})
		s.Release()
	}
}

func buffers() []arena.Buffer {
	return []arena.Buffer{new(arena.Heap), arena.NewPool(1 << 20), arena.NewPool(50)}
}

func check(t testing.TB, name string, got []slowMessage, gotErr error, want []slowMessage,
	wantErr error) {
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

// callAt describes the byte at at of a sealed stream: the call that opens it, the part of a message
// that it belongs to, and the complete messages before it.
func callAt(messages []slowMessage, at int) (call uint64, part frame.Part, whole int) {
	for i, m := range messages {
		if at -= 22; at < 0 {
			return call, frame.InHeader, i
		}
		call++
		for n := m.Length; n > 0; n -= 65519 {
			if at -= min(n, 65519) + 16; at < 0 {
				return call, frame.InPayload, i
			}
			call++
		}
	}
	panic("behind the stream")
}

// checkOpener opens messages from an unsteady source into any Buffer, after the byte at at was
// changed by by. Errors of the source and full arenas lose nothing. The changed message is not
// returned. The error, which is permanent, says which call failed.
func checkOpener(t *testing.T, rnd *rand.Rand, messages []slowMessage, at int, by byte) {
	t.Helper()
	aead := newAEAD(t)
	sealed, _ := slowSeal(aead, 0, messages...)
	wire := []byte(sealed)
	damaged := by != 0 && len(wire) > 0
	if damaged {
		at %= len(wire)
		wire[at] ^= by
	}
	blocks := millrace.NewPool()
	r := blocks.NewReader(&sourcetest.Unsteady{Rest: string(wire), Rand: rnd}, 32<<rnd.IntN(8))
	o := sv2.NewOpener(r, aead)
	bufs := append(buffers(), arena.NewPool(1<<18, arena.NoHeap()),
		arena.NewPool(99, arena.NoHeap()))
	var got []slowMessage
	var err error
	for err == nil || err == sourcetest.ErrUnsteady || err == arena.ErrFull {
		var some []slowMessage
		some, err = openAll(o, bufs[rnd.IntN(len(bufs))])
		got = append(got, some...)
	}
	if damaged {
		call, part, whole := callAt(messages, at)
		var tag *sv2.TagError
		if !errors.As(err, &tag) || tag.Part != part || tag.Nonce != call || tag.Err == nil {
			t.Fatalf("byte %d: %v, want an error of call %d", at, err, call)
		}
		check(t, "damaged", got, nil, messages[:whole], nil)
		if _, again := openAll(o, bufs[0]); again != err {
			t.Fatalf("%v after %v, want the same error again", again, err)
		}
	} else {
		check(t, "unsteady", got, err, messages, io.EOF)
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

func TestOpenerGoesOn(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		checkOpener(t, rnd, randomMessages(rnd, 1+rnd.IntN(10), 1<<rnd.IntN(19)), 0, 0)
	}
}

func TestDamage(t *testing.T) {
	messages := []slowMessage{
		// two chunks
		{sv2.Header{Length: 3}, "abc"}, {}, {sv2.Header{Channel: true, Length: 5}, "defgh"},
		longMessages()[8],
	}
	wire, _ := slowSeal(newAEAD(t), 0, messages...)
	for at := 0; at < len(wire); at += 1 + at/200*100 {
		checkOpener(t, rand.New(rand.NewPCG(uint64(at), 5)), messages, at, 1<<(at%8))
	}
}

func TestOpenerErrors(t *testing.T) {
	aead := newAEAD(t)
	m := slowMessage{sv2.Header{ExtensionType: 1, MessageType: 2, Length: 70_000},
		strings.Repeat("x", 70_000)}
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
