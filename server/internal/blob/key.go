package blob

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey is the maximum length of a key in bytes. Proxies and logs accept URL paths of this length.
// S3 has the same limit.
const maxKey = 1024

var (
	errKeyLength  = fmt.Errorf("a key has 1 to %d bytes", maxKey)
	errKeyText    = errors.New("a key is UTF-8 without control characters")
	errKeySegment = errors.New(
		`between the slashes of a key there is something, and neither "." nor ".."`)
)

// CheckKey returns an error if key is invalid. No segment between slashes may be empty, "." or
// "..", because clients and proxies rewrite such paths.
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
