// Package measure is the one way in which this module measures: contenders have short turns in
// rounds, each in a balanced order; a table has medians with their spread, and ratios that are
// taken within each round, because a machine is not the same from one minute to the next; and a
// table is printed, and written as Markdown, as JSON and into one HTML page.
//
// Fourteen programs and the soak share it, including child processes and servers, so that a program
// is only its contenders, its check of their bytes and its columns.
package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Series holds one value for each round, in order.
type Series []float64

// Median is the middle value, or NaN for an empty series.
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

// Min is the smallest value, or NaN for an empty series.
func (s Series) Min() float64 { return s.pick(slices.MinFunc[Series]) }

// Max is the largest value, or NaN for an empty series.
func (s Series) Max() float64 { return s.pick(slices.MaxFunc[Series]) }

func (s Series) pick(f func(Series, func(a, b float64) int) float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return f(s, cmp.Compare[float64])
}

// Over divides s by base, round by round.
func (s Series) Over(base Series) Series {
	q := make(Series, min(len(s), len(base)))
	for i := range q {
		q[i] = s[i] / base[i]
	}
	return q
}

// Minus subtracts base from s, round by round.
func (s Series) Minus(base Series) Series {
	d := make(Series, min(len(s), len(base)))
	for i := range d {
		d[i] = s[i] - base[i]
	}
	return d
}

// Whole is the median in whole bytes or allocations, as the testing package counts: one-time
// allocations disappear among many operations.
func (s Series) Whole() string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d", int(s.Median()+0.1))
}

// Times is s, f times as much.
func (s Series) Times(f float64) Series {
	v := make(Series, len(s))
	for i := range s {
		v[i] = s[i] * f
	}
	return v
}

// String is the median with the smallest and the largest value.
func (s Series) String() string {
	if len(s) == 0 {
		return "-"
	}
	if len(s) == 1 || s.Min() == s.Max() {
		return number(s[0])
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median()), number(s.Min()), number(s.Max()))
}

// number prints three significant digits, without an exponent.
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
