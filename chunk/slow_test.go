package chunk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/chunk"
)

// A slowCutter is the reference: it has the complete input and returns the ends of all records.
type slowCutter struct {
	name   string
	cutter chunk.Cutter
	// ends returns the ends of records in order. The end of the input is one of them if the last
	// record is complete.
	ends func(in []byte) []int
	// late returns the ends that are only detected with the next byte.
	late func(in []byte) []int
	make func(rnd *rand.Rand, size int) []byte
}

func none([]byte) []int { return nil }

// endsWith returns the positions after each end byte, and the end of in if the last record needs no
// end byte.
func endsWith(in []byte, end byte, lastNeedsNone bool) (ends []int) {
	for i, c := range in {
		if c == end || lastNeedsNone && i == len(in)-1 {
			ends = append(ends, i+1)
		}
	}
	return ends
}

var slowCutters = []slowCutter{
	{
		name:   "lines",
		cutter: chunk.Lines(),
		ends:   func(in []byte) []int { return endsWith(in, '\n', true) },
		late:   none,
		make: func(rnd *rand.Rand, size int) []byte {
			return fromAlphabet(rnd, size, "ab\r\nc def\n")
		},
	},
	{
		name:   "fixed",
		cutter: fixed(7),
		ends: func(in []byte) (ends []int) {
			for end := 7; end <= len(in); end += 7 {
				ends = append(ends, end)
			}
			return ends
		},
		late: none,
		make: func(rnd *rand.Rand, size int) []byte {
			return fromAlphabet(rnd, size, "0123456789")
		},
	},
	{
		name:   "json",
		cutter: chunk.JSON(),
		ends:   func(in []byte) []int { ends, _ := slowJSON(in); return ends },
		late:   func(in []byte) []int { _, late := slowJSON(in); return late },
		make:   randomJSON,
	},
	{
		name:   "zero bytes",
		cutter: chunk.CutFunc(func(p []byte) int { return bytes.IndexByte(p, 0) + 1 }),
		ends:   func(in []byte) []int { return endsWith(in, 0, false) },
		late:   none,
		make: func(rnd *rand.Rand, size int) []byte {
			return fromAlphabet(rnd, size, "abcdef\x00")
		},
	},
	{
		name: "length first",
		cutter: chunk.CutFunc(func(p []byte) int {
			if len(p) < 2 {
				return 0
			}
			return 2 + int(p[0])*256 + int(p[1])
		}),
		ends: func(in []byte) (ends []int) {
			for at := 0; at+2 <= len(in); {
				if at += 2 + int(in[at])*256 + int(in[at+1]); at <= len(in) {
					ends = append(ends, at)
				}
			}
			return ends
		},
		late: none,
		make: func(rnd *rand.Rand, size int) (out []byte) {
			for len(out) < size {
				n := rnd.IntN(12)
				out = append(out, 0, byte(n))
				out = append(out, fromAlphabet(rnd, n, "xyz")...)
			}
			if rnd.IntN(2) == 0 && size > 0 {
				return out[:size] // the end is within a record
			}
			return out
		},
	},
}

func fromAlphabet(rnd *rand.Rand, n int, alphabet string) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[rnd.IntN(len(alphabet))]
	}
	return out
}

// slowJSON returns the positions between values. It scans byte by byte, with a stack of open
// brackets.
func slowJSON(in []byte) (ends, late []int) {
	var open []byte
	scalar := false
	for i := 0; i <= len(in); i++ {
		if i > 0 && len(open) == 0 {
			next := byte(' ')
			if i < len(in) {
				next = in[i]
			}
			within := scalar && !strings.ContainsRune(" \t\r\n\"{[", rune(next))
			if !within {
				ends = append(ends, i)
				if scalar {
					late = append(late, i)
				}
				scalar = false
			}
		}
		if i == len(in) {
			break
		}
		last := byte(0)
		if len(open) > 0 {
			last = open[len(open)-1]
		}
		switch c := in[i]; {
		case last == '\\':
			open = open[:len(open)-1]
		case last == '"' && c == '\\', last != '"' && strings.IndexByte(`"{[`, c) >= 0:
			open = append(open, c)
		case last == '"' && c == '"', last != 0 && last != '"' && strings.IndexByte("}]", c) >= 0:
			open = open[:len(open)-1]
		case last == 0 && strings.IndexByte(" \t\r\n", c) < 0:
			scalar = true
		}
	}
	return ends, late
}

