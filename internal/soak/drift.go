package soak

import (
	"fmt"
	"slices"
	"time"
)

const (
	// warmUp is how many quiet points of a life are not judged: caches fill, pools grow to what the load needs, the runtime
	// starts its threads.
	warmUp = 2

	// minTrend is how many judged points a trend needs. Of fewer, each is a third of what is compared.
	minTrend = 6
)

// A Point is one quiet point. Time counts from the beginning of the run.
type Point struct {
	At time.Duration `json:"at_ns"`
	Sample
}

// A rule says how one quantity may change from quiet point to quiet point.
type rule struct {
	name string
	unit unit
	of   func(*Point) int64

	// exact: no point may be above one before it, of those that are judged, by more than slack.
	exact bool
	slack int64

	// capped: no point may be above most, the first ones included.
	capped bool
	most   int64

	// Otherwise it may breathe. It drifts if the slope over the whole time makes more than bound, and the median of the last
	// third is more than ratio times that of the first. Either alone is noise: a heap of 3 MB that becomes 4 has a large
	// ratio, one of 1 GB that wavers has a large slope.
	bound int64
	ratio float64
}

type unit int

const (
	count unit = iota
	size
)

func (u unit) format(n int64) string {
	if u == size {
		return formatMiB(n)
	}
	return fmt.Sprint(n)
}

func formatMiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// keptBlobs is how many blobs in a directory may be open for the next download at one quiet point and were not at an earlier
// one: one of each name.
const keptBlobs = blobKeys + 1

// redisSlack is how many connections to Redis may be idle at one quiet point and not yet open at an earlier one: 32 that
// carry values, and as many again of go-redis, ten for each processor, as far as so few clients use them.
const redisSlack = 48

// redisBuffers is what each of them has: two of 32 KiB, and what is about them.
const redisBuffers = 80 << 10

// rules returns what holds for a server.
func rules(redis bool) []rule {
	slack, buffers := int64(keptBlobs), int64(0)
	if redis {
		slack, buffers = redisSlack, redisSlack*redisBuffers
	}
	return []rule{
		{name: "goroutines", of: func(p *Point) int64 { return p.Goroutines }, exact: true},
		{name: "descriptors", of: func(p *Point) int64 { return p.Descriptors }, exact: true, slack: slack},
		// They are not among the descriptors: which of them are open follows the requests of the last seconds.
		{name: "files open", of: func(p *Point) int64 { return p.FilesOpen }, capped: true, most: int64(len(files))},
		{name: "pool in use", unit: size, of: func(p *Point) int64 { return p.PoolInUse }, capped: true},
		// A thread stays once the runtime has started it, for as long as many goroutines were in system calls at one time.
		{name: "threads", of: func(p *Point) int64 { return p.Threads }, bound: 12, ratio: 1.5},
		// What lives after a collection breathes little: tables of net/http and of the metrics, Redis' connections.
		{name: "heap", unit: size, of: func(p *Point) int64 { return p.Heap }, bound: 3<<20 + buffers, ratio: 1.25},
		// The runtime returns memory in its own time, and collects when the heap has doubled.
		{name: "RSS", unit: size, of: func(p *Point) int64 { return p.RSS }, bound: 24 << 20, ratio: 1.25},
		{name: "anonymous", unit: size, of: func(p *Point) int64 { return p.Anonymous }, bound: 24 << 20, ratio: 1.25},
		// What the pool keeps follows the traffic, which is the same in every cycle.
		{name: "pool idle", unit: size, of: func(p *Point) int64 { return p.PoolIdle }, bound: 24 << 20, ratio: 1.5},
	}
}

// judge returns what is wrong with the quiet points of one life of a server, in order.
func (r rule) judge(points []Point) (reasons []string) {
	if r.capped {
		want := "none"
		if r.most > 0 {
			want = "at most " + r.unit.format(r.most)
		}
		for i := range points {
			if n := r.of(&points[i]); n > r.most {
				return []string{fmt.Sprintf("%s: %s at quiet point %d, want %s", r.name, r.unit.format(n), i+1, want)}
			}
		}
		return nil
	}
	if len(points) <= warmUp || r.trend() && judged(len(points)) == 0 {
		return nil
	}
	points = points[warmUp:]
	if r.exact {
		least := 0
		for i := range points {
			n, before := r.of(&points[i]), r.of(&points[least])
			if n > before+r.slack {
				return []string{fmt.Sprintf("%s: %s at quiet point %d, after %s at quiet point %d",
					r.name, r.unit.format(n), warmUp+i+1, r.unit.format(before), warmUp+least+1)}
			}
			if n < before {
				least = i
			}
		}
		return nil
	}
	gain := r.gain(points)
	third := len(points) / 3
	before, after := r.middle(points[:third]), r.middle(points[len(points)-third:])
	if gain <= float64(r.bound) || after <= before*r.ratio {
		return nil
	}
	return []string{fmt.Sprintf("%s grows: by %s in %v, from %s in the first third to %s in the last",
		r.name, r.unit.format(int64(gain)), (points[len(points)-1].At - points[0].At).Round(time.Second),
		r.unit.format(int64(before)), r.unit.format(int64(after)))}
}

// gain is what the slope makes over the time of all points.
func (r rule) gain(points []Point) float64 {
	x, y := make([]float64, len(points)), make([]float64, len(points))
	for i := range points {
		x[i], y[i] = float64(points[i].At), float64(r.of(&points[i]))
	}
	return slope(x, y) * (x[len(x)-1] - x[0])
}

func (r rule) middle(points []Point) float64 {
	var v []float64
	for i := range points {
		v = append(v, float64(r.of(&points[i])))
	}
	return median(v)
}

// trend says whether the rule is of many quiet points together. Otherwise each of them is judged when it comes.
func (r rule) trend() bool { return !r.exact && !r.capped }

// settled says whether a sample is one that all rules but those of trends let pass, so that nothing has to be waited for.
func settled(rules []rule, points []Point, s Sample) bool {
	all := append(slices.Clone(points), Point{Sample: s})
	for _, r := range rules {
		if !r.trend() && len(r.judge(all)) > 0 {
			return false
		}
	}
	return true
}
