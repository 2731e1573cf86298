package rtmp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/sourcetest"
	"github.com/millrace-io/millrace/media/rtmp"
)

// decodeAll reads all messages from src with a new pool, each into a new chain. It continues after
// temporary errors, and checks that no block is left.
func decodeAll(t testing.TB, src io.Reader, size, maxMessage int) (list []slowMessage, err error) {
	t.Helper()
	leaktest.Check(t, millrace.DefaultPool())
	pool := millrace.NewPool()
	r := pool.NewReader(src, size)
	d := rtmp.NewDecoder(r, maxMessage)
	for {
		var c millrace.Chain
		m, err := d.Next(&c)
		if errors.Is(err, sourcetest.ErrUnsteady) || errors.Is(err, os.ErrDeadlineExceeded) {
			if c.Len() > 0 {
				t.Fatalf("%d bytes given with the error %v", c.Len(), err)
			}
			continue
		}
		if err != nil {
			d.Release()
			r.Release()
			if n := pool.Stats().InUse; n != 0 || c.Len() > 0 {
				t.Fatalf("%d bytes in use after Release, %d bytes given with the error %v", n,
					c.Len(), err)
			}
			return list, err
		}
		list = append(list, slowMessage{m, string(c.Bytes())})
		c.Release()
	}
}

// sameResult compares the result of a Decoder with the reference's.
func sameResult(t testing.TB, got []slowMessage, gotErr error, want []slowMessage, wantErr error) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("message %d:\n got %+v %.60q\nwant %+v %.60q", i, got[i].Message, got[i].body,
				want[i].Message, want[i].body)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages (%v), want %d (%v)", len(got), gotErr, len(want), wantErr)
	}
	if slowError(gotErr) != wantErr {
		t.Fatalf("error %v, want %v", gotErr, wantErr)
	}
}

func TestDecoderAgainstReference(t *testing.T) {
	sessions := 300
	if testing.Short() {
		sessions = 60
	}
	for seed := range uint64(sessions) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		maxBody := 1 << (4 + rnd.IntN(13))
		session, sent := randomSession(rnd, 40, maxBody)
		maxMessage := 4*maxBody + 200 // including aggregates and unfinished messages
		want, wantErr := slowDecode(session, maxMessage)
		if len(want) != len(sent) || wantErr != io.EOF {
			t.Fatalf("seed %d: the reference has %d messages and %v, %d were sent", seed, len(want),
				wantErr, len(sent))
		}
		for i := range want {
			if want[i] != sent[i] {
				t.Fatalf("seed %d, message %d: the reference has %+v, sent was %+v", seed, i,
					want[i].Message, sent[i].Message)
			}
		}
		got, err := decodeAll(t, &sourcetest.Unsteady{Rest: string(session), Rand: rnd},
			18<<rnd.IntN(9), maxMessage)
		sameResult(t, got, err, want, wantErr)

		// Damaged or truncated sessions end in the same way.
		for range 10 {
			damaged := bytes.Clone(session[:rnd.IntN(len(session))])
			for range rnd.IntN(3) {
				if len(damaged) > 0 {
					damaged[rnd.IntN(min(len(damaged), 1000))] ^= 1 << rnd.IntN(8)
				}
			}
			want, wantErr := slowDecode(damaged, maxMessage)
			got, err := decodeAll(t, bytes.NewReader(damaged), 4096, maxMessage)
			sameResult(t, got, err, want, wantErr)
		}
	}
}

// stuttering returns parts of the input, with a deadline error after each.
type stuttering struct {
	parts [][]byte
	late  bool
}

func (s *stuttering) Read(p []byte) (int, error) {
	if s.late = !s.late; s.late && len(s.parts) > 0 {
		n := copy(p, s.parts[0])
		if s.parts[0] = s.parts[0][n:]; len(s.parts[0]) > 0 {
			s.late = false
		} else {
			s.parts = s.parts[1:]
		}
		return n, nil
	}
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	return 0, os.ErrDeadlineExceeded
}

