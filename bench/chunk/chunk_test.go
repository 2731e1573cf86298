package chunk

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func inputs() map[string]string {
	return map[string]string{
		"nothing":        "",
		"a byte":         "a",
		"a buffer":       strings.Repeat("x", blockSize),
		"a buffer twice": string(text[:2*blockSize+1]),
		"all and a bit":  string(text[:]) + "a bit",
	}
}

// TestContendersDeliver checks that all contenders give the bytes of the source.
func TestContendersDeliver(t *testing.T) {
	sources := map[string]func(io.Reader) io.Reader{
		"whole":       func(r io.Reader) io.Reader { return r },
		"a part":      iotest.HalfReader,
		"end at once": iotest.DataErrReader,
	}
	for name, input := range inputs() {
		for how, source := range sources {
			t.Run(name+", "+how, func(t *testing.T) {
				for _, by := range byChunk {
					var got bytes.Buffer
					err := by.run(source(strings.NewReader(input)), func(p []byte) { got.Write(p) })
					if err != nil || got.String() != input {
						t.Errorf("%s: %d bytes that are not the %d of the source, %v", by.name,
							got.Len(), len(input), err)
					}
				}
			})
		}
	}
}

// TestWaitingSource checks that the source waits for each read.
func TestWaitingSource(t *testing.T) {
	began := time.Now()
	if n, err := io.Copy(io.Discard, &slowSource{left: 4 * blockSize}); n != 4*blockSize ||
		err != nil {
		t.Errorf("io.Copy: %d bytes, %v, want all of them", n, err)
	}
	if took := time.Since(began); took < 4*readWait {
		t.Errorf("four reads take %v", took)
	}
}

// TestLossIsSeen uses contenders that leave out bytes.
func TestLossIsSeen(t *testing.T) {
	s, err := newSite(len(text))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, c := range cases[:2] {
		c.size = len(text)
		all := c.contenders[0]
		c.contenders = []contender{{"two bytes less", func(src io.Reader, work func([]byte)) error {
			return all.run(io.LimitReader(src, int64(c.size-2)), work)
		}}}
		if _, err := s.contenders(c)[0].Turn(1); !errors.Is(err, errOtherBytes) {
			t.Errorf("%s: the loss of two bytes is not seen: %v", c.key, err)
		}
	}
	for _, p := range pairs {
		var c closers
		once, err := p.open(&c, 4*kib)
		if err != nil {
			t.Fatal(err)
		}
		err = once(func(dst io.Writer, src io.Reader) error {
			_, err := io.Copy(dst, struct{ io.Reader }{io.MultiReader(strings.NewReader("x"),
				io.LimitReader(src, 4*kib-1))})
			return err
		})
		if !errors.Is(err, errOtherBytes) {
			t.Errorf("%s: a byte that was not in the source is not seen: %v", p.name, err)
		}
		c.close()
	}
}

func TestErrorsOfTheSource(t *testing.T) {
	for _, by := range byChunk {
		src := io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(iotest.ErrTimeout))
		if err := by.run(src, func([]byte) {}); err == nil {
			t.Errorf("%s does not report that the source has failed", by.name)
		}
	}
}

func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn", "1us"}, &out,
		t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, by := range byChunk {
		if !strings.Contains(out.String(), "| "+by.name+" ") {
			t.Errorf("no row of %q:\n%s", by.name, &out)
		}
	}
	for _, p := range pairs {
		if n := strings.Count(out.String(), "| "+p.name+" "); n != len(copySizes) {
			t.Errorf("%d rows of %q:\n%s", n, p.name, &out)
		}
	}
}
