// Code generated from bytes.go; DO NOT EDIT.

package small

import (
	"bytes"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/stackbuf"
)

func ofStackbuf() works {
	return works{
		newString:   newStringOfStackbuf,
		newOnly:     newOnlyOfStackbuf,
		write:       [2]func(int) Work{writeNewOfStackbuf, writeReusedOfStackbuf},
		writeString: [2]func(int) Work{writeStringNewOfStackbuf, writeStringReusedOfStackbuf},
		writeByte:   [2]func(int) Work{writeByteNewOfStackbuf, writeByteReusedOfStackbuf},
		writeRune:   [2]func(int) Work{writeRuneNewOfStackbuf, writeRuneReusedOfStackbuf},
		readKnown:   readKnownOfStackbuf,
		readUnknown: readUnknownOfStackbuf,
		fprintf:     fprintfOfStackbuf,
		writeTo:     [2]func(io.Writer) Work{writeToNewOfStackbuf, writeToReusedOfStackbuf},
	}
}

func newStringOfStackbuf(size int) Work {
	s := text[:size]
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			b.WriteString(s)
			lastString = b.String()
		}
	}
}

func newOnlyOfStackbuf(size int) Work {
	s := text[:size]
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			b.WriteString(s)
			lastLen = b.Len()
		}
	}
}

func writeNewOfStackbuf(size int) Work {
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			for i := 0; i < size; i += chunk {
				b.Write(data[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeReusedOfStackbuf(size int) Work {
	return func(n int) {
		var b stackbuf.Buffer
		for range n {
			b.Reset()
			for i := 0; i < size; i += chunk {
				b.Write(data[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeStringNewOfStackbuf(size int) Work {
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			for i := 0; i < size; i += chunk {
				b.WriteString(text[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeStringReusedOfStackbuf(size int) Work {
	return func(n int) {
		var b stackbuf.Buffer
		for range n {
			b.Reset()
			for i := 0; i < size; i += chunk {
				b.WriteString(text[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeByteNewOfStackbuf(size int) Work {
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			for i := range size {
				b.WriteByte(byte(i))
			}
			lastLen = b.Len()
		}
	}
}

func writeByteReusedOfStackbuf(size int) Work {
	return func(n int) {
		var b stackbuf.Buffer
		for range n {
			b.Reset()
			for i := range size {
				b.WriteByte(byte(i))
			}
			lastLen = b.Len()
		}
	}
}

func writeRuneNewOfStackbuf(size int) Work {
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			for range size / len("é") {
				b.WriteRune('é')
			}
			lastLen = b.Len()
		}
	}
}

func writeRuneReusedOfStackbuf(size int) Work {
	return func(n int) {
		var b stackbuf.Buffer
		for range n {
			b.Reset()
			for range size / len("é") {
				b.WriteRune('é')
			}
			lastLen = b.Len()
		}
	}
}

func readKnownOfStackbuf(size int) Work {
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			b.ReadFrom(bytes.NewReader(data[:size]))
			lastLen = b.Len()
		}
	}
}

func readUnknownOfStackbuf(size int) Work {
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			b.ReadFrom(&plain{data[:size]})
			lastLen = b.Len()
		}
	}
}

func fprintfOfStackbuf(n int) {
	for i := range n {
		var b stackbuf.Buffer
		fmt.Fprintf(&b, "%s=%d", "id", i)
		lastLen = b.Len()
	}
}

func writeToNewOfStackbuf(dst io.Writer) Work {
	return func(n int) {
		for range n {
			var b stackbuf.Buffer
			b.WriteString(text[:48])
			b.WriteTo(dst)
		}
	}
}

func writeToReusedOfStackbuf(dst io.Writer) Work {
	return func(n int) {
		var b stackbuf.Buffer
		for range n {
			b.WriteString(text[:48])
			b.WriteTo(dst)
		}
	}
}
