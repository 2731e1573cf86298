package chunk_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// cutAll shows in to the Cutter in steps and cuts wherever it can; it returns where, and whether the rest is whole.
func cutAll(t *testing.T, c chunk.Cutter, in []byte, limit int, step func() int) (cuts []int, whole bool) {
	t.Helper()
	w := chunk.NewScan(limit)
	start := 0
	for end := 0; end <= len(in); end = min(end+max(step(), 1), len(in)) {
		for start < end {
			data := in[start:end:end]
			w.Show(data)
			n := chunk.Cut(c, w)
			if w.Seen() < 0 || w.Seen() > len(data) {
				t.Fatalf("%d of %d bytes are seen", w.Seen(), len(data))
			}
			if n <= 0 || n > len(data) {
				break
			}
			start += n
			w.Advance(n)
			cuts = append(cuts, start)
		}
		if end == len(in) {
			break
		}
	}
	w.Show(in[start:])
	return cuts, start == len(in) || chunk.Whole(c, w)
}

// With a limit of one byte a Cutter stops at every end there is.
func TestCuttersFindEveryEnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, s := range slowCutters {
		t.Run(s.name, func(t *testing.T) {
			for range 300 {
				in := s.make(rnd, rnd.IntN(100))
				want := s.ends(in)
				for _, step := range []func() int{
					func() int { return 1 },
					func() int { return len(in) },
					func() int { return 1 + rnd.IntN(20) },
				} {
					cuts, whole := cutAll(t, s.cutter, in, 1, step)
					if whole && len(in) > 0 && last(cuts) < len(in) {
						cuts = append(cuts, len(in))
					}
					if !slices.Equal(cuts, want) {
						t.Fatalf("%q is cut at %v, want %v", in, cuts, want)
					}
				}
			}
		})
	}
}

// With any limit and any steps, a cut is where a record ends, as late as the limit allows.
func TestCuttersRespectTheLimit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, s := range slowCutters {
		t.Run(s.name, func(t *testing.T) {
			for range 300 {
				in := s.make(rnd, 1+rnd.IntN(100))
				ends := s.ends(in)
				limit := 1 + rnd.IntN(40)
				cuts, _ := cutAll(t, s.cutter, in, limit, func() int { return len(in) })
				at := 0
				for _, cut := range cuts {
					want := 0
					for _, e := range ends {
						if e < len(in) && e > at && (want == 0 || e <= at+limit) {
							want = e
						}
					}
					if cut != want && cut != len(in) {
						t.Fatalf("limit %d: %q is cut at %d after %d, want %d of %v", limit, in, cut, at, want, ends)
					}
					at = cut
				}
			}
		})
	}
}

func TestJSONEnds(t *testing.T) {
	for _, test := range []struct {
		in    string
		want  []int
		whole bool
	}{
		{"", nil, true},
		{`{}`, []int{2}, true},
		{`{}{}`, []int{2, 4}, true},
		{"{}\n[]\n", []int{2, 3, 5, 6}, true},
		{`{"a":"}"}[`, []int{9}, false},
		{`"a\"b" "`, []int{6, 7}, false},
		{`"\\""\\\\"`, []int{4, 10}, true},
		{`"\`, nil, false},
		{`[[[[]]]]1`, []int{8}, true},
		{`12 3`, []int{2, 3}, true},
		{`1{}`, []int{1, 3}, true},
		{`1"a"`, []int{1, 4}, true},
		{`true false`, []int{4, 5}, true},
		{`{"a":[1,2,{"b":"]]]}"}]}{`, []int{24}, false},
		{`}{}`, []int{1, 3}, true}, // begins in the middle
		{`1,2`, nil, true},         // not JSON: handed on
		{"\"\xff\xfe{\"{}", []int{5, 7}, true},
		{`{"a long string with { and [ and ] in it, and \" too": "01234567\\"}`, []int{68}, true},
	} {
		cuts, whole := cutAll(t, chunk.JSON(), []byte(test.in), 1, func() int { return 1 })
		if !slices.Equal(cuts, test.want) || whole != test.whole {
			t.Errorf("%s: cut at %v, rest whole: %v; want %v, %v", test.in, cuts, whole, test.want, test.whole)
		}
	}
}

// What a Cutter has seen it does not look at again: here it is no longer there.
func TestCuttersScanOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, s := range slowCutters[:3] {
		t.Run(s.name, func(t *testing.T) {
			for range 100 {
				in := s.make(rnd, 60)
				want, _ := cutAll(t, s.cutter, in, 1, func() int { return 1 })
				w, start, cuts := chunk.NewScan(1), 0, []int(nil)
				for end := 1; end <= len(in); end++ {
					for {
						data := slices.Clone(in[start:end])
						for i := range w.Seen() {
							data[i] = '"'
						}
						w.Show(data)
						n := 0
						if len(data) > 0 {
							n = chunk.Cut(s.cutter, w)
						}
						if n <= 0 || n > len(data) {
							break
						}
						start += n
						w.Advance(n)
						cuts = append(cuts, start)
					}
				}
				if !slices.Equal(cuts, want) {
					t.Fatalf("%q is cut at %v, want %v", in, cuts, want)
				}
			}
		})
	}
}
