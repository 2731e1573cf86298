package sv2noise

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// A site is a responder and the public key of its authority.
type site struct {
	*Responder
	authority, static PublicKey
}

func newSite(t testing.TB) site {
	authority, static := GenerateKey(), GenerateKey()
	c := mustSign(t, authority, static.Public(), time.Now().Add(-time.Hour),
		time.Now().Add(time.Hour))
	return site{NewResponder(static, c), authority.Public(), static.Public()}
}

// act2 returns the responder's answer to act1.
func (s site) act2(t testing.TB, act1 []byte) []byte {
	t.Helper()
	var act2 bytes.Buffer
	r := millrace.NewReader(bytes.NewReader(act1))
	defer r.Release()
	if _, _, err := s.Respond(r, &act2); err != nil || act2.Len() != sv2.Act2Size {
		t.Fatalf("act 2 of %d bytes, %v", act2.Len(), err)
	}
	return act2.Bytes()
}

// initiateWith returns the error of an initiator with the key ours that reads in.
func initiateWith(ours keyPair, in io.Reader, verify func(PublicKey, Certificate) error) error {
	r := millrace.NewReader(in)
	defer r.Release()
	sealer, opener, err := initiate(r, io.Discard, ours, verify, nil)
	if (sealer == nil) != (err != nil) || (opener == nil) != (err != nil) {
		panic("want either keys or an error")
	}
	return err
}

func send(w io.Writer, sealer *sv2.Sealer, text string) error {
	s, err := sealer.Seal(new(arena.Heap), sv2.Header{MessageType: 1},
		func(buf arena.Buffer) error {
			_, err := io.WriteString(buf, text)
			return err
		})
	if err != nil {
		return err
	}
	_, err = w.Write(s.Bytes())
	return err
}

func receive(opener *sv2.Opener) (string, error) {
	s, _, err := opener.NextInto(new(arena.Heap))
	if err != nil {
		return "", err
	}
	return string(s.Bytes()[sv2.HeaderSize:]), nil
}

