package chunk

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newSite makes a site for a test, and cases that are as small as they can be.
func newSite(t *testing.T) (*Site, []Case) {
	t.Helper()
	s, err := NewSite(len(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	cases := slices.Clone(Cases)
	for i := range cases {
		cases[i].Size = len(text)
	}
	return s, cases
}

// inputs are what lines are told apart in.
func inputs() map[string]string {
	return map[string]string{
		"nothing":                "",
		"one line":               "a\n",
		"an empty line":          "\n",
		"empty lines":            "a\n\n\nb\n",
		"the last without end":   "a\nb",
		"as long as a buffer":    strings.Repeat("x", blockSize-1) + "\n",
		"the rest of one, twice": strings.Repeat(strings.Repeat("x", 40*kib)+"\n", 5),
		"many lines and a bit":   string(text[:]) + "a bit",
	}
}

// TestContendersDeliver checks that nobody wins by leaving something out: all give the bytes of the source, or its lines.
func TestContendersDeliver(t *testing.T) {
	sources := map[string]func(io.Reader) io.Reader{
		"whole":       func(r io.Reader) io.Reader { return r },
		"a part":      iotest.HalfReader,
		"end at once": iotest.DataErrReader,
	}
	for name, input := range inputs() {
		for how, source := range sources {
			t.Run(name+", "+how, func(t *testing.T) {
				before := millrace.DefaultPool.Stats().InUseBlocks
				for _, by := range byChunk {
					deliver(t, by, source(strings.NewReader(input)), input, "")
				}
				lines := input // each line is given without its end, and the last one has one then
				if lines != "" && !strings.HasSuffix(lines, "\n") {
					lines += "\n"
				}
				for _, by := range byLine {
					deliver(t, by, source(strings.NewReader(input)), lines, "\n")
				}
				if after := millrace.DefaultPool.Stats().InUseBlocks; after != before {
					t.Errorf("%d blocks in use, %d before", after, before)
				}
			})
		}
	}
}

// deliver checks that all pieces that by gives, with end behind each, are want.
func deliver(t *testing.T, by Contender, src io.Reader, want, end string) {
	t.Helper()
	var got bytes.Buffer
	err := by.run(src, func(p []byte) {
		got.Write(p)
		got.WriteString(end)
	})
	if err != nil || got.String() != want {
		t.Errorf("%s: %d bytes that are not the %d of the source, %v", by.Name, got.Len(), len(want), err)
	}
}

// TestWaitingSource checks that it waits for each read, and that everybody gets all of it.
func TestWaitingSource(t *testing.T) {
	s, cases := newSite(t)
	for _, c := range cases {
		if !c.waits {
			continue
		}
		for _, by := range s.ways(c) {
			began := time.Now()
			if err := by.run(); err != nil {
				t.Errorf("%s: %s: %v", c.Key, by.name, err)
			}
			if took, least := time.Since(began), time.Duration(c.Size/blockSize)*readWait; took < least {
				t.Errorf("%s: %s: %v, and to wait takes %v", c.Key, by.name, took, least)
			}
		}
	}
}

// TestLossIsSeen has contenders that leave something out.
func TestLossIsSeen(t *testing.T) {
	s, cases := newSite(t)
	for _, c := range cases[:2] {
		all := c.contenders[0]
		c.contenders = []Contender{{"two bytes less", func(src io.Reader, work func([]byte)) error {
			return all.run(io.LimitReader(src, int64(c.Size-2)), work)
		}}}
		if _, err := s.Measure(c, 1, time.Millisecond); err == nil {
			t.Errorf("%s: the loss of two bytes is not seen", c.Key)
		}
	}
}

func TestErrorsOfTheSource(t *testing.T) {
	for _, by := range append(byChunk[:len(byChunk):len(byChunk)], byLine...) {
		src := io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(iotest.ErrTimeout))
		if err := by.run(src, func([]byte) {}); err == nil {
			t.Errorf("%s does not tell that the source has failed", by.Name)
		}
	}
}

func TestTable(t *testing.T) {
	s, cases := newSite(t)
	for _, c := range cases {
		t.Run(c.Key, func(t *testing.T) {
			results, err := s.Measure(c, 1, time.Microsecond)
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			if err := WriteTable(&b, c, results); err != nil {
				t.Fatal(err)
			}
			for _, by := range c.contenders {
				if !strings.Contains(b.String(), "| "+by.Name) {
					t.Errorf("no row of %q", by.Name)
				}
			}
			if strings.Contains(b.String(), "| - ") {
				t.Errorf("holes in the table:\n%s", b.String())
			}
		})
	}
}

func BenchmarkChunk(b *testing.B) {
	s, err := NewSite(FileSize)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, c := range Cases {
		for _, by := range s.ways(c) {
			b.Run(c.Key+"/"+by.name, func(b *testing.B) {
				b.SetBytes(int64(c.Size))
				b.ReportAllocs()
				if err := by.repeat(b.N); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
