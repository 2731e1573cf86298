package token

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Keys are what tokens are signed with: the first one signs, and all verify. They are replaced by putting a new one
// first, and taking the old one out when its tokens have expired.
type Keys []key

type key string

const (
	minKey  = 32 // bytes of a key: an HMAC-SHA256 is no stronger than its key
	maxKey  = 256
	maxKeys = 16 // each costs a request with a wrong token one more HMAC
)

// ReadKeys reads the keys of a file: one a line. Lines that are empty or begin with # are left out. It refuses a file
// that all users of the machine may write: each could sign. They may read it, since that is how containers mount secrets.
func ReadKeys(file string) (Keys, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if mode := info.Mode().Perm(); mode&0o002 != 0 && runtime.GOOS != "windows" { // which has no such modes
		return nil, fmt.Errorf("%s has mode %#o: all users may write it, so take that right away (chmod o-w)", file, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10)) // it may be another file by mistake
	if err != nil {
		return nil, err
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
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case len(line) < minKey || len(line) > maxKey:
			return nil, fmt.Errorf("line %d has a key of %d bytes, want %d to %d: millrace token --new-key prints one",
				n, len(line), minKey, maxKey)
		default:
			keys = append(keys, key(line))
		}
	}
	switch {
	case len(keys) == 0:
		return nil, errors.New("it has no key: millrace token --new-key prints one")
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("it has %d keys, want %d at most", len(keys), maxKeys)
	}
	return keys, nil
}

// NewKey returns a key that nothing can guess.
func NewKey() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