// recorded is a short session with all kinds of state.
func recorded() []byte {
	ext := uint32(0x01020304)
	aggregate := "\x08\x00\x00\x03\x00\x00\x10\x00\x00\x00\x00abc\x00\x00\x00\x0e" +
		"\x09\x00\x00\x02\x00\x00\x20\x00\x00\x00\x00de\x00\x00\x00\x0d"
	s := control(1, 20) +
		rawChunks(70, 9, ext, 1, strings.Repeat("picture", 9), 20, true) +
		rawChunks(400, 9, ext, 1, strings.Repeat("PICTURE", 9), 20, false) +
		rawMessage(8, 10, "sound") +
		string(rawHeader(2, 3, 0x1000001, 0, 0, 0)) + "SOUND" +
		string(rawHeader(3, 3, 0, 0, 0, 0)) + "\x01\x00\x00\x01Sound" +
		string(rawHeader(0, 8, 5, 30, 9, 1)) + strings.Repeat("x", 20) + control(2, 8) +
		string(rawHeader(1, 9, 5, 0, 18, 0)) +
		rawChunks(10, 22, 1000, 1, aggregate, 20, false) +
		string(rawHeader(0, 11, 5, 40, 9, 1)) + strings.Repeat("y", 20) + control(1, 1500) +
		"\xcb" + strings.Repeat("z", 20)
	return []byte(s + rawMessage(20, 0, strings.Repeat("command", 150)))
}

// If the source is interrupted anywhere, no message is lost or returned twice.
func TestEverySplit(t *testing.T) {
	session := recorded()
	const maxMessage = 1 << 16
	want, wantErr := slowDecode(session, maxMessage)
	if len(want) != 10 || wantErr != io.EOF {
		t.Fatalf("the reference has %d messages and %v", len(want), wantErr)
	}
	for k := range len(session) + 1 {
		src := &stuttering{parts: [][]byte{session[:k], session[k:]}}
		if k == 0 {
			src.parts = src.parts[1:]
		}
		got, err := decodeAll(t, src, 4096, maxMessage)
		sameResult(t, got, err, want, wantErr)

		// A connection that ends at k has returned all complete messages.
		cut, cutErr := slowDecode(session[:k], maxMessage)
		got, err = decodeAll(t, bytes.NewReader(session[:k]), 4096, maxMessage)
		sameResult(t, got, err, cut, cutErr)
	}
	var bytewise [][]byte
	for i := range session {
		bytewise = append(bytewise, session[i:i+1])
	}
	got, err := decodeAll(t, &stuttering{parts: bytewise}, 18, maxMessage)
	sameResult(t, got, err, want, wantErr)
}

func TestDecoderRefuses(t *testing.T) {
	streams := func(n int) (s string) {
		for i := range n {
			s += string(rawHeader(0, 2+i, 0, 0, 8, 1))
		}
		return s
	}
	unfinished := func(n int) (s string) {
		for i := range n {
			s += string(rawHeader(0, 3+i, 0, 1<<10, 9, 1)) + strings.Repeat("x", 128)
		}
		return s
	}
	part := func(kind byte) string {
		return rawMessage(22, 0, string([]byte{kind, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0})+
			"\x00\x00\x00\x05")
	}
	for _, tt := range []struct {
		name  string
		in    string
		error string
	}{
		{"chunks of 0 bytes", control(
			1, 0), "rtmp: set chunk size: want 1 to 2147483647 in 4 bytes"},
		{"chunks of 2 GiB", control(1, 1<<31),
			"rtmp: set chunk size: want 1 to 2147483647 in 4 bytes"},
		{"a chunk size of 3 bytes", rawMessage(1, 0, "\x00\x10\x00"),
			"rtmp: set chunk size: want 1 to 2147483647 in 4 bytes"},
		{"a message of 16 MiB", string(rawHeader(0, 3, 0, 1<<24-1, 9, 1)),
			"rtmp: bytes of one message: 16777215, limit 1024"},
		{"one more than the limit", string(rawHeader(0, 3, 0, 1025, 9, 1)),
			"rtmp: bytes of one message: 1025, limit 1024"},
		{"thousands of chunk streams", streams(5000), "rtmp: chunk streams: 129, limit 128"},
		{"unfinished messages", unfinished(100),
			"rtmp: bytes of unfinished messages: 2176, limit 2048"},
		{"a message inside another one", string(rawHeader(0, 3, 0, 1000, 9,
			1)) + strings.Repeat("x", 128) + rawMessage(8, 0, "a"),
			"rtmp: a message begins in the middle of another one of the same chunk stream"},
		{"an aggregate of half a header", rawMessage(22, 0, "\x08\x00\x00"),
			"rtmp: an aggregate message ends in the middle of a part"},
		{"an aggregate of half a part", rawMessage(22, 0,
			"\x08\x00\x00\x03\x00\x00\x10\x00\x00\x00\x00ab"),
			"rtmp: an aggregate message ends in the middle of a part"},
		{"an aggregate that sets the chunk size", part(1),
			"rtmp: an aggregate message has a part that sets the chunk size, aborts or is an aggregate"},
		{"an aggregate that aborts", part(2),
			"rtmp: an aggregate message has a part that sets the chunk size, aborts or is an aggregate"},
		{"an aggregate of aggregates", part(22),
			"rtmp: an aggregate message has a part that sets the chunk size, aborts or is an aggregate"},
		{"the end inside a header", "\x03\x00", "unexpected EOF"},
		{"the end before a payload", string(rawHeader(0, 3, 0, 3, 9, 1)), "unexpected EOF"},
		{"the end inside a payload", string(rawHeader(0, 3, 0, 3, 9, 1)) + "ab", "unexpected EOF"},
		{"the end between chunks", string(rawHeader(0, 3, 0, 300, 9, 1)) + strings.Repeat("x", 128),
			"unexpected EOF"},
		{"the end", "", "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, wantErr := slowDecode([]byte(tt.in), 1<<10)
			got, err := decodeAll(t, strings.NewReader(tt.in), 4096, 1<<10)
			sameResult(t, got, err, want, wantErr)
			if err.Error() != tt.error {
				t.Errorf("error %q, want %q", err, tt.error)
			}
		})
	}
	if got, err := decodeAll(t, strings.NewReader(rawMessage(9, 0, strings.Repeat("x", 100))), 4096,
		100); err != io.EOF || len(got) != 1 {
		t.Errorf("a message of the limit: %d messages, %v", len(got), err)
	}
	if got, err := decodeAll(t, strings.NewReader(streams(128)), 4096, 100); err != io.EOF ||
		len(got) != 128 {
		t.Errorf("as many chunk streams as there may be: %d messages, %v", len(got), err)
	}
}

