package sv2noise

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/btcsuite/btcd/btcec/v2/ellswift"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
)

const (
	protocolName = "Noise_NX_Secp256k1+EllSwift_ChaChaPoly_SHA256"

	tagSize   = chacha20poly1305.Overhead
	staticEnd = len(encodedKey{}) + len(encodedKey{}) + tagSize // end of the static key in act 2
)

// ErrTag reports that the initiator cannot decrypt act 2. The responder has used other keys or
// another protocol, or a third party has modified a message.
var ErrTag = errors.New("sv2noise: act 2 cannot be decrypted")

// Initiate does the initiator's part of the handshake. It sends act 1 to w in one Write, and reads
// act 2 from r. Usually, r and w belong to the same connection. Initiate borrows r and w until it
// returns. From then on, the Opener borrows r. The options are for the Opener (see sv2.NewOpener).
//
// Initiate passes the responder's static key and certificate to the function verify. If the key
// does not belong to the expected responder, verify must return an error. [SignedBy] returns such a
// function. The caller can write another function that calls [Certificate.Verify], for example with
// another clock or for several authorities. If verify is nil, Initiate accepts every responder,
// which leaves the connection open to an attacker in the middle.
//
// The error is ErrTag, or an error from verify, r or w, unchanged. If the stream ends, the error is
// io.EOF before the first byte of act 2 and io.ErrUnexpectedEOF after it. After an error, the
// connection cannot be used.
func Initiate(
	r *millrace.Reader, w io.Writer, verify func(static PublicKey, c Certificate) error,
	opts ...frame.Option,
) (*sv2.Sealer, *sv2.Opener, error) {
	return initiate(r, w, newKeyPair(), verify, opts)
}

func initiate(
	r *millrace.Reader, w io.Writer, ours keyPair, verify func(PublicKey, Certificate) error,
	opts []frame.Option,
) (*sv2.Sealer, *sv2.Opener, error) {
	s := newState(ours.public)
	if _, err := w.Write(ours.public[:]); err != nil {
		return nil, nil, err
	}
	var act2 [sv2.Act2Size]byte
	if _, err := io.ReadFull(r, act2[:]); err != nil {
		return nil, nil, err
	}
	theirs := encodedKey(act2[:])
	s.mixHash(theirs[:])
	if err := s.mixECDH(ours, theirs, true); err != nil {
		return nil, nil, err
	}
	p, err := s.open(act2[len(theirs):staticEnd])
	if err != nil {
		return nil, nil, err
	}
	static := encodedKey(p)
	if err := s.mixECDH(ours, static, true); err != nil {
		return nil, nil, err
	}
	if p, err = s.open(act2[staticEnd:]); err != nil {
		return nil, nil, err
	}
	key, err := static.decode()
	if err != nil {
		return nil, nil, err
	}
	if verify != nil {
		if err := verify(key, Certificate(p)); err != nil {
			return nil, nil, err
		}
	}
	send, receive := s.split()
	return sv2.NewSealer(send), sv2.NewOpener(r, receive, opts...), nil
}

// A Responder does handshakes with initiators. It is safe for concurrent use. To renew the
// certificate, make another Responder.
type Responder struct {
	static      keyPair
	certificate Certificate
}

// NewResponder returns a Responder with a static key and an authority's certificate for this key.
// It does not check the certificate (see [Certificate.Verify]).
func NewResponder(static *PrivateKey, c Certificate) *Responder {
	return &Responder{static.pair(), c}
}

// Respond does the responder's part of the handshake. It reads act 1 from r, and sends act 2 to w
// in one Write. It borrows r and w until it returns. From then on, the Opener borrows r. The
// options are for the Opener (see sv2.NewOpener).
//
// Any 64 bytes are a valid act 1. If the initiator has other keys, the Opener returns a
// *sv2.TagError for the initiator's first frame.
//
// Respond returns an error from r or w, unchanged. If the stream ends, the error is io.EOF before
// the first byte of act 1 and io.ErrUnexpectedEOF after it. After an error, the connection cannot
// be used.
func (p *Responder) Respond(
	r *millrace.Reader, w io.Writer, opts ...frame.Option,
) (*sv2.Sealer, *sv2.Opener, error) {
	var theirs encodedKey
	if _, err := io.ReadFull(r, theirs[:]); err != nil {
		return nil, nil, err
	}
	return p.respond(r, w, theirs, newKeyPair(), opts)
}

