package sv2_test

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame/sv2"
)

// newAEAD returns a fast AEAD. The framing does not depend on the cipher.
func newAEAD(t testing.TB) cipher.AEAD {
	t.Helper()
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return aead
}

// slowSeal is the reference: it seals each part separately, to separate memory, and returns the
// number of the next nonce.
func slowSeal(aead cipher.AEAD, n uint64, messages ...slowMessage) (wire string, next uint64) {
	seal := func(part string) {
		nonce := binary.LittleEndian.AppendUint64(make([]byte, 4), n)
		wire += string(aead.Seal(nil, nonce, []byte(part), nil))
		n++
	}
	for _, m := range messages {
		head, _ := m.Append(nil)
		seal(string(head))
		for rest := m.payload; rest != ""; rest = rest[min(65519, len(rest)):] {
			seal(rest[:min(65519, len(rest))])
		}
	}
	return wire, n
}

// writing returns a function that adds s to a Buffer, in steps.
func writing(s string) func(arena.Buffer) error {
	payload := []byte(s)
	return func(buf arena.Buffer) error {
		for p := payload; len(p) > 0; p = p[min(len(p), 50_000):] {
			if _, err := buf.Write(p[:min(len(p), 50_000)]); err != nil {
				return err
			}
		}
		return nil
	}
}

// longMessages have payloads that end just before and just after the end of a chunk. A small
// message follows each.
func longMessages() (messages []slowMessage) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 65518, 65519, 65520, 131037, 131038, 131039, 262_076, 262_077,
		300_000} {
		messages = append(messages, randomMessages(rnd, 1, 1)[0], randomMessages(rnd, 1, 20)[0])
		m := &messages[len(messages)-2]
		m.Length, m.payload = n, strings.Repeat(string([]byte{1, 2, 3, 4, 5, 6, 7}), n/7+1)[:n]
	}
	return messages
}

// A Sealer seals like the reference, in every Buffer, at every length, after any bytes.
func TestSealer(t *testing.T) {
	aead := newAEAD(t)
	for _, buf := range []arena.Buffer{
		new(arena.Heap), arena.NewPool(1 << 20), arena.NewPool(70_000),
		arena.NewPool(301_000, arena.NoHeap()),
	} {
		s := sv2.NewSealer(aead)
		n := uint64(0)
		for i, m := range longMessages() {
			before := strings.Repeat("mark", i%3)
			_, _ = buf.Write([]byte(before))
			var want string
			want, n = slowSeal(aead, n, m)
			m.Header.Length = -1 // is filled in
			got, err := s.Seal(buf, m.Header, writing(m.payload))
			if err != nil || string(got.Bytes()) != before+want {
				t.Fatalf("message %d, %d bytes: %d bytes, %v", i, len(m.payload), got.Len(), err)
			}
			got.Release()
			if s.Calls() != n {
				t.Fatalf("message %d: key used %d times, want %d", i, s.Calls(), n)
			}
		}
	}
}

// A payload of one chunk stays where it was written.
func TestOneChunkIsNotMoved(t *testing.T) {
	const encryptedHeader, plainChunk = 6 + 16, 65535 - 16
	var written *byte
	s, err := sv2.NewSealer(newAEAD(t)).Seal(arena.NewPool(70_000), sv2.Header{},
		func(buf arena.Buffer) error {
			written = &buf.Writable(plainChunk)[0]
			return nil
		})
	if err != nil || s.Len() != encryptedHeader+plainChunk+16 ||
		&s.Bytes()[encryptedHeader] != written {
		t.Errorf("%d bytes, %v, want the chunk encrypted in its place", s.Len(), err)
	}
}

var errWrite = errors.New("no payload")

// After any error the Buffer is unchanged, and the key has not been used.
func TestSealerErrors(t *testing.T) {
	const room = 100
	for _, tt := range []struct {
		name   string
		before int
		h      sv2.Header
		write  func(arena.Buffer) error
		calls  uint64
		want   error
	}{
		{"no room for the header", room - 21, sv2.Header{}, nil, 0, arena.ErrFull},
		{"no room for the payload", 10, sv2.Header{}, writing(strings.Repeat("x", 69)), 0,
			arena.ErrFull},
		{"no room for the tag", 10, sv2.Header{}, writing(strings.Repeat("x", 53)), 0,
			arena.ErrFull},
		{"no payload", 10, sv2.Header{}, func(buf arena.Buffer) error {
			buf.Writable(10)
			return errWrite
		}, 0, errWrite},
		{"no payload, and nothing before", 0, sv2.Header{},
			func(buf arena.Buffer) error { buf.Writable(10); return errWrite }, 0, errWrite},
		{"no nonce for the chunk", 10, sv2.Header{}, writing("x"), math.MaxUint64 - 1,
			sv2.ErrNonces},
		{"no nonce", 10, sv2.Header{}, writing(""), math.MaxUint64, sv2.ErrNonces},
		{"wrong extension", 10, sv2.Header{ExtensionType: 1 << 15}, writing("x"), 0, nil},
	} {
		buf := arena.NewPool(room, arena.NoHeap())
		s := sv2.NewSealer(newAEAD(t))
		s.SetCalls(tt.calls)
		before := strings.Repeat("b", tt.before)
		_, _ = buf.Write([]byte(before))
		got, err := s.Seal(buf, tt.h, tt.write)
		if err == nil || tt.want != nil && err != tt.want || got.Len() > 0 {
			t.Errorf("%s: %v, %d bytes, want an error and no bytes", tt.name, err, got.Len())
		}
		if string(buf.Data(room)) != before || s.Calls() != tt.calls {
			t.Errorf("%s: %q left, key used %d times", tt.name, buf.Data(room), s.Calls())
		}
		buf.Truncate(0)
		if rest := buf.Take(); rest.Len() > 0 || !buf.Droppable() {
			t.Errorf("%s: a slot is taken", tt.name)
		}
	}
}

// The last possible nonces can be used.
func TestLastNonces(t *testing.T) {
	s := sv2.NewSealer(newAEAD(t))
	s.SetCalls(math.MaxUint64 - 2)
	got, err := s.Seal(new(arena.Heap), sv2.Header{}, writing("x"))
	want, _ := slowSeal(newAEAD(t), math.MaxUint64-2, slowMessage{sv2.Header{Length: 1}, "x"})
	if err != nil || string(got.Bytes()) != want || s.Calls() != math.MaxUint64 {
		t.Errorf("%x, %v, %d calls, want the last nonce used", got.Bytes(), err, s.Calls())
	}
}

// short is an AEAD with too short tags.
type short struct{ cipher.AEAD }

func (short) Overhead() int { return 12 }

func TestMisuse(t *testing.T) {
	aead := newAEAD(t)
	for want, f := range map[string]func(){
		"sv2: AEAD with nonces of 12 bytes and 12 bytes of overhead, want 12 and 16": func() { sv2.NewSealer(short{aead}) },
		"sv2: Seal: 5 bytes of the header are left after the payload was written": func() {
			_, _ = sv2.NewSealer(aead).Seal(new(arena.Heap), sv2.Header{},
				func(buf arena.Buffer) error {
					buf.Truncate(5)
					return nil
				})
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panics with %v, want %q", got, want)
				}
			}()
			f()
		}()
	}
}
