package measure

import (
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