func randomJSON(rnd *rand.Rand, size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		writeJSON(&b, rnd, 4)
		b.WriteString([]string{"\n", " ", "\r\n", "", "\n\n"}[rnd.IntN(5)])
	}
	if rnd.IntN(4) == 0 {
		return b.Bytes()[:rnd.IntN(b.Len()+1)]
	}
	return b.Bytes()
}

func writeJSON(b *bytes.Buffer, rnd *rand.Rand, depth int) {
	list := func(open, end string, item func()) {
		b.WriteString(open)
		for i := range rnd.IntN(4) {
			if i > 0 {
				b.WriteString(", ")
			}
			item()
		}
		b.WriteString(end)
	}
	text := func() { fmt.Fprintf(b, "%q", fromAlphabet(rnd, rnd.IntN(20), `a"\{}[] `)) }
	switch kind := rnd.IntN(6); {
	case kind < 2 && depth > 0:
		list("{", "}", func() { text(); b.WriteString(":"); writeJSON(b, rnd, depth-1) })
	case kind < 3 && depth > 0:
		list("[", "]", func() { writeJSON(b, rnd, depth-1) })
	case kind == 3:
		fmt.Fprint(b, rnd.IntN(1e6), " ")
	case kind == 4:
		b.WriteString("true ")
	default:
		text()
	}
}

// checkChunks compares a Reader's chunks with the expected ones: they are the complete input, cut
// at ends of records, and as large as possible. full is set if the Reader never returned a smaller
// chunk than possible.
func (s *slowCutter) checkChunks(in []byte, chunks [][]byte, err error, size, limit int,
	full bool) error {
	ends, late := s.ends(in), s.late(in)
	isEnd := func(at int) bool { return contains(ends, at) }
	at := 0
	for i, c := range chunks {
		end := at + len(c)
		switch {
		case len(c) == 0:
			return fmt.Errorf("chunk %d is empty", i)
		case end > len(in) || !bytes.Equal(c, in[at:end]):
			return fmt.Errorf("chunk %d is %q, not what is at offset %d", i, c, at)
		case !isEnd(end) && (end < len(in) || i < len(chunks)-1):
			return fmt.Errorf("chunk %d (%q) ends at %d, within a record", i, c, end)
		case !isEnd(end) && last(ends) > at:
			return fmt.Errorf("chunk %d (%q) has whole records beside the one that was cut short",
				i, c)
		case len(c) > size && isEnd(end) && within(ends, at, end):
			return fmt.Errorf("chunk %d has %d bytes, more than %d, and several records", i, len(c),
				size)
		case isEnd(end) && len(c) > limit:
			return fmt.Errorf("chunk %d has %d bytes, above the limit of %d", i, len(c), limit)
		}
		// An end at the end of the block may be undetected, because the next byte had not been
		// read.
		more := at + size + 1
		if full && (more > len(in) || contains(late, at+size)) {
			more = at + size
		}
		if full && within(ends, end, more) {
			return fmt.Errorf("chunk %d ends at %d, although more fits", i, end)
		}
		at = end
	}
	return s.checkEnd(in, at, ends, err, limit)
}

func (s *slowCutter) checkEnd(in []byte, at int, ends []int, err error, limit int) error {
	var bad *chunk.RecordError
	switch {
	case at == len(in) && (at == 0 || contains(ends, at)):
		if err != nil {
			return fmt.Errorf("error %v at the end", err)
		}
	case !errors.As(err, &bad):
		return fmt.Errorf("error %v at %d of %d, where a record is not whole", err, at, len(in))
	case at == len(in):
		if bad.Err != io.ErrUnexpectedEOF || bad.Offset != int64(last(ends)) {
			return fmt.Errorf("error %v, want an unexpected end of the record at %d", err,
				last(ends))
		}
	default:
		fits := within(ends, at, at+limit+1)
		if bad.Err != chunk.ErrTooLong || bad.Offset != int64(at) || bad.Limit != limit || fits {
			return fmt.Errorf("error %v at offset %d of %d", err, at, len(in))
		}
	}
	return nil
}

func contains(all []int, n int) bool {
	_, found := slices.BinarySearch(all, n)
	return found
}

// within reports whether an element of all lies strictly between from and to.
func within(all []int, from, to int) bool {
	i, _ := slices.BinarySearch(all, from+1)
	return i < len(all) && all[i] < to
}

func last(all []int) int {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}
