package blob

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey is as long as a path in a URL may be that passes through any proxy and log, and as S3 has
// it.
const maxKey = 1024

var (
	errKeyLength  = fmt.Errorf("a key has 1 to %d bytes", maxKey)
	errKeyText    = errors.New("a key is UTF-8 without control characters")
	errKeySegment = errors.New(
		`between the slashes of a key there is something, and neither "." nor ".."`)
)

// CheckKey returns why key is invalid, or nil. The parts between its slashes must be as in a path
// that no client or proxy rewrites.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey {
		return errKeyLength
	}
	if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return errKeyText
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return errKeySegment
		}
	}
	return nil
}
