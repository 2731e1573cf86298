package bench

import (
	"bytes"
	"strings"

	"github.com/millrace-io/millrace/stackbuf"
)

// shortWrite is what is written at a time.
const shortWrite = 8

var letters = strings.Repeat("0123456789abcdef", (1<<10)/16)

// What the contenders come to, so that nothing is optimised away.
var (
	lastString string
	lastLen    int
)

func stackbufContests() []contest {
	return []contest{
		stringContest("string-5", "New, write 5 bytes, String", 5),
		stringContest("string-48", "New, write 48 bytes, String", 48),
		stringContest("string-1024", "New, write 1 KiB, String", 1<<10),
		writesContest("writes-64", "New, write 64 bytes in pieces of 8, Len", 64),
		writesContest("writes-1024", "New, write 1 KiB in pieces of 8, Len", 1<<10),
	}
}

// The code of the contenders of a contest is the same text, once for each type: a generic function or an interface would
// call the methods indirectly, and nothing could be inlined or stay on the stack.

func stringContest(key, what string, size int) contest {
	return contest{key, what, "string", []contender{
		quick("stackbuf", "stackbuf.Buffer", func(n int) {
			s := letters[:size]
			for range n {
				var b stackbuf.Buffer
				b.WriteString(s)
				lastString = b.String()
			}
		}),
		quick("bytes", "bytes.Buffer", func(n int) {
			s := letters[:size]
			for range n {
				var b bytes.Buffer
				b.WriteString(s)
				lastString = b.String()
			}
		}),
		quick("builder", "strings.Builder", func(n int) {
			s := letters[:size]
			for range n {
				var b strings.Builder
				b.WriteString(s)
				lastString = b.String()
			}
		}),
	}}
}

func writesContest(key, what string, size int) contest {
	return contest{key, what, "buffer", []contender{
		quick("stackbuf", "stackbuf.Buffer", func(n int) {
			for range n {
				var b stackbuf.Buffer
				for i := 0; i < size; i += shortWrite {
					b.WriteString(letters[i : i+shortWrite])
				}
				lastLen = b.Len()
			}
		}),
		quick("bytes", "bytes.Buffer", func(n int) {
			for range n {
				var b bytes.Buffer
				for i := 0; i < size; i += shortWrite {
					b.WriteString(letters[i : i+shortWrite])
				}
				lastLen = b.Len()
			}
		}),
		quick("builder", "strings.Builder", func(n int) {
			for range n {
				var b strings.Builder
				for i := 0; i < size; i += shortWrite {
					b.WriteString(letters[i : i+shortWrite])
				}
				lastLen = b.Len()
			}
		}),
	}}
}
