package chunk_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// With a limit of one byte, a Cutter stops at every end. It does not scan bytes twice: here they
// are overwritten.
func TestCuttersScanOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, s := range slowCutters[:3] {
		t.Run(s.name, func(t *testing.T) {
			for range 300 {
				in := s.make(rnd, 1+rnd.IntN(100))
				w, start, cuts := chunk.NewScan(1), 0, []int(nil)
				for end := 1; end <= len(in); end++ {
					for start < end {
						data := slices.Clone(in[start:end])
						for i := range w.Seen() {
							data[i] = '"'
						}
						w.Show(data)
						n := chunk.Cut(s.cutter, w)
						if n <= 0 || n > len(data) {
							break
						}
						start += n
						w.Advance(n)
						cuts = append(cuts, start)
					}
				}
				want := s.ends(in)
				if start < len(in) && chunk.Whole(s.cutter, w) {
					cuts = append(cuts, len(in))
				}
				if !slices.Equal(cuts, want) {
					t.Fatalf("%q is cut at %v, want %v", in, cuts, want)
				}
			}
		})
	}
}