// Many initiators at a time agree on keys with one Responder, over TCP. Each connection has its own
// keys.
func TestBothRolesAgreeOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pool := millrace.NewPool()
	defer leaktest.Check(t, pool)
	responder := newSite(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	const conns = 20
	wg.Go(func() {
		for range conns {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			wg.Go(func() {
				defer conn.Close()
				r := pool.NewReader(conn, 4096)
				defer r.Release()
				sealer, opener, err := responder.Respond(r, conn)
				if err != nil {
					t.Error(err)
					return
				}
				for {
					text, err := receive(opener)
					if err == io.EOF {
						return
					}
					if err == nil {
						err = send(conn, sealer, text+" back")
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	})
	for range conns {
		wg.Go(func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			r := pool.NewReader(conn, 4096)
			defer r.Release()
			sealer, opener, err := Initiate(r, conn, SignedBy(responder.authority))
			if err != nil {
				t.Error(err)
				return
			}
			for range 3 {
				if err := send(conn, sealer, "there and"); err != nil {
					t.Error(err)
				}
				if text, err := receive(opener); text != "there and back" || err != nil {
					t.Error(text, err)
				}
			}
		})
	}
}

// Bytes that the initiator sends right after act 1 are for the Opener.
func TestFramesMayFollowAnActAtOnce(t *testing.T) {
	v := readVectors(t)[0]
	r := millrace.NewReader(iotest.OneByteReader(io.MultiReader(bytes.NewReader(v.Act2),
		wire(v.Down))))
	defer r.Release()
	_, opener, err := initiate(r, io.Discard, v.Initiator.pair(t), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range v.Down {
		if _, err := receive(opener); err != nil {
			t.Error(err)
		}
	}
}

func TestOptionsAreTheOpeners(t *testing.T) {
	v := readVectors(t)[0]
	r := millrace.NewReader(io.MultiReader(bytes.NewReader(v.Act2), wire(v.Down)))
	defer r.Release()
	_, opener, err := initiate(r, io.Discard, v.Initiator.pair(t), nil,
		[]frame.Option{frame.MaxPayload(v.Down[0].Length - 1)})
	if err != nil {
		t.Fatal(err)
	}
	var limit *frame.LimitError
	if _, err := receive(opener); !errors.As(err, &limit) {
		t.Errorf("%v, want a *frame.LimitError", err)
	}
}

func TestInitiatorRefusesAnyChangeOfAct2(t *testing.T) {
	responder, ours := newSite(t), newKeyPair()
	act2 := responder.act2(t, ours.public[:])
	verify := SignedBy(responder.authority)
	if err := initiateWith(ours, bytes.NewReader(act2), verify); err != nil {
		t.Fatal(err)
	}
	for i := range act2 {
		changed := bytes.Clone(act2)
		changed[i] ^= 1 << (i % 8)
		if err := initiateWith(ours, bytes.NewReader(changed), verify); err != ErrTag {
			t.Errorf("byte %d: %v, want ErrTag", i, err)
		}
	}
	if err := initiateWith(newKeyPair(), bytes.NewReader(act2), verify); err != ErrTag {
		t.Errorf("for another initiator: %v, want ErrTag", err)
	}
}

func TestInitiatorRefusesAct2ForAChangedAct1(t *testing.T) {
	responder, ours := newSite(t), newKeyPair()
	for i := range ours.public {
		act1 := ours.public
		act1[i] ^= 1
		act2 := responder.act2(t, act1[:])
		if err := initiateWith(ours, bytes.NewReader(act2), nil); err != ErrTag {
			t.Errorf("byte %d: %v, want ErrTag", i, err)
		}
	}
}

// A responder cannot use the certificate of another one: with its own static key the signature is
// wrong, and with the other's it lacks the private key.
func TestStolenCertificate(t *testing.T) {
	victim, ours := newSite(t), newKeyPair()
	verify := SignedBy(victim.authority)
	own := site{NewResponder(GenerateKey(), victim.certificate), victim.authority, PublicKey{}}
	if err := initiateWith(ours, bytes.NewReader(own.act2(t, ours.public[:])),
		verify); !errors.Is(err, ErrSignature) {
		t.Errorf("%v, want ErrSignature", err)
	}
	pair := keyPair{GenerateKey().key, victim.Responder.static.public}
	theirs := site{&Responder{pair, victim.certificate}, victim.authority, PublicKey{}}
	if err := initiateWith(ours, bytes.NewReader(theirs.act2(t, ours.public[:])),
		verify); err != ErrTag {
		t.Errorf("%v, want ErrTag", err)
	}
}

func TestVerifyDecides(t *testing.T) {
	responder, ours := newSite(t), newKeyPair()
	act2 := responder.act2(t, ours.public[:])
	refusal := errors.New("refused")
	calls := 0
	err := initiateWith(ours, bytes.NewReader(act2), func(static PublicKey, c Certificate) error {
		calls++
		if static != responder.static || c != responder.certificate {
			t.Errorf("static key %v, certificate %x", static, c)
		}
		return refusal
	})
	if err != refusal || calls != 1 {
		t.Errorf("%v after %d calls, want the error of verify", err, calls)
	}
	if err := initiateWith(ours, bytes.NewReader(act2), nil); err != nil {
		t.Errorf("without verify: %v", err)
	}
}

// The error of a stream that ends tells whether an act had begun. Other errors are unchanged.
func TestStreamsThatEnd(t *testing.T) {
	responder, ours := newSite(t), newKeyPair()
	act2 := responder.act2(t, ours.public[:])
	respond := func(in io.Reader) error {
		r := millrace.NewReader(in)
		defer r.Release()
		_, _, err := responder.Respond(r, io.Discard)
		return err
	}
	start := func(in io.Reader) error { return initiateWith(ours, in, nil) }
	broken := errors.New("broken")
	for name, role := range map[string]struct {
		run func(io.Reader) error
		act []byte
	}{"initiator": {start, act2}, "responder": {respond, ours.public[:]}} {
		for n := range role.act {
			want := io.ErrUnexpectedEOF
			if n == 0 {
				want = io.EOF
			}
			if err := role.run(bytes.NewReader(role.act[:n])); err != want {
				t.Errorf("%s, %d bytes: %v, want %v", name, n, err, want)
			}
			if err := role.run(io.MultiReader(bytes.NewReader(role.act[:n]),
				iotest.ErrReader(broken))); err != broken {
				t.Errorf("%s, %d bytes: %v, want %v", name, n, err, broken)
			}
		}
		if err := role.run(iotest.OneByteReader(bytes.NewReader(role.act))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWriteErrors(t *testing.T) {
	broken := errors.New("broken")
	w := writerFunc(func(p []byte) (int, error) { return 0, broken })
	ours := newKeyPair()
	r := millrace.NewReader(bytes.NewReader(ours.public[:]))
	defer r.Release()
	if _, _, err := Initiate(r, w, nil); err != broken {
		t.Errorf("initiator: %v", err)
	}
	if _, _, err := newSite(t).Respond(r, w); err != broken {
		t.Errorf("responder: %v", err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The deadline of the connection limits the handshake.
func TestSilentPeer(t *testing.T) {
	for name, role := range map[string]func(*millrace.Reader, net.Conn) error{
		"initiator": func(r *millrace.Reader, c net.Conn) error {
			_, _, err := Initiate(r, c, nil)
			return err
		},
		"responder": func(r *millrace.Reader, c net.Conn) error {
			_, _, err := newSite(t).Respond(r, c)
			return err
		},
	} {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far)
		near.SetDeadline(time.Now().Add(10 * time.Millisecond))
		r := millrace.NewReader(near)
		var timeout net.Error
		if err := role(r, near); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: %v, want a timeout", name, err)
		}
		r.Release()
		near.Close()
		far.Close()
	}
}

func BenchmarkHandshake(b *testing.B) {
	responder := newSite(b)
	verify := SignedBy(responder.authority)
	b.Run("responder", func(b *testing.B) {
		act1 := newKeyPair().public
		for b.Loop() {
			responder.act2(b, act1[:])
		}
	})
	b.Run("initiator", func(b *testing.B) {
		ours := newKeyPair()
		act2 := responder.act2(b, ours.public[:])
		for b.Loop() {
			_ = newKeyPair()
			if err := initiateWith(ours, bytes.NewReader(act2), verify); err != nil {
				b.Fatal(err)
			}
		}
	})
}
