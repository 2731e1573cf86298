package hlscheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const maxProblems = 100

// Stats counts the objects that a Client has received, and lists their problems.
type Stats struct {
	Playlists, Deltas      int // media playlists, and delta updates among them
	Inits, Parts, Segments int // objects that were passed to Object and Output
	Hinted                 int // parts that were received for a hint
	Compared, Again        int // segments compared with their parts, and objects fetched twice
	Missed                 int // listed segments and parts that could not be fetched
	Bytes                  int64

	Latency Durations // from the date of an object's end to its last byte

	Problems []Problem      // the first problem of each rule and text
	Counts   map[string]int // number of problems of each rule
}

// Durations summarizes durations.
type Durations struct {
	N             int
	Min, Max, Sum time.Duration
}

func (d *Durations) add(v time.Duration) {
	if d.N == 0 || v < d.Min {
		d.Min = v
	}
	d.N, d.Max, d.Sum = d.N+1, max(d.Max, v), d.Sum+v
}

// Mean returns the arithmetic mean, or 0 if there are no durations.
func (d Durations) Mean() time.Duration { return d.Sum / time.Duration(max(d.N, 1)) }

// String returns number, minimum, mean and maximum.
func (d Durations) String() string {
	return fmt.Sprintf("%d: %v min, %v mean, %v max", d.N, d.Min, d.Mean(), d.Max)
}

// String returns the Client's counters, the number of problems of each rule, and the problems.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"playlists %d (%d deltas), inits %d, parts %d (%d hinted), segments %d, %d bytes, missed %d\n",
		s.Playlists, s.Deltas, s.Inits, s.Parts, s.Hinted, s.Segments, s.Bytes, s.Missed)
	fmt.Fprintf(&b, "compared %d, again %d\nlatency %v\n", s.Compared, s.Again, s.Latency)
	for _, rule := range slices.Sorted(maps.Keys(s.Counts)) {
		fmt.Fprintf(&b, "%s: %d\n", rule, s.Counts[rule])
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "%v\n", p)
	}
	return b.String()
}

func (s *Stats) note(problems []Problem) {
	for _, p := range problems {
		s.Counts[p.Rule]++
		same := func(q Problem) bool { return q.Rule == p.Rule && q.Text == p.Text }
		if len(s.Problems) < maxProblems && !slices.ContainsFunc(s.Problems, same) {
			s.Problems = append(s.Problems, p)
		}
	}
}
