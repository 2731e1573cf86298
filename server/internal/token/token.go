// Package token creates and verifies signed tokens: JSON Web Tokens (RFC 7519) with HS256 or EdDSA.
// A token grants one right to one stream, or to all streams that match a pattern, until it expires.
// docs/access.md lists the claims.
//
// The key file assigns an algorithm to each key. A token with another "alg" is refused, so that the
// token's header cannot choose the algorithm (RFC 8725).
package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// A Right is the permission that a token grants.
type Right string

const (
	Publish Right = "publish" // includes the right to watch the same streams
	Read    Right = "read"
)

const (
	// maxToken is the maximum length of a token in bytes. It is limited because HLS playlists
	// repeat the token in each URL.
	maxToken = 1 << 10

	// Leeway is the tolerated difference between the clocks of the issuer and of the server.
	Leeway = 30 * time.Second

	// audience is the name of the server in the claim "aud". A token that is only for other
	// audiences must be refused (RFC 7519, 4.1.3).
	audience = "millrace"

	// maxTime is the end of the year 9999, in seconds since 1970. A larger "exp" is refused,
	// because it is probably in milliseconds, as from JavaScript's Date.now(). Such a token would
	// practically never expire.
	maxTime = 253402300799
)

// A Token is the content of a signed token.
type Token struct {
	Right Right
	// Stream is the name of a stream or a pattern. "tenant/*" means all names that begin with
	// "tenant/", and "*" means all names.
	Stream  string
	Expires time.Time
}

const streamBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/*"

// check returns an error if servers would refuse the token.
func (t Token) check() error {
	beginning, isPattern := strings.CutSuffix(t.Stream, "*")
	switch {
	case t.Right != Publish && t.Right != Read:
		return fmt.Errorf(`the claim right is %.20q, want "publish" or "read"`, string(t.Right))
	case t.Stream == "" || strings.Trim(t.Stream, streamBytes) != "":
		return fmt.Errorf(
			"the claim stream is invalid: %.80q, want a stream's name of A-Z a-z 0-9 . _ - /",
			t.Stream)
	case strings.Contains(beginning, "*"), isPattern && beginning != "" &&
		!strings.HasSuffix(beginning, "/"):
		return fmt.Errorf(
			"the claim stream is invalid: %.80q, * may only stand alone or at the end after /",
			t.Stream)
	case t.Expires.Unix() < 1 || t.Expires.Unix() > maxTime:
		return errors.New("the token has to expire between 1970 and the year 9999")
	}
	return nil
}

// Is reports whether text has the form of a JWT: two objects and a signature in base64url,
// separated by dots. It refuses the line breaks that package base64 ignores, so that a token has
// only one form.
func Is(text string) bool {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
	return strings.HasPrefix(text, "e") && strings.Count(text, ".") == 2 &&
		strings.Trim(text, alphabet) == ""
}

var parser = jwt.NewParser(jwt.WithStrictDecoding())

// read checks the claims of a token whose signature has been verified, and returns the Token. It
// returns an error if the token is not valid at the time now. It does not use the library's checks
// of the claims "exp" and "nbf", because the library's errors do not contain the times.
func read(claims jwt.MapClaims, now time.Time) (Token, error) {
	expires, err := seconds(claims, "exp")
	if err != nil {
		return Token{}, err
	}
	if _, ok := claims["nbf"]; ok {
		begins, err := seconds(claims, "nbf")
		if err != nil {
			return Token{}, err
		}
		if now.Before(begins.Add(-Leeway)) {
			return Token{}, fmt.Errorf("the token is not valid before %s",
				begins.Format(time.RFC3339))
		}
	}
	if !now.Before(expires.Add(Leeway)) {
		return Token{}, fmt.Errorf("the token has expired at %s", expires.Format(time.RFC3339))
	}
	if _, ok := claims["aud"]; ok {
		if all, err := claims.GetAudience(); err != nil || !slices.Contains(all, audience) {
			return Token{}, fmt.Errorf(
				"the claim aud does not name this server: leave it out, or add %q", audience)
		}
	}
	right, _ := claims["right"].(string) // check refuses an empty right
	stream, _ := claims["stream"].(string)
	t := Token{Right: Right(right), Stream: stream, Expires: expires}
	if err := t.check(); err != nil {
		return Token{}, err
	}
	return t, nil
}

func seconds(claims jwt.MapClaims, name string) (time.Time, error) {
	if s, ok := claims[name].(float64); ok && s >= 1 && s <= maxTime {
		return time.Unix(int64(s), 0).UTC(), nil
	}
	return time.Time{}, fmt.Errorf(
		"the token needs %s as a number: seconds since 1970, not milliseconds", name)
}

// Decode returns the header and the claims of a token as JSON. It verifies neither the signature
// nor the claims.
func Decode(text string) (header, claims []byte, err error) {
	t, _, err := parser.ParseUnverified(text, jwt.MapClaims{})
	if errors.Is(err, jwt.ErrTokenMalformed) {
		return nil, nil, err
	}
	header, _ = json.Marshal(t.Header) // cannot fail, because the header was parsed from JSON
	claims, _ = json.Marshal(t.Claims)
	return header, claims, nil
}

// Allow returns an error unless t grants the right to the stream called name.
func (t Token) Allow(right Right, name string) error {
	beginning, isPattern := strings.CutSuffix(t.Stream, "*")
	switch {
	case right == Publish && t.Right != Publish:
		return errors.New("the token is for reading, not for publishing")
	case name != t.Stream && !(isPattern && strings.HasPrefix(name, beginning)):
		return fmt.Errorf("the token is for another stream: %s", t.Stream)
	}
	return nil
}
