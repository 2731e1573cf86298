package sv2_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
)

// vectors are the output of the reference implementation, made by the program in testdata/vectors.
type vectors struct {
	Acts            [2]int
	Headers         []vector
	SetupConnection vector `json:"setup_connection"`
	Up, Down        struct {
		Key    string
		Frames []vector
	}
}

// vector is a header or a frame. Bytes are in hexadecimal. Of long frames there is only a checksum.
type vector struct {
	Extension uint16
	Channel   bool
	Type      uint8
	Length    int
	Encrypted int // length of the payload on the wire
	Nonce     uint64
	Wire      int // length of the frame on the wire
	SHA256    string
	Bytes     string
}

func (v vector) header() sv2.Header {
	return sv2.Header{ExtensionType: v.Extension, Channel: v.Channel, MessageType: v.Type,
		Length: v.Length}
}

// payload is the payload of the encrypted frames.
func (v vector) payload() []byte {
	p := make([]byte, v.Length)
	for i := range p {
		p[i] = byte(i ^ i>>8 ^ i>>16 ^ 165)
	}
	return p
}

// plain is the frame before it was encrypted.
func (v vector) plain(t testing.TB) []byte {
	p, err := v.header().Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return append(p, v.payload()...)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	p, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Headers) == 0 || len(v.Up.Frames) == 0 || len(v.Down.Frames) == 0 {
		t.Fatal("no vectors")
	}
	return v
}

func TestHeadersAreThoseOfTheReference(t *testing.T) {
	v := readVectors(t)
	if v.Acts != [...]int{sv2.Act1Size, sv2.Act2Size} {
		t.Errorf("acts of %d bytes, want %d and %d", v.Acts, sv2.Act1Size, sv2.Act2Size)
	}
	for _, v := range v.Headers {
		raw := unhex(t, v.Bytes)
		if got, err := sv2.ParseHeader(append(raw, "behind"...)); err != nil || got != v.header() {
			t.Errorf("%s: parsed %+v, %v, want %+v", v.Bytes, got, err, v.header())
		}
		for n := range raw {
			if h, err := sv2.ParseHeader(raw[:n]); err != io.ErrUnexpectedEOF ||
				h != (sv2.Header{}) {
				t.Errorf("%d bytes: %+v, %v, want io.ErrUnexpectedEOF", n, h, err)
			}
		}
		if got, err := v.header().Append([]byte("x")); err != nil ||
			string(got) != "x"+string(raw) {
			t.Errorf("%+v: built %x, %v, want %s", v.header(), got[1:], err, v.Bytes)
		}
		if got := sv2.HeaderOf(v.header().Frame()); got != v.header() {
			t.Errorf("%+v became %+v on the way through a frame.Header", v.header(), got)
		}
		if got := sv2.EncryptedLen(v.Length); got != v.Encrypted {
			t.Errorf("EncryptedLen(%d) is %d, want %d", v.Length, got, v.Encrypted)
		}
	}
}

func TestMessageIsThatOfTheReference(t *testing.T) {
	v := readVectors(t).SetupConnection
	raw := unhex(t, v.Bytes)
	r := millrace.NewReader(bytes.NewReader(raw))
	defer r.Release()
	s, f, err := frame.NewDecoder(r, sv2.Format{}).NextInto(new(arena.Heap))
	if err != nil || !bytes.Equal(s.Bytes(), raw) || sv2.HeaderOf(f) != v.header() {
		t.Fatalf("%x, %+v, %v, want the reference's bytes", s.Bytes(), f, err)
	}
	payload := string(s.Bytes()[sv2.HeaderSize:])
	built, err := frame.NewEncoder(sv2.Format{}).Assemble(new(arena.Heap), v.header().Frame(),
		writing(payload))
	if err != nil || !bytes.Equal(built.Bytes(), raw) {
		t.Errorf("built %x, %v, want the reference's bytes", built.Bytes(), err)
	}
}

// Sealed frames equal the reference's, from the first frame with a key to the last, and the
// reference's frames can be opened.
func TestEncryptedFramesAreThoseOfTheReference(t *testing.T) {
	v := readVectors(t)
	for name, side := range map[string]struct {
		key    string
		frames []vector
	}{"up": {v.Up.Key, v.Up.Frames}, "down": {v.Down.Key, v.Down.Frames}} {
		for _, buf := range []arena.Buffer{new(arena.Heap), arena.NewPool(1 << 19)} {
			t.Run(fmt.Sprintf("%s/%T", name, buf), func(t *testing.T) {
				checkSide(t, unhex(t, side.key), side.frames, buf)
			})
		}
	}
}

func checkSide(t *testing.T, key []byte, frames []vector, buf arena.Buffer) {
	sealer := sv2.NewSealer(newChacha(key))
	var wire []byte
	for i, v := range frames {
		if got := sealer.Calls(); got != v.Nonce {
			t.Errorf("frame %d: nonce %d, want %d", i, got, v.Nonce)
		}
		s, err := sealer.Seal(buf, v.header(), writing(string(v.payload())))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(s.Bytes())
		if s.Len() != v.Wire || hex.EncodeToString(sum[:]) != v.SHA256 ||
			v.Bytes != "" && v.Bytes != hex.EncodeToString(s.Bytes()) {
			t.Fatalf("frame %d, %d bytes of payload: sealed %d bytes with SHA-256 %x, want %d with %s",
				i, v.Length, s.Len(), sum, v.Wire, v.SHA256)
		}
		wire = append(wire, s.Bytes()...)
		s.Release()
	}
	r := millrace.NewReader(iotest.HalfReader(bytes.NewReader(wire)))
	defer r.Release()
	opener := sv2.NewOpener(r, newChacha(key))
	for i, v := range frames {
		s, h, err := opener.NextInto(buf)
		if err != nil || h != v.header() || !bytes.Equal(s.Bytes(), v.plain(t)) {
			t.Fatalf("frame %d: opened %+v, %d bytes, %v", i, h, s.Len(), err)
		}
		s.Release()
	}
	if _, _, err := opener.NextInto(buf); err != io.EOF {
		t.Error(err)
	}
}
