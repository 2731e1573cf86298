// Package token makes and checks signed tokens: each gives one right to streams of one name, or of names with one
// beginning, until a time.
//
//	m1.RIGHT.EXPIRY.NAME.SIGNATURE
//
// EXPIRY is in seconds since 1970, in UTC. SIGNATURE is the HMAC-SHA256, by a key of the server, of all that stands
// before its dot, in base64url without padding. NAME may have dots; no other field has. A token is what an address or the
// stream key of an encoder may have without escapes.
package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Right is what a token permits.
type Right string

const (
	Publish Right = "publish" // and to watch the same streams
	Read    Right = "read"
)

// ParseRight returns the right that a text names.
func ParseRight(text string) (Right, error) {
	if r := Right(text); r == Publish || r == Read {
		return r, nil
	}
	return "", fmt.Errorf("the right is %.20q, want publish or read", text)
}

// version begins each token. What it signs is no text of another use of the key.
const version = "m1."

// maxToken bounds the text of a token. A name has at most 128 bytes.
const maxToken = 256

// A Token is what a signed text says.
type Token struct {
	Right   Right
	Name    string // of a stream; "tenant/*" stands for all names that begin with "tenant/", and "*" for all
	Expires time.Time
}

// nameBytes are those of the names of streams, and of patterns.
const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/*"

// check refuses what no server would take.
func (t Token) check() error {
	if _, err := ParseRight(string(t.Right)); err != nil {
		return err
	}
	beginning, _ := strings.CutSuffix(t.Name, "*")
	switch {
	case t.Name == "" || strings.Trim(t.Name, nameBytes) != "":
		return fmt.Errorf("the name is %.80q, want a stream's, with A-Z a-z 0-9 . _ - /", t.Name)
	case strings.Contains(beginning, "*"), beginning != t.Name && beginning != "" && !strings.HasSuffix(beginning, "/"):
		return fmt.Errorf("the name is %.80q: * stands alone, or for all that follows a /", t.Name)
	case t.Expires.Unix() <= 0:
		return errors.New("the expiry is before 1970")
	}
	return nil
}

// text returns what is signed.
func (t Token) text() string {
	return version + string(t.Right) + "." + strconv.FormatInt(t.Expires.Unix(), 10) + "." + t.Name
}

// Is reports whether a text looks like a token that is signed, and no other kind.
func Is(text string) bool { return strings.HasPrefix(text, version) && strings.Count(text, ".") >= 4 }

var (
	errForm = errors.New("the token is not complete: want m1.RIGHT.EXPIRY.NAME.SIGNATURE")
	errSign = errors.New("no key of this server has signed the token")
)

// parse returns what text says. It does not look at the signature.
func parse(text string) (t Token, signed, signature string, err error) {
	end := strings.LastIndexByte(text, '.')
	if len(text) > maxToken || end < len(version) || !strings.HasPrefix(text, version) {
		return t, "", "", errForm
	}
	signed, signature = text[:end], text[end+1:]
	right, rest, ok := strings.Cut(signed[len(version):], ".")
	expiry, name, ok2 := strings.Cut(rest, ".")
	seconds, err := strconv.ParseInt(expiry, 10, 64)
	if !ok || !ok2 || err != nil {
		return t, "", "", errForm
	}
	t = Token{Right: Right(right), Name: name, Expires: time.Unix(seconds, 0)}
	if err := t.check(); err != nil {
		return t, "", "", err
	}
	if t.text() != signed { // +1764060000, 01764060000
		return t, "", "", errForm
	}
	return t, signed, signature, nil
}

// Sign returns the text of t, signed by the first of k.
func (k Keys) Sign(t Token) (string, error) {
	if err := t.check(); err != nil {
		return "", err
	}
	if len(k) == 0 {
		return "", errors.New("there is no key")
	}
	text := t.text()
	text += "." + k[0].sign(text)
	if len(text) > maxToken {
		return "", fmt.Errorf("the token has %d bytes, and %d at most are allowed", len(text), maxToken)
	}
	return text, nil
}

// Verify returns what a text says that one of k has signed.
func (k Keys) Verify(text string) (Token, error) {
	t, signed, signature, err := parse(text)
	if err != nil {
		return Token{}, err
	}
	ok := false
	for _, key := range k {
		ok = hmac.Equal([]byte(key.sign(signed)), []byte(signature)) || ok
	}
	if !ok {
		return Token{}, errSign
	}
	return t, nil
}

func (k key) sign(text string) string {
	mac := hmac.New(sha256.New, []byte(k))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// Allow returns nil if t gives the right to the stream of a name at a time, or says why not.
func (t Token) Allow(right Right, name string, now time.Time) error {
	switch {
	case !now.Before(t.Expires):
		return fmt.Errorf("the token has expired at %s", t.Expires.UTC().Format(time.RFC3339))
	case right == Publish && t.Right != Publish:
		return errors.New("the token is for reading, not for publishing")
	case !t.covers(name):
		return fmt.Errorf("the token is for %s, not for this stream", t.Name)
	}
	return nil
}

// covers reports whether t is for the stream of a name.
func (t Token) covers(name string) bool {
	if beginning, ok := strings.CutSuffix(t.Name, "*"); ok {
		return strings.HasPrefix(name, beginning)
	}
	return name == t.Name
}