func (p *Responder) respond(
	r *millrace.Reader, w io.Writer, theirs encodedKey, ours keyPair, opts []frame.Option,
) (*sv2.Sealer, *sv2.Opener, error) {
	s := newState(theirs)
	s.mixHash(ours.public[:])
	act2 := append(make([]byte, 0, sv2.Act2Size), ours.public[:]...)
	if err := s.mixECDH(ours, theirs, false); err != nil {
		return nil, nil, err
	}
	act2 = s.seal(act2, p.static.public[:])
	if err := s.mixECDH(p.static, theirs, false); err != nil {
		return nil, nil, err
	}
	act2 = s.seal(act2, p.certificate[:])
	receive, send := s.split()
	if _, err := w.Write(act2); err != nil {
		return nil, nil, err
	}
	return sv2.NewSealer(send), sv2.NewOpener(r, receive, opts...), nil
}

// A state is the SymmetricState of the Noise Protocol Framework (section 5.2). Each key encrypts
// only one message, so the nonce is always 0.
type state struct {
	chaining, hash [sha256.Size]byte
	aead           cipher.AEAD
}

var zeroNonce = make([]byte, chacha20poly1305.NonceSize)

// newState returns the state after act 1.
func newState(act1 encodedKey) *state {
	s := &state{chaining: sha256.Sum256([]byte(protocolName))}
	s.hash = sha256.Sum256(s.chaining[:])
	s.mixHash(act1[:])
	s.mixHash(nil) // the payload of act 1
	return s
}

func (s *state) mixHash(p []byte) {
	h := sha256.New()
	h.Write(s.hash[:])
	h.Write(p)
	h.Sum(s.hash[:0])
}

// mixECDH computes the secret that our key pair shares with the peer's key, and mixes this secret
// into the state.
func (s *state) mixECDH(ours keyPair, theirs encodedKey, initiator bool) error {
	secret, err := ellswift.V2Ecdh(ours.private, theirs, ours.public, initiator)
	if err != nil {
		return fmt.Errorf("sv2noise: %w", err)
	}
	s.mixKey(secret[:])
	return nil
}

func (s *state) mixKey(secret []byte) {
	first, second := s.derive(secret)
	s.chaining, s.aead = [sha256.Size]byte(first), newAEAD(second)
}

// split returns the ciphers of the initiator's messages (up) and the responder's (down).
func (s *state) split() (up, down cipher.AEAD) {
	first, second := s.derive(nil)
	return newAEAD(first), newAEAD(second)
}

// derive returns the two outputs of Noise's HKDF (section 4.3), which is the HKDF of RFC 5869.
func (s *state) derive(secret []byte) (first, second []byte) {
	keys, err := hkdf.Key(sha256.New, secret, s.chaining[:], "", 2*sha256.Size)
	if err != nil {
		panic(err) // impossible: the length is valid
	}
	return keys[:sha256.Size], keys[sha256.Size:]
}

func newAEAD(key []byte) cipher.AEAD {
	aead, err := chacha20poly1305.New(key)
	if err != nil {
		panic(err) // impossible: the key has 32 bytes
	}
	return aead
}

// seal encrypts p, appends the encrypted bytes to dst, and mixes the encrypted bytes into the hash.
func (s *state) seal(dst, p []byte) []byte {
	from := len(dst)
	dst = s.aead.Seal(dst, zeroNonce, p, s.hash[:])
	s.mixHash(dst[from:])
	return dst
}

// open decrypts p, and mixes the encrypted bytes into the hash.
func (s *state) open(p []byte) ([]byte, error) {
	plain, err := s.aead.Open(nil, zeroNonce, p, s.hash[:])
	if err != nil {
		return nil, ErrTag
	}
	s.mixHash(p)
	return plain, nil
}
