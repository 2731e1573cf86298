package sv2noise

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ellswift"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/millrace-io/millrace/frame/sv2"
)

// A PrivateKey is the static key of a responder, or the key of an authority. The fmt package does
// not print the secret.
type PrivateKey struct {
	key *btcec.PrivateKey
}

// GenerateKey returns a new random key.
func GenerateKey() *PrivateKey { return &PrivateKey{newKeyPair().private} }

// NewPrivateKey returns the key that p contains as a big-endian number of 32 bytes. It copies p. It
// returns an error if the number is 0, or is not below the order of secp256k1.
func NewPrivateKey(p []byte) (*PrivateKey, error) {
	var n btcec.ModNScalar
	if len(p) != btcec.PrivKeyBytesLen || n.SetByteSlice(p) || n.IsZero() {
		return nil, errors.New("sv2noise: not a private key of secp256k1")
	}
	return &PrivateKey{btcec.PrivKeyFromScalar(&n)}, nil
}

// Bytes returns the 32 bytes of the key, which are secret.
func (k *PrivateKey) Bytes() []byte { return k.key.Serialize() }

// Public returns the public key of k.
func (k *PrivateKey) Public() PublicKey {
	return PublicKey(schnorr.SerializePubKey(k.key.PubKey()))
}

// A PublicKey is the x coordinate of a point of secp256k1, big-endian, as in BIP 340.
type PublicKey [32]byte

const (
	alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

	textPrefix   = "\x01\x00" // the version of the format, 1, little-endian
	checksumSize = 4
	textSize     = len(textPrefix) + len(PublicKey{}) + checksumSize // before the base58 encoding
)

// ParsePublicKey parses a key in the form that mining pools publish: base58-check with the prefix
// bytes 1 and 0. In a URL such as stratum2+tcp://pool.example:34254/9bXi..., the key is the path
// without the slash.
func ParsePublicKey(s string) (PublicKey, error) {
	var n big.Int
	for _, c := range []byte(s[:min(len(s), 2*textSize)]) {
		digit := strings.IndexByte(alphabet, c)
		n.Mul(&n, big.NewInt(58)).Add(&n, big.NewInt(int64(digit)))
	}
	if n.BitLen() <= 8*textSize {
		k := PublicKey(n.FillBytes(make([]byte, textSize))[len(textPrefix):])
		if _, err := schnorr.ParsePubKey(k[:]); err == nil && k.String() == s {
			return k, nil
		}
	}
	return PublicKey{}, fmt.Errorf(
		"sv2noise: %.80q is not a public key of secp256k1 in base58-check with the prefix 1, 0", s)
}

// String returns k in the form that ParsePublicKey accepts.
func (k PublicKey) String() string {
	p := append([]byte(textPrefix), k[:]...)
	n := new(big.Int).SetBytes(append(p, checksum(p)...))
	var s []byte
	for digit := new(big.Int); n.Sign() > 0; {
		n.DivMod(n, big.NewInt(58), digit)
		s = append(s, alphabet[digit.Int64()])
	}
	slices.Reverse(s)
	return string(s)
}

func checksum(p []byte) []byte {
	once := sha256.Sum256(p)
	twice := sha256.Sum256(once[:])
	return twice[:checksumSize]
}

// An encodedKey is a public key in the ElligatorSwift encoding. Any 64 bytes encode a key, and each
// key has many encodings.
type encodedKey [sv2.Act1Size]byte

func (e encodedKey) decode() (PublicKey, error) {
	var u, t btcec.FieldVal
	u.SetByteSlice(e[:32])
	t.SetByteSlice(e[32:])
	x, err := ellswift.XSwiftEC(u.Normalize(), t.Normalize())
	if err != nil {
		return PublicKey{}, fmt.Errorf("sv2noise: %w", err)
	}
	return PublicKey(x.Bytes()[:]), nil
}

// A keyPair is a private key with an encoding of its public key.
type keyPair struct {
	private *btcec.PrivateKey
	public  encodedKey
}

func newKeyPair() keyPair {
	private, public, err := ellswift.EllswiftCreate()
	if err != nil {
		panic(err) // impossible: crypto/rand never fails
	}
	return keyPair{private, public}
}

// pair returns k with a random encoding of its public key.
func (k *PrivateKey) pair() keyPair {
	var p btcec.JacobianPoint
	k.key.PubKey().AsJacobian(&p)
	u, t, err := ellswift.XElligatorSwift(&p.X)
	if err != nil {
		panic(err) // impossible: crypto/rand never fails
	}
	pair := keyPair{private: k.key}
	u.PutBytesUnchecked(pair.public[:32])
	t.PutBytesUnchecked(pair.public[32:])
	return pair
}
