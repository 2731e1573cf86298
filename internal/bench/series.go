package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Series holds one value for each round, in order.
type Series []float64

// Median is the middle value, NaN when there is none.
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

// Min is the smallest value, NaN when there is none.
func (s Series) Min() float64 { return s.pick(slices.MinFunc[Series]) }

// Max is the largest value, NaN when there is none.
func (s Series) Max() float64 { return s.pick(slices.MaxFunc[Series]) }

func (s Series) pick(f func(Series, func(a, b float64) int) float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return f(s, cmp.Compare[float64])
}

// Over divides s by base, round by round. A round in which base is 0 has no ratio.
func (s Series) Over(base Series) Series {
	q := make(Series, 0, min(len(s), len(base)))
	for i := range min(len(s), len(base)) {
		if base[i] != 0 {
			q = append(q, s[i]/base[i])
		}
	}
	return q
}

// Spread is a Series in three numbers.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Spread is that of s, which has at least one value.
func (s Series) Spread() Spread { return Spread{s.Median(), s.Min(), s.Max()} }

// String is the median with the smallest and the largest value.
func (s Spread) String() string {
	if s.Min == s.Max {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", number(s.Median), number(s.Min), number(s.Max))
}

// number prints three significant digits, without an exponent, with spaces between thousands.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a == 0:
		return "0"
	case a < 0.00095:
		return "0.00"
	case a >= 1e15:
		return fmt.Sprintf("%.3g", v)
	case a >= 100:
		return thousands(fmt.Sprintf("%.0f", v))
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.095:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

// thousands puts a narrow no-break space before every third digit from the end, where there are more than four of a whole
// number.
func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if len(digits) <= 4 || strings.ContainsAny(digits, ".e") {
		return sign + digits
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString("\u202f")
		}
		b.WriteRune(d)
	}
	return b.String()
}

// MarshalJSON implements json.Marshaler: what is not a number is null, which encoding/json refuses to say by itself.
func (s Series) MarshalJSON() ([]byte, error) {
	values := make([]*float64, len(s))
	for i := range s {
		if !math.IsNaN(s[i]) && !math.IsInf(s[i], 0) {
			values[i] = &s[i]
		}
	}
	return json.Marshal(values)
}
