package soak

import "slices"

// maxSlopePoints bounds the pairs that a slope is taken of. Of a longer row only so many points are looked at.
const maxSlopePoints = 400

// slope is the median of the slopes between any two points (Theil and Sen): what y gains when x goes from 0 to 1. It stays
// what it is if fewer than three points in ten are far off, as after one large collection, or one busy moment.
func slope(x, y []float64) float64 {
	step := max(1, (len(x)+maxSlopePoints-1)/maxSlopePoints)
	var all []float64
	for i := 0; i < len(x); i += step {
		for j := i + step; j < len(x); j += step {
			if x[j] != x[i] {
				all = append(all, (y[j]-y[i])/(x[j]-x[i]))
			}
		}
	}
	return median(all)
}

// median sorts v. That of nothing is 0.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
