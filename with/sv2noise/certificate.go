package sv2noise

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
)

const (
	// certificateVersion is the only version of the certificate format.
	certificateVersion = 0

	// clockDrift is the clock difference in seconds that Verify tolerates. The Rust implementation
	// of the protocol tolerates the same difference. Some responders sign a new certificate for
	// each connection. For an initiator with a slow clock, such a certificate is not valid yet.
	clockDrift = 10
)

// A Certificate contains an authority's signature of a responder's static key, and the period in
// which the signature is valid. The specification calls it SIGNATURE_NOISE_MESSAGE. The 74 bytes
// have the protocol's format, and can be stored unchanged:
//
//	0         2            6                 10          74
//	├ version ┼ valid from ┼ not valid after ┼ signature ┤
type Certificate [74]byte

// Sign returns a Certificate in which the authority signs the static key of a responder. The
// validity period starts at the time from and ends at the time until, and includes the seconds of
// both times. Sign returns an error if until is before from, or if a time is not between 1970 and
// 2106.
func Sign(authority *PrivateKey, static PublicKey, from, until time.Time) (Certificate, error) {
	first, last := from.Unix(), until.Unix()
	if first < 0 || last < first || last > math.MaxUint32 {
		return Certificate{}, fmt.Errorf("sv2noise: a certificate cannot be valid from %v until %v",
			from, until)
	}
	var c Certificate
	binary.LittleEndian.PutUint16(c[:], certificateVersion)
	binary.LittleEndian.PutUint32(c[2:], uint32(first))
	binary.LittleEndian.PutUint32(c[6:], uint32(last))
	signature, err := schnorr.Sign(authority.key, c.digest(static))
	if err != nil {
		return Certificate{}, fmt.Errorf("sv2noise: %w", err)
	}
	copy(c[10:], signature.Serialize())
	return c, nil
}

// digest returns the hash that the authority signs.
func (c *Certificate) digest(static PublicKey) []byte {
	sum := sha256.Sum256(append(bytes.Clone(c[:10]), static[:]...))
	return sum[:]
}

// ValidFrom returns the time from which c is valid.
func (c Certificate) ValidFrom() time.Time { return unix(c[2:]) }

// NotValidAfter returns the last second in which c is valid.
func (c Certificate) NotValidAfter() time.Time { return unix(c[6:]) }

func unix(p []byte) time.Time { return time.Unix(int64(binary.LittleEndian.Uint32(p)), 0) }

// These errors are the values of CertificateError.Err.
var (
	ErrVersion   = errors.New("unknown version")
	ErrSignature = errors.New("the authority has not signed it for this responder")
	ErrTime      = errors.New("not valid at this time")
)

// CertificateError reports that a responder's certificate is not valid.
type CertificateError struct {
	Certificate Certificate
	Now         time.Time // the time of the check
	Err         error     // ErrVersion, ErrSignature or ErrTime
}

func (e *CertificateError) Error() string {
	s := fmt.Sprintf("sv2noise: certificate: %v", e.Err)
	if e.Err == ErrTime {
		s += fmt.Sprintf(", %v; it is valid from %v until %v", e.Now.UTC(),
			e.Certificate.ValidFrom().UTC(), e.Certificate.NotValidAfter().UTC())
	}
	return s
}

// Unwrap returns e.Err.
func (e *CertificateError) Unwrap() error { return e.Err }

// Verify checks the authority's signature of a responder's static key, and the validity period. It
// tolerates a clock difference of 10 seconds. The error is a *CertificateError.
func (c Certificate) Verify(authority, static PublicKey, now time.Time) error {
	fail := func(err error) error { return &CertificateError{c, now, err} }
	if binary.LittleEndian.Uint16(c[:]) != certificateVersion {
		return fail(ErrVersion)
	}
	key, err := schnorr.ParsePubKey(authority[:])
	if err != nil {
		return fail(ErrSignature)
	}
	signature, err := schnorr.ParseSignature(c[10:])
	if err != nil || !signature.Verify(c.digest(static), key) {
		return fail(ErrSignature)
	}
	if t := now.Unix(); t < c.ValidFrom().Unix()-clockDrift ||
		t > c.NotValidAfter().Unix()+clockDrift {
		return fail(ErrTime)
	}
	return nil
}

// SignedBy returns a function for [Initiate] that accepts the certificates of one authority. The
// function calls [Certificate.Verify] with the current time.
func SignedBy(authority PublicKey) func(static PublicKey, c Certificate) error {
	return func(static PublicKey, c Certificate) error {
		return c.Verify(authority, static, time.Now())
	}
}
