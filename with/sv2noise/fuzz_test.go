package sv2noise

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/sv2"
)

// The initiator reads anything in place of act 2, and a certificate that the responder may choose.
// It accepts a whole act 2 with a valid certificate only.
func FuzzInitiate(f *testing.F) {
	f.Add([]byte(nil), []byte(nil))
	f.Add([]byte{1}, []byte(nil))
	f.Add([]byte(nil), []byte{0, 0, 1})
	f.Add(bytes.Repeat([]byte{0xff}, 300), []byte(nil))
	responder, ours := newSite(f), newKeyPair()
	verify := SignedBy(responder.authority)
	f.Fuzz(func(t *testing.T, change, certificate []byte) {
		hostile := site{&Responder{responder.Responder.static, responder.certificate},
			responder.authority, responder.static}
		valid := !xor(hostile.certificate[:], certificate)
		act2 := hostile.act2(t, ours.public[:])
		whole := !xor(act2, change)
		err := initiateWith(ours, bytes.NewReader(act2), verify)
		var e *CertificateError
		switch {
		case !whole && err == ErrTag, whole && !valid && errors.As(err, &e),
			whole && valid && err == nil:
		default:
			t.Errorf("act 2 unchanged: %v, certificate unchanged: %v, error: %v", whole, valid, err)
		}
		if err := initiateWith(ours, bytes.NewReader(change), nil); err == nil {
			t.Error("accepted an act 2 that no responder made")
		}
	})
}

// xor changes p by the bits of change, and reports whether it changed anything.
func xor(p, change []byte) (changed bool) {
	for i := range min(len(p), len(change)) {
		p[i] ^= change[i]
		changed = changed || change[i] != 0
	}
	return changed
}

// The responder answers any 64 bytes, and refuses the frames of an initiator without the keys.
func FuzzRespond(f *testing.F) {
	v := readVectors(f)[0]
	f.Add([]byte(v.Act1))
	f.Add(append(bytes.Clone(v.Act1), v.Up[0].Bytes...))
	f.Add(make([]byte, 64)) // u = t = 0
	f.Add(append(make([]byte, 32), bytes.Repeat([]byte{0xff}, 100)...))
	f.Add([]byte(`{"id": 1, "method": "mining.subscribe", "params": []}` + "\n"))
	responder := newSite(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		r := millrace.NewReader(bytes.NewReader(in))
		defer r.Release()
		var sent bytes.Buffer
		_, opener, err := responder.Respond(r, &sent)
		switch {
		case len(in) == 0 && err == io.EOF,
			len(in) > 0 && len(in) < sv2.Act1Size && err == io.ErrUnexpectedEOF:
			if sent.Len() > 0 {
				t.Errorf("%d bytes sent before the end of act 1", sent.Len())
			}
			return
		case len(in) < sv2.Act1Size || err != nil || sent.Len() != sv2.Act2Size:
			t.Fatalf("%d bytes: sent %d bytes, %v", len(in), sent.Len(), err)
		}
		if _, err := encodedKey(in).decode(); err != nil {
			t.Error(err)
		}
		if text, err := receive(opener); err == nil {
			t.Errorf("opened %q", text)
		}
	})
}

func FuzzParsePublicKey(f *testing.F) {
	f.Add(specText)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		key, err := ParsePublicKey(s)
		if err == nil && key.String() != s || err != nil && key != (PublicKey{}) {
			t.Errorf("%q: %v, %v", s, key, err)
		}
	})
}
