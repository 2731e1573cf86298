package small

import (
	"fmt"
	"strings"
)

// ofBuilder has no reused works: to reset a Builder is to let its memory go.
func ofBuilder() works {
	return works{
		newString:   newStringOfBuilder,
		newOnly:     newOnlyOfBuilder,
		write:       [2]func(int) Work{writeOfBuilder, none},
		writeString: [2]func(int) Work{writeStringOfBuilder, none},
		writeByte:   [2]func(int) Work{writeByteOfBuilder, none},
		writeRune:   [2]func(int) Work{writeRuneOfBuilder, none},
		readKnown:   none,
		readUnknown: none,
		fprintf:     fprintfOfBuilder,
	}
}

func none(int) Work { return nil }

func newStringOfBuilder(size int) Work {
	s := text[:size]
	return func(n int) {
		for range n {
			var b strings.Builder
			b.WriteString(s)
			lastString = b.String()
		}
	}
}

func newOnlyOfBuilder(size int) Work {
	s := text[:size]
	return func(n int) {
		for range n {
			var b strings.Builder
			b.WriteString(s)
			lastLen = b.Len()
		}
	}
}

func writeOfBuilder(size int) Work {
	return func(n int) {
		for range n {
			var b strings.Builder
			for i := 0; i < size; i += chunk {
				b.Write(data[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeStringOfBuilder(size int) Work {
	return func(n int) {
		for range n {
			var b strings.Builder
			for i := 0; i < size; i += chunk {
				b.WriteString(text[i : i+chunk])
			}
			lastLen = b.Len()
		}
	}
}

func writeByteOfBuilder(size int) Work {
	return func(n int) {
		for range n {
			var b strings.Builder
			for i := range size {
				b.WriteByte(byte(i))
			}
			lastLen = b.Len()
		}
	}
}

func writeRuneOfBuilder(size int) Work {
	return func(n int) {
		for range n {
			var b strings.Builder
			for range size / len("é") {
				b.WriteRune('é')
			}
			lastLen = b.Len()
		}
	}
}

func fprintfOfBuilder(n int) {
	for i := range n {
		var b strings.Builder
		fmt.Fprintf(&b, "%s=%d", "id", i)
		lastLen = b.Len()
	}
}
