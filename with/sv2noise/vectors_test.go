package sv2noise

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame/sv2"
)

// vectors are handshakes of the reference implementation, made by the program in
// frame/sv2/testdata/vectors.
type vectors struct {
	Handshakes []vector
}

type vector struct {
	Authority, Initiator, Responder, Static vectorKey

	ValidFrom     int64 `json:"valid_from"`
	NotValidAfter int64 `json:"not_valid_after"`
	Act1, Act2    hexBytes
	Up, Down      []vectorFrame
}

type vectorKey struct{ Private, Public, Encoded hexBytes }

type vectorFrame struct {
	Extension uint16
	Channel   bool
	Type      uint8
	Length    int
	Bytes     hexBytes
}

type hexBytes []byte

func (h *hexBytes) UnmarshalText(p []byte) (err error) {
	*h, err = hex.DecodeString(string(p))
	return err
}

func (k vectorKey) private(t testing.TB) *PrivateKey {
	t.Helper()
	key, err := NewPrivateKey(k.Private)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (k vectorKey) pair(t testing.TB) keyPair {
	return keyPair{k.private(t).key, encodedKey(k.Encoded)}
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "handshakes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Handshakes) == 0 {
		t.Fatal("no vectors")
	}
	return v.Handshakes
}

func TestKeysAreThoseOfTheReference(t *testing.T) {
	for _, v := range readVectors(t) {
		for _, k := range []vectorKey{v.Authority, v.Initiator, v.Responder, v.Static} {
			public := k.private(t).Public()
			if !bytes.Equal(public[:], k.Public) {
				t.Errorf("public key %x, want %x", public[:], k.Public)
			}
			if got, err := encodedKey(k.Encoded).decode(); err != nil || got != public {
				t.Errorf("%x decodes to %x, %v, want %x", k.Encoded, got[:], err, public[:])
			}
		}
	}
}

// With the keys of the reference, both roles send the acts of the reference, and seal and open its
// frames.
func TestHandshakesAreThoseOfTheReference(t *testing.T) {
	for _, v := range readVectors(t) {
		var certificate Certificate
		verify := func(static PublicKey, c Certificate) error {
			certificate = c
			if !bytes.Equal(static[:], v.Static.Public) {
				t.Errorf("static key %x, want %x", static[:], v.Static.Public)
			}
			if c.ValidFrom() != time.Unix(v.ValidFrom, 0) ||
				c.NotValidAfter() != time.Unix(v.NotValidAfter, 0) {
				t.Errorf("valid from %v until %v", c.ValidFrom(), c.NotValidAfter())
			}
			return c.Verify(PublicKey(v.Authority.Public), static, time.Unix(v.ValidFrom, 0))
		}
		var sent bytes.Buffer
		r := millrace.NewReader(io.MultiReader(bytes.NewReader(v.Act2), wire(v.Down)))
		sealer, opener, err := initiate(r, &sent, v.Initiator.pair(t), verify, nil)
		if err != nil || !bytes.Equal(sent.Bytes(), v.Act1) {
			t.Fatalf("initiator: sent %x, %v, want %x", sent.Bytes(), err, v.Act1)
		}
		checkFrames(t, "initiator", sealer, v.Up, opener, v.Down)
		r.Release()

		sent.Reset()
		r = millrace.NewReader(wire(v.Up))
		sealer, opener, err = (&Responder{v.Static.pair(t), certificate}).respond(r, &sent,
			encodedKey(v.Act1), v.Responder.pair(t), nil)
		if err != nil || !bytes.Equal(sent.Bytes(), v.Act2) {
			t.Fatalf("responder: sent %x, %v, want %x", sent.Bytes(), err, v.Act2)
		}
		checkFrames(t, "responder", sealer, v.Down, opener, v.Up)
		r.Release()
	}
}

func wire(frames []vectorFrame) io.Reader {
	var p []byte
	for _, f := range frames {
		p = append(p, f.Bytes...)
	}
	return bytes.NewReader(p)
}

func checkFrames(t *testing.T, role string, sealer *sv2.Sealer, send []vectorFrame,
	opener *sv2.Opener, receive []vectorFrame) {
	t.Helper()
	var buf arena.Heap
	for _, f := range send {
		s, err := sealer.Seal(&buf, f.header(), func(buf arena.Buffer) error {
			_, err := buf.Write(f.payload())
			return err
		})
		if err != nil || !bytes.Equal(s.Bytes(), f.Bytes) {
			t.Errorf("%s: sealed %x, %v, want %x", role, s.Bytes(), err, f.Bytes)
		}
	}
	for _, f := range receive {
		s, h, err := opener.NextInto(&buf)
		if err != nil || h != f.header() || !bytes.Equal(s.Bytes()[sv2.HeaderSize:], f.payload()) {
			t.Errorf("%s: opened %+v, %x, %v", role, h, s.Bytes(), err)
		}
	}
	if _, _, err := opener.NextInto(&buf); err != io.EOF {
		t.Errorf("%s: %v, want io.EOF", role, err)
	}
}

func (f vectorFrame) header() sv2.Header {
	return sv2.Header{ExtensionType: f.Extension, Channel: f.Channel, MessageType: f.Type,
		Length: f.Length}
}

func (f vectorFrame) payload() []byte {
	p := make([]byte, f.Length)
	for i := range p {
		p[i] = byte(i ^ i>>8 ^ i>>16 ^ 165)
	}
	return p
}
