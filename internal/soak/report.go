package soak

import "time"

// Report is what was done and seen. Times in JSON are nanoseconds.
type Report struct {
	Started     time.Time      `json:"started"`
	Took        time.Duration  `json:"took_ns"`
	Verdict     Verdict        `json:"verdict"`
	Interrupted bool           `json:"interrupted,omitempty"` // by the user, before its time was over
	Seed        uint64         `json:"seed"`
	Cycles      int            `json:"cycles"`
	Done        Done           `json:"done"`
	Servers     []ServerReport `json:"servers"`
	Reasons     []string       `json:"reasons,omitempty"`  // why the run has failed; empty: it has not
	Unjudged    []string       `json:"unjudged,omitempty"` // what the run was too short for; empty: it was not
}

// ServerReport is what was seen of one server.
type ServerReport struct {
	Name string `json:"name"`
	// Used is what all its processes used between their quiet points.
	Used Usage `json:"used"`
	// Watched is of the process with the most quiet points, without the first of them, which are not judged.
	Watched []Watched `json:"watched"`
	// Lives has the quiet points of each process.
	Lives [][]Point `json:"lives"`
	// Judged is, for each process, how many of its quiet points its drift was judged by: 0 if there were too few.
	Judged []int `json:"judged"`
}

// Watched is one quantity over the quiet points of a process.
type Watched struct {
	Name    string  `json:"name"`
	Bytes   bool    `json:"bytes"` // otherwise it is a number
	First   int64   `json:"first"`
	Last    int64   `json:"last"`
	Max     int64   `json:"max"`
	PerHour float64 `json:"per_hour"` // by the median of the slopes between any two points
}

// PerHour is what the server would use in an hour of such work.
func (u Usage) PerHour() (allocated, collected float64) {
	if u.Time <= 0 {
		return 0, 0
	}
	return float64(u.Allocated) / u.Time.Hours(), float64(u.Collected) / u.Time.Hours()
}

// report adds everything up.
func (r *run) report() Report {
	rep := Report{
		Started: r.began, Took: time.Since(r.began), Interrupted: r.interrupted,
		Seed: r.cfg.Seed, Cycles: r.cycles, Done: r.tally.done(), Reasons: r.faults.list(),
	}
	for _, h := range r.houses {
		rep.Servers = append(rep.Servers, h.report())
	}
	rep.judge(r.cfg.For)
	return rep
}

func (h *house) report() ServerReport {
	rep := ServerReport{Name: h.name}
	var longest []Point
	for _, l := range h.lives {
		rep.Used.Time += l.used.Time
		rep.Used.Allocated += l.used.Allocated
		rep.Used.Collected += l.used.Collected
		rep.Lives = append(rep.Lives, l.points)
		if len(l.points) >= len(longest) {
			longest = l.points
		}
	}
	if len(longest) > warmUp {
		for _, r := range h.rules {
			rep.Watched = append(rep.Watched, r.watched(longest[warmUp:]))
		}
	}
	return rep
}

func (r rule) watched(points []Point) Watched {
	w := Watched{Name: r.name, Bytes: r.unit == size, First: r.of(&points[0]), Last: r.of(&points[len(points)-1])}
	for i := range points {
		w.Max = max(w.Max, r.of(&points[i]))
	}
	if time := points[len(points)-1].At - points[0].At; time > 0 {
		w.PerHour = r.gain(points) / time.Hours()
	}
	return w
}
