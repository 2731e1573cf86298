package soak

import (
	"fmt"
	"time"
)

// A Verdict is what came of a run, in a word.
type Verdict string

const (
	Passed   Verdict = "passed"   // everything was judged, and nothing was wrong
	Failed   Verdict = "failed"   // Report.Reasons say why
	Unjudged Verdict = "unjudged" // nothing was wrong, but Report.Unjudged could not be seen
)

// pointsWanted is how many quiet points a process needs for its drift to be judged.
const pointsWanted = warmUp + minTrend

// judged is how many of the quiet points of one process its drift is judged by.
func judged(points int) int {
	if points < pointsWanted {
		return 0
	}
	return points - warmUp
}

// judge fills in what the verdict is, and what is missing for another.
func (rep *Report) judge(length time.Duration) {
	if rep.Interrupted {
		rep.Unjudged = append(rep.Unjudged, fmt.Sprintf("interrupted after %v of %v", rep.Took.Round(time.Second), length))
	}
	for i := range rep.Servers {
		s, most := &rep.Servers[i], 0
		for _, points := range s.Lives {
			s.Judged = append(s.Judged, judged(len(points)))
			most = max(most, len(points))
		}
		if judged(most) == 0 {
			rep.Unjudged = append(rep.Unjudged,
				fmt.Sprintf("server %s: too short to judge drift: %d of %d quiet points", s.Name, most, pointsWanted))
		}
	}
	switch {
	case len(rep.Reasons) > 0:
		rep.Verdict = Failed
	case len(rep.Unjudged) > 0:
		rep.Verdict = Unjudged
	default:
		rep.Verdict = Passed
	}
}
