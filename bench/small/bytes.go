package small

import (
	"bytes"
	"fmt"
	"io"
)

func ofBytes() works {
	return works{
		newString:   newStringOfBytes,
		newOnly:     newOnlyOfBytes,
		write:       [2]func(int) Work{writeNewOfBytes, writeReusedOfBytes},
		writeString: [2]func(int) Work{writeStringNewOfBytes, writeStringReusedOfBytes},
		writeByte:   [2]func(int) Work{writeByteNewOfBytes, writeByteReusedOfBytes},
		writeRune:   [2]func(int) Work{writeRuneNewOfBytes, writeRuneReusedOfBytes},
		readKnown:   readKnownOfBytes,
		readUnknown: readUnknownOfBytes,
		fprintf:     fprintfOfBytes,
		writeTo:     [2]func(io.Writer) Work{writeToNewOfBytes, writeToReusedOfBytes},
	}
}

func newStringOfBytes(size int) Work {
	s := text[:size]
	return func(n int) {
		for range n {
			var b bytes.Buffer
			b.WriteString(s)
			lastString = b.String()
		}
	}
}

func newOnlyOfBytes(size int) Work {
	s := text[:size]
	return func(n int) {
		for range n {
			var b bytes.Buffer
			b.WriteString(s)
			lastLen = b.Len()
		}
	}
}

func writeNewOfBytes(size int) Work {
	return func(n int) {
		for range n {
			var b bytes.Buffer
			for i := 0; i < size; i += chunk {
				b.Write(data[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeReusedOfBytes(size int) Work {
	return func(n int) {
		var b bytes.Buffer
		for range n {
			b.Reset()
			for i := 0; i < size; i += chunk {
				b.Write(data[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeStringNewOfBytes(size int) Work {
	return func(n int) {
		for range n {
			var b bytes.Buffer
			for i := 0; i < size; i += chunk {
				b.WriteString(text[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeStringReusedOfBytes(size int) Work {
	return func(n int) {
		var b bytes.Buffer
		for range n {
			b.Reset()
			for i := 0; i < size; i += chunk {
				b.WriteString(text[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeByteNewOfBytes(size int) Work {
	return func(n int) {
		for range n {
			var b bytes.Buffer
			for i := range size {
				b.WriteByte(byte(i))
			}
			lastLen = b.Len()
		}
	}
}

func writeByteReusedOfBytes(size int) Work {
	return func(n int) {
		var b bytes.Buffer
		for range n {
			b.Reset()
			for i := range size {
				b.WriteByte(byte(i))
			}
			lastLen = b.Len()
		}
	}
}

func writeRuneNewOfBytes(size int) Work {
	return func(n int) {
		for range n {
			var b bytes.Buffer
			for range size / len("é") {
				b.WriteRune('é')
			}
			lastLen = b.Len()
		}
	}
}

func writeRuneReusedOfBytes(size int) Work {
	return func(n int) {
		var b bytes.Buffer
		for range n {
			b.Reset()
			for range size / len("é") {
				b.WriteRune('é')
			}
			lastLen = b.Len()
		}
	}
}

func readKnownOfBytes(size int) Work {
	return func(n int) {
		for range n {
			var b bytes.Buffer
			b.ReadFrom(bytes.NewReader(data[:size]))
			lastLen = b.Len()
		}
	}
}

func readUnknownOfBytes(size int) Work {
	return func(n int) {
		for range n {
			var b bytes.Buffer
			b.ReadFrom(&plain{data[:size]})
			lastLen = b.Len()
		}
	}
}

func fprintfOfBytes(n int) {
	for i := range n {
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s=%d", "id", i)
		lastLen = b.Len()
	}
}

func writeToNewOfBytes(dst io.Writer) Work {
	return func(n int) {
		for range n {
			var b bytes.Buffer
			b.WriteString(text[:48])
			b.WriteTo(dst)
		}
	}
}

func writeToReusedOfBytes(dst io.Writer) Work {
	return func(n int) {
		var b bytes.Buffer
		for range n {
			b.WriteString(text[:48])
			b.WriteTo(dst)
		}
	}
}