func TestSetMaxMessage(t *testing.T) {
	r := millrace.NewReader(strings.NewReader(rawMessage(9, 0,
		strings.Repeat("x", 100)) + rawMessage(9, 0, strings.Repeat("y", 100))))
	defer r.Release()
	d := rtmp.NewDecoder(r, 1<<30)
	defer d.Release()
	var c millrace.Chain
	defer c.Release()
	d.SetMaxMessage(100)
	if _, err := d.Next(&c); err != nil {
		t.Fatal(err)
	}
	d.SetMaxMessage(99)
	var limit *rtmp.LimitError
	if _, err := d.Next(&c); !errors.As(err, &limit) || limit.Limit != 99 || c.Len() != 100 {
		t.Errorf("%v, with %d bytes in all", err, c.Len())
	}
}

// The memory for a declared length is not held before the bytes arrive, however slowly they do.
func TestMemoryFollowsWhatArrives(t *testing.T) {
	const size, part = 1<<24 - 1, 40_000
	for _, tt := range []struct {
		name  string
		chunk int
	}{{"in one chunk", size}, {"in chunks of 4096", 4096}, {"in chunks of 128", 128},
		{"in chunks of 1", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			session := control(1, uint32(tt.chunk)) + rawChunks(3, 9, 0, 1,
				strings.Repeat("x", part), tt.chunk, false)
			session = strings.Replace(session, string(rawHeader(0, 3, 0, part, 9, 1)),
				string(rawHeader(0, 3, 0, size, 9, 1)), 1)
			var bytewise [][]byte
			for i := range len(session) {
				bytewise = append(bytewise, []byte{session[i]})
			}
			bytewise = append(bytewise, []byte("never read"))
			pool := millrace.NewPool()
			r := pool.NewReader(&stuttering{parts: bytewise}, 4096)
			d := rtmp.NewDecoder(r, size)
			before := millrace.DefaultPool().Stats().InUse
			var c millrace.Chain
			most := int64(0)
			for range len(session) {
				if _, err := d.Next(&c); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				most = max(most, pool.Stats().InUse+millrace.DefaultPool().Stats().InUse-before)
			}
			if d.Received() != uint64(len(session)) {
				t.Errorf("%d bytes received, want %d", d.Received(), len(session))
			}
			d.Release()
			r.Release()
			// A quarter more than the received bytes, and one block.
			if limit := int64(len(session))*5/4 + 16<<10; most > limit {
				t.Errorf("%d bytes held for %d that have come", most, len(session))
			}
			if n := pool.Stats().InUse + millrace.DefaultPool().Stats().InUse - before; n != 0 {
				t.Errorf("%d bytes held after Release", n)
			}
		})
	}
}

