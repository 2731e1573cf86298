package bench

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"sort"
	"testing"
)

func TestSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := make(Series, 1+r.IntN(12))
		for i := range s {
			s[i] = float64(r.IntN(20))
		}
		sorted := append([]float64(nil), s...)
		sort.Float64s(sorted)
		n := len(sorted)
		want := Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
		if got := s.Spread(); got != want {
			t.Fatalf("%v of %v, want %v", got, s, want)
		}
	}
	if !math.IsNaN(Series{}.Median()) || !math.IsNaN(Series{}.Max()) {
		t.Error("no values have a median")
	}
	if q := (Series{4, 1, 9}).Over(Series{2, 0, 3, 7}); len(q) != 2 || q[0] != 2 || q[1] != 3 {
		t.Errorf("ratios %v", q)
	}
	b, err := json.Marshal(Series{1, math.NaN(), math.Inf(1), 0.5})
	if err != nil || string(b) != "[1,null,null,0.5]" {
		t.Errorf("%s, %v", b, err)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 0.5: "0.50", 0.0951: "0.10", 0.00123: "0.0012", 0.0009: "0.00", 12.34: "12.3", 123.4: "123", 1234: "1234",
		12345: "12\u202f345", 1234567: "1\u202f234\u202f567", -12345: "-12\u202f345", 1e20: "1e+20",
		math.Inf(1): "–", math.NaN(): "–",
	} {
		if got := number(v); got != want {
			t.Errorf("%g is printed as %q, want %q", v, got, want)
		}
	}
	if got := (Spread{2, 1, 3}).String(); got != "2.00 (1.00 to 3.00)" {
		t.Error(got)
	}
	if got := (Spread{2, 2, 2}).String(); got != "2.00" {
		t.Error(got)
	}
}

// A ratio above 1 means that ours is better, whatever the unit.
func TestFigureAgainst(t *testing.T) {
	for _, tt := range []struct {
		better      Better
		ours, rival Series
		ratio       Spread
		verdict     string
	}{
		{Lower, Series{10, 20}, Series{20, 60}, Spread{2.5, 2, 3}, "ahead"},
		{Lower, Series{20, 80}, Series{10, 20}, Spread{0.375, 0.25, 0.5}, "lost"},
		{Higher, Series{20, 60}, Series{10, 20}, Spread{2.5, 2, 3}, "ahead"},
		{Higher, Series{10, 20}, Series{20, 10}, Spread{1.25, 0.5, 2}, "even"},
		{Lower, Series{10}, Series{10}, Spread{1, 1, 1}, "even"},
		{Lower, Series{2, 2, 2, 2}, Series{1, 1, 1, 8}, Spread{0.5, 0.5, 4}, "lost"},
		{Lower, Series{2, 2, 2, 2}, Series{1, 1, 8, 8}, Spread{2.25, 0.5, 4}, "even"},
	} {
		f := Figure{Better: tt.better, Measured: measured("ours", tt.ours)}
		f.against(measured("rival", tt.rival))
		if *f.Ratio != tt.ratio || f.Verdict() != tt.verdict {
			t.Errorf("%v beside %v, %s is better: %v, %s", tt.ours, tt.rival, tt.better, *f.Ratio, f.Verdict())
		}
	}
	alone := Figure{Measured: measured("ours", Series{1})}
	if alone.Verdict() != "" {
		t.Error("a figure without a rival has a verdict")
	}
	zero := Figure{Better: Lower, Measured: measured("ours", Series{0})}
	if zero.against(measured("rival", Series{1})); zero.Ratio != nil || zero.Rival != nil {
		t.Error("a ratio to nothing")
	}
}
