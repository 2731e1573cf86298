package soak

import (
	"fmt"
	"time"
)

// The verdicts of a run.
const (
	Passed   = "passed"   // everything was judged and no fault was found
	Failed   = "failed"   // Report.Faults has the reasons
	Unjudged = "unjudged" // no fault was found, but Report.Unjudged names what was not judged
)

// A Report is the result of a soak. Times in JSON are nanoseconds.
type Report struct {
	Verdict  string           `json:"verdict"`
	Took     time.Duration    `json:"took_ns"`
	Seed     uint64           `json:"seed"`
	Cycles   int              `json:"cycles"`
	Done     map[string]int64 `json:"done"` // number of client operations, by name
	Servers  []Server         `json:"servers"`
	Faults   []string         `json:"faults,omitempty"`
	Unjudged []string         `json:"unjudged,omitempty"`
}

// A Server describes one of the millrace servers.
type Server struct {
	Name   string  `json:"name"`
	Points []point `json:"quiet_points"` // resource use since the last restart
}

func (r *run) report(cutShort bool) *Report {
	rep := &Report{
		Took: time.Since(r.began), Seed: r.cfg.Seed, Cycles: r.cycles, Faults: r.faults.texts,
		Done: r.done.n,
	}
	if cutShort {
		rep.Unjudged = append(rep.Unjudged, fmt.Sprintf("interrupted after %v",
			rep.Took.Round(time.Second)))
	}
	for _, what := range []string{published, viewers, toTheEnd, fileRequests, blobRequests} {
		if r.done.get(what) == 0 {
			rep.Unjudged = append(rep.Unjudged, "no "+what)
		}
	}
	for _, t := range r.targets {
		rep.Servers = append(rep.Servers, Server{t.name, t.points})
		if len(t.points) < pointsWanted {
			rep.Unjudged = append(rep.Unjudged,
				fmt.Sprintf("server %s: too short to judge drift: %d of %d quiet points",
					t.name, len(t.points), pointsWanted))
		}
	}
	switch {
	case len(rep.Faults) > 0:
		rep.Verdict = Failed
	case len(rep.Unjudged) > 0:
		rep.Verdict = Unjudged
	default:
		rep.Verdict = Passed
	}
	return rep
}