// Bodies are not copied, unless the chunks are small.
func TestBodiesAreNotCopied(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 500)
	for _, tt := range []struct {
		chunk  int
		shared bool
	}{{16 << 20, true}, {len(body), true}, {4096, true}, {1 << 10, true}, {1<<10 - 1, false},
		{128, false}, {1, false}} {
		t.Run(fmt.Sprint(tt.chunk), func(t *testing.T) {
			// The source is a Chain with known memory.
			var source millrace.Chain
			source.AppendCopy([]byte(control(1, uint32(tt.chunk)) + rawChunks(3, 9, 0, 1, body,
				tt.chunk, false)))
			mine := source.Bytes()
			within := func(p []byte) bool {
				at := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
				from := uintptr(unsafe.Pointer(unsafe.SliceData(mine)))
				return at >= from && at < from+uintptr(len(mine))
			}
			given := false
			r := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
				if given {
					return io.EOF
				}
				given = true
				source.CloneTo(dst)
				return nil
			})
			d := rtmp.NewDecoder(r, 1<<24-1)
			var c millrace.Chain
			m, err := d.Next(&c)
			if err != nil || m.Size != len(body) || string(bytes.Join(pieces(&c), nil)) != body {
				t.Fatalf("%+v, %v, %d bytes, want the body in its pieces", m, err, c.Len())
			}
			for _, p := range pieces(&c) {
				if within(p) != tt.shared {
					t.Errorf("a piece of %d bytes is shared: %v, want %v", len(p), within(p),
						tt.shared)
				}
			}
			if want := (len(body) + tt.chunk - 1) / tt.chunk; tt.shared && c.Pieces() != want {
				t.Errorf("%d pieces, want %d", c.Pieces(), want)
			}
			if !tt.shared && c.Pieces() > len(body)/1024+1 {
				t.Errorf("%d pieces of small chunks", c.Pieces())
			}
			d.Release()
			r.Release()
			c.Release()
			source.Release()
		})
	}
}

func pieces(c *millrace.Chain) (list [][]byte) {
	for p := range c.All() {
		list = append(list, p)
	}
	return list
}

// A kept message of small chunks does not keep the large block in which it arrived.
func TestSmallChunksKeepNoLargeBlock(t *testing.T) {
	const n = 64
	pool := millrace.NewPool()
	// Video frames of one chunk let the blocks grow. Between them are messages of 300 bytes in
	// chunks of 128.
	var session strings.Builder
	for range n {
		session.WriteString(control(1, 1<<16) + rawMessage(9, 0, strings.Repeat("p", 1<<16)))
		session.WriteString(control(1, 128) + rawChunks(5, 8, 0, 1, strings.Repeat("s", 300), 128,
			false))
	}
	r := pool.NewReader(strings.NewReader(session.String()), 4096)
	d := rtmp.NewDecoder(r, 1<<24-1)
	before := millrace.DefaultPool().Stats().InUse
	var kept [n]millrace.Chain
	for i := range kept {
		var c millrace.Chain
		if _, err := d.Next(&c); err != nil {
			t.Fatal(err)
		}
		c.Release()
		if m, err := d.Next(&kept[i]); err != nil || m.Type != rtmp.TypeAudio {
			t.Fatal(m, err)
		}
	}
	d.Release()
	r.Release()
	if in := pool.Stats().InUse; in != 0 {
		t.Errorf("%d bytes of the connection's blocks are kept", in)
	}
	if in := millrace.DefaultPool().Stats().InUse - before; in > n*1<<10 {
		t.Errorf("%d bytes are kept for %d messages of 300", in, n)
	}
	for i := range kept {
		kept[i].Release()
	}
}

func TestReceived(t *testing.T) {
	session := recorded()
	r := millrace.NewReader(bytes.NewReader(session))
	defer r.Release()
	d := rtmp.NewDecoder(r, 1<<16)
	defer d.Release()
	for {
		var c millrace.Chain
		_, err := d.Next(&c)
		c.Release()
		if err != nil {
			break
		}
	}
	if d.Received() != uint64(len(session)) {
		t.Errorf("%d bytes received, want %d", d.Received(), len(session))
	}
}

func TestTypeString(t *testing.T) {
	for want, kind := range map[string]rtmp.Type{"set chunk size": 1, "video": 9, "data (AMF3)": 15,
		"message type 99": 99} {
		if got := kind.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
