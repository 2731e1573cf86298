// Package measure is the framework of the benchmark programs of this module.
//
// In each round, every contender runs for one short turn, and the order of the turns is balanced
// over the rounds. A table shows medians and their spread. Ratios are computed within each round,
// because the speed of a machine changes from one minute to the next. Tables are printed, and can
// also be written as Markdown, JSON and HTML.
//
// The package also starts child processes and servers.
package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Series holds one value for each round, in order.
type Series []float64

// Median returns the middle value, or NaN for an empty series.
func (s Series) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(s))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// Min returns the smallest value, or NaN for an empty series.
func (s Series) Min() float64 { return s.pick(slices.MinFunc[Series]) }

// Max returns the largest value, or NaN for an empty series.
func (s Series) Max() float64 { return s.pick(slices.MaxFunc[Series]) }

func (s Series) pick(f func(Series, func(a, b float64) int) float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return f(s, cmp.Compare[float64])
}

// Over returns the ratios s[i]/base[i], one for each round.
func (s Series) Over(base Series) Series {
	q := make(Series, min(len(s), len(base)))
	for i := range q {
		q[i] = s[i] / base[i]
	}
	return q
}

// Minus returns the differences s[i]-base[i], one for each round.
func (s Series) Minus(base Series) Series {
	d := make(Series, min(len(s), len(base)))
	for i := range d {
		d[i] = s[i] - base[i]
	}
	return d
}

// Whole formats the median of bytes or allocations per operation as a whole number. It drops
// fractions below 0.9, which hides one-time allocations, and rounds larger fractions up.
func (s Series) Whole() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d", int(s.Median()+0.1))
}

// Times returns s with each value multiplied by f.
func (s Series) Times(f float64) Series {
	v := make(Series, len(s))
	for i := range s {
		v[i] = s[i] * f
	}
	return v
}

// String formats the median, followed by the smallest and the largest value.
func (s Series) String() string {
	if len(s) == 0 {
		return "-"
	}
	if len(s) == 1 || s.Min() == s.Max() {
		return number(s[0])
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median()), number(s.Min()), number(s.Max()))
}

func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case a >= 100 || a == math.Trunc(a) && a < 1e9:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
