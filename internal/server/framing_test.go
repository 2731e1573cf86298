package server

import (
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"regexp"
	"strings"
	"testing"
)

// unframe feeds wire to a framing in pieces of step bytes, as reads give them.
func unframe(f framing, wire string, step int) (body string, done bool, err error) {
	var out []byte
	for len(wire) > 0 && !f.done {
		p := []byte(wire[:min(step, len(wire))])
		wire = wire[len(p):]
		n, err := f.strip(p)
		out = append(out, p[:n]...)
		if err != nil {
			return string(out), f.done, err
		}
	}
	return string(out), f.done, nil
}

func TestFraming(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    framing
		wire string
		body string
		done bool
		err  error
	}{
		{"length", newFraming(5), "hello and more", "hello", true, nil},
		{"length, cut", newFraming(5), "hel", "hel", false, nil},
		{"nothing", newFraming(0), "x", "", true, nil},
		{"chunks", newFraming(-1), "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", true, nil},
		{"hex and leading zeros", newFraming(-1), "00A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", true, nil},
		{"extension", newFraming(-1), "3;name=value\r\nabc\r\n0 \r\n\r\n", "abc", true, nil},
		{"blanks before an extension", newFraming(-1), "3 \t;name=value\r\nabc\r\n0 ;x\r\n\r\n", "abc", true, nil},
		{"blanks before the size", newFraming(-1), " 3\r\nabc\r\n0\r\n\r\n", "", false, errChunkSize},
		{"something behind the space", newFraming(-1), "0 x\r\n\r\n", "", false, errChunkSize},
		{"trailers", newFraming(-1), "1\r\na\r\n0\r\nA: b\r\nC: d\r\n\r\n", "a", true, nil},
		{"cut in a chunk", newFraming(-1), "5\r\nhel", "hel", false, nil},
		{"cut in the trailers", newFraming(-1), "1\r\na\r\n0\r\nA: b\r\n", "a", false, nil},
		{"no size", newFraming(-1), "\r\nabc", "", false, errChunkSize},
		{"no number", newFraming(-1), "xyz\r\nabc", "", false, errChunkSize},
		{"negative", newFraming(-1), "-1\r\nabc", "", false, errChunkSize},
		{"too many digits", newFraming(-1), "1000000000000000\r\n", "", false, errChunkSize},
		{"bare LF behind the size", newFraming(-1), "3\nabc\r\n0\r\n\r\n", "", false, errChunkSize},
		{"chunk longer than it says", newFraming(-1), "3\r\nabcd\r\n0\r\n\r\n", "abc", false, errChunkEnd},
		{"bare LF behind the data", newFraming(-1), "3\r\nabc\n0\r\n\r\n", "abc", false, errChunkEnd},
		{"endless extension", newFraming(-1), "3;" + strings.Repeat("x", maxChunkLine), "", false, errChunkLine},
		{"endless trailers", newFraming(-1), "0\r\n" + strings.Repeat("A: b\r\n", maxTrailers/6+1), "", false, errTrailers},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, 7, 1 << 20} {
				body, done, err := unframe(tt.f, tt.wire, step)
				if body != tt.body || done != tt.done || !errors.Is(err, tt.err) {
					t.Errorf("in pieces of %d: %q, done %v, %v; want %q, done %v, %v", step, body, done, err, tt.body, tt.done, tt.err)
				}
			}
		})
	}
}

// blanks are what RFC 9112 allows before an extension, and the standard library refuses. They make no difference otherwise.
var blanks = regexp.MustCompile(`([0-9A-Fa-f])[ \t]+;`)

// FuzzFraming compares with the chunked reader of the standard library: what that one takes is taken, and gives the same body.
func FuzzFraming(f *testing.F) {
	for _, s := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "3 ;a=b\r\nabc\r\n0\r\n\r\n", "3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n", "3\nabc\r\n0\r\n\r\n", "\r\n", "10\r\n0123456789abcdef\r\n0\r\n\r\n",
	} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, wire string, step int) {
		if step < 1 {
			return
		}
		body, done, err := unframe(newFraming(-1), wire, step)
		if whole, _, _ := unframe(newFraming(-1), wire, len(wire)+1); whole != body {
			t.Errorf("in pieces of %d: %q, at once: %q", step, body, whole)
		}
		want, stdErr := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(wire)))
		if stdErr == nil && err == nil && !bytes.Equal([]byte(body), want) {
			t.Errorf("body %q, want %q", body, want)
		}
		if done && stdErr != nil && !blanks.MatchString(wire) {
			t.Errorf("taken: %q, which net/http refuses with %v", wire, stdErr)
		}
	})
}
