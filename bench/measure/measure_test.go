package measure

import (
	"runtime"
	"strings"
	"testing"
)

func TestSeries(t *testing.T) {
	s := Series{4, 1, 3}
	if s.Median() != 3 || s.Min() != 1 || s.Max() != 4 {
		t.Errorf("median %v, min %v, max %v of %v", s.Median(), s.Min(), s.Max(), []float64(s))
	}
	if m := (Series{1, 2, 3, 4}).Median(); m != 2.5 {
		t.Errorf("median of four values is %v, want 2.5", m)
	}
	if q := s.Over(Series{2, 2, 2}); q.Median() != 1.5 {
		t.Errorf("ratio %v, want 1.5", q.Median())
	}
	if got, want := (Series{0.5, 10, 1000}).String(), "10 (0.50 to 1000)"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if got := (Series{}).String(); got != "-" {
		t.Errorf("empty series prints %q", got)
	}
}

func TestTable(t *testing.T) {
	tab := NewTable("name", "ns")
	tab.Row("a", 1.234)
	tab.Row("longer", Series{2})
	var b strings.Builder
	tab.WriteTo(&b)
	want := "| name   | ns   |\n| ------ | ---- |\n| a      | 1.23 |\n| longer | 2    |\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

var kept []byte

func TestTake(t *testing.T) {
	const n, size = 8, 1 << 20
	var c Cost
	c.Add(Take(func() {
		for range n {
			kept = make([]byte, size)
			runtime.GC()
		}
	}), n)
	if c.Bytes[0] < size || c.Bytes[0] > 2*size || c.Allocs[0] < 1 || c.GCs[0] < 1e6 || c.Nanos[0] <= 0 || c.CPU[0] <= 0 {
		t.Errorf("%d times 1 MiB and a collection: each %+v", n, c)
	}
}

func TestWhole(t *testing.T) {
	for _, c := range []struct {
		s    Series
		want string
	}{{Series{0.02}, "0"}, {Series{63.95}, "64"}, {nil, "-"}} {
		if got := c.s.Whole(); got != c.want {
			t.Errorf("%v.Whole() = %q, want %q", []float64(c.s), got, c.want)
		}
	}
}
