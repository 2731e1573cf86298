package token

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Keys sign and verify tokens. The first key signs, and all keys verify. To replace a key, add the
// new one, and remove the old one after its tokens have expired.
type Keys []key

type key struct {
	id      string // the "kid" of the tokens that the key signs
	method  jwt.SigningMethod
	private any // nil if the key only verifies
	public  any
}

const (
	minSecret = 32 // bytes; HMAC-SHA256 is only as strong as its key
	maxSecret = 256
	maxKeys   = 16
)

// maxKeyFile is the maximum size of a key file in bytes. A file with the maximum number of keys is
// much smaller.
const maxKeyFile = 64 << 10

// ReadKeys reads a key file. Each line is KID ALG KEY. Empty lines and lines that begin with # are
// ignored. ReadKeys refuses a file that all users of the machine may write, because each of them
// could add a key and sign tokens. It accepts a file that all users may read, because containers
// mount secrets with that mode.
func ReadKeys(file string) (Keys, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if mode := info.Mode().Perm(); mode&0o002 != 0 && runtime.GOOS != "windows" {
		// On Windows, the mode of the key file is not checked, because it does not show which users
		// may write the file.
		return nil, fmt.Errorf(
			"%s has mode %#o: all users may write it, so take that right away (chmod o-w)", file,
			mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1)) // may be a wrong, large file
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s is longer than %d bytes, which a file of keys may have", file,
			maxKeyFile)
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return keys, nil
}

func parseKeys(text string) (Keys, error) {
	var keys Keys
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(words) != 3 {
			return nil, fmt.Errorf(
				"line %d is not KID ALG KEY: millrace token --new-key prints such a line", n)
		}
		k, err := parseKey(words[0], words[1], words[2])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if slices.ContainsFunc(keys, func(other key) bool { return other.id == k.id }) {
			return nil, fmt.Errorf("line %d has the kid of a line before it: give each key its own",
				n)
		}
		keys = append(keys, k)
	}
	switch {
	case len(keys) == 0:
		return nil, errors.New("it has no key: millrace token --new-key prints one")
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("it has %d keys, want %d at most", len(keys), maxKeys)
	}
	return keys, nil
}

// parseKey returns the key of a line. Its errors do not quote any word of the line, because each
// word may be a secret.
func parseKey(id, alg, text string) (key, error) {
	switch alg {
	case "HS256":
		if len(text) < minSecret || len(text) > maxSecret {
			return key{}, fmt.Errorf(
				"the secret of HS256 has %d bytes, want %d to %d: millrace token --new-key prints one",
				len(text), minSecret, maxSecret)
		}
		return key{id, jwt.SigningMethodHS256, []byte(text), []byte(text)}, nil
	case "EdDSA":
		der, _ := base64.StdEncoding.DecodeString(text)
		public, _ := x509.ParsePKIXPublicKey(der)
		if public, ok := public.(ed25519.PublicKey); ok {
			return key{id, jwt.SigningMethodEdDSA, nil, public}, nil
		}
		private, _ := x509.ParsePKCS8PrivateKey(der)
		if private, ok := private.(ed25519.PrivateKey); ok {
			return key{id, jwt.SigningMethodEdDSA, private, private.Public()}, nil
		}
		return key{}, errors.New("the key of EdDSA is not one of Ed25519: " +
			"want the line between BEGIN and END of the output of openssl pkey -pubout")
	}
	return key{}, errors.New("the second word is not HS256 or EdDSA: want KID ALG KEY")
}

// IDs returns the IDs of all keys, in the order of the key file.
func (k Keys) IDs() (ids []string) {
	for i := range k {
		ids = append(ids, k[i].id)
	}
	return ids
}

// PrivateIDs returns the IDs of the EdDSA keys that include the private key. A program that only
// verifies tokens should have no private keys.
func (k Keys) PrivateIDs() (ids []string) {
	for i := range k {
		if k[i].method == jwt.SigningMethodEdDSA && k[i].private != nil {
			ids = append(ids, k[i].id)
		}
	}
	return ids
}

// Sign returns t as a JWT signed with the first key of k.
func (k Keys) Sign(t Token) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	switch {
	case len(k) == 0:
		return "", errors.New("there is no key")
	case k[0].private == nil:
		return "", fmt.Errorf(
			"the first key, %s, is a public key, which cannot sign: put the private key first",
			k[0].id)
	}
	claims := jwt.MapClaims{"stream": t.Stream, "right": t.Right, "exp": t.Expires.Unix()}
	unsigned := jwt.NewWithClaims(k[0].method, claims)
	unsigned.Header["kid"] = k[0].id
	text, err := unsigned.SignedString(k[0].private)
	if len(text) > maxToken {
		return "", fmt.Errorf(
			"the token has %d bytes, want %d at most: shorten the stream or the kid", len(text),
			maxToken)
	}
	return text, err
}

// Verify checks the JWT in text, and returns its Token. One of the keys must have signed the JWT.
// The Token must be valid at the time now, with a tolerance of Leeway.
func (k Keys) Verify(text string, now time.Time) (Token, error) {
	switch {
	case len(text) > maxToken:
		return Token{}, fmt.Errorf(
			"the token has %d bytes, want %d at most: leave out claims that the server ignores",
			len(text), maxToken)
	case !Is(text):
		return Token{}, errors.New(
			"the token is not a JWT: want HEADER.CLAIMS.SIGNATURE, each in base64url")
	}
	claims := jwt.MapClaims{} // a struct would accept "EXP" for exp, and "1" for a number
	t, parts, err := parser.ParseUnverified(text, claims)
	if err != nil {
		return Token{}, err
	}
	key, err := k.find(t.Header)
	if err != nil {
		return Token{}, err
	}
	// The method must come from the key. t.Method comes from the token's header, which cannot be
	// trusted.
	if err := key.method.Verify(parts[0]+"."+parts[1], t.Signature, key.public); err != nil {
		return Token{}, fmt.Errorf("the token is not signed with this server's key %q", key.id)
	}
	return read(claims, now)
}

// find returns the key for a token with the given header. The field "kid" of the header contains
// the ID of the key. If the header has no "kid" and there is only one key, find returns that key.
//
// find returns an error if the field "alg" differs from the algorithm of the key, or if the header
// has a field "crit".
func (k Keys) find(header map[string]any) (key, error) {
	kid, named := header["kid"]
	i := slices.IndexFunc(k, func(key key) bool { return key.id == kid })
	switch {
	case !named && len(k) == 1:
		i = 0
	case !named:
		return key{}, fmt.Errorf(
			"the token's header has no kid, and this server has %d keys: name one", len(k))
	case i < 0:
		return key{}, fmt.Errorf("this server has no key with the token's kid %.40q",
			fmt.Sprint(kid))
	}
	if alg := header["alg"]; alg != k[i].method.Alg() {
		return key{}, fmt.Errorf("the token's alg is %.20q, and its key %q is for %s",
			fmt.Sprint(alg), k[i].id, k[i].method.Alg())
	}
	if _, ok := header["crit"]; ok { // unknown extensions must be refused: RFC 7515, 4.1.11
		return key{}, errors.New(
			"the token's header has crit, and this server knows no extensions: leave it out")
	}
	return k[i], nil
}

// NewKey returns a line for the key file, with a random secret. The ID of the key begins with the
// current date.
func NewKey() string {
	var b [minSecret]byte
	_, _ = rand.Read(b[:]) // never fails
	kid := time.Now().UTC().Format(time.DateOnly) + "-" + rand.Text()[:6]
	return kid + " HS256 " + base64.RawURLEncoding.EncodeToString(b[:])
}
