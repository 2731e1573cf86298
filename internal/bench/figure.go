package bench

import "slices"

// A Figure is one number of ours, beside the same one of a rival where there is a rival.
//
// Invariants: len(Values) >= 1; Min <= Median <= Max; Ratio is nil if and only if Rival is; a Ratio above 1 means that
// ours is better, whatever the unit.
type Figure struct {
	Name   string `json:"name"` // suite/case/rival, the same in every version
	Suite  string `json:"suite"`
	What   string `json:"what"` // is done
	Unit   string `json:"unit"`
	Better Better `json:"better"`

	Measured
	Rival *Measured `json:"rival,omitempty"`
	Ratio *Spread   `json:"ratio,omitempty"` // taken within each round

	Command string `json:"command"` // that measures it again
}

// Better says which of two values is the better one.
type Better string

// The two.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Measured is what one contender came to, in the figure's unit.
type Measured struct {
	Contender string `json:"contender"`
	Spread
	Values Series `json:"values"` // a round each
	Cost   *Cost  `json:"cost,omitempty"`
}

// Cost is what an operation takes besides, in the median of the rounds.
type Cost struct {
	CPU    float64 `json:"cpu_ns"`
	Bytes  float64 `json:"bytes"` // allocated
	Allocs float64 `json:"allocs"`
	GCs    float64 `json:"gcs_per_second"` // collections of a second of work
}

func measured(name string, values Series) Measured {
	return Measured{Contender: name, Spread: values.Spread(), Values: values}
}

// against compares ours with a rival that took as many rounds.
func (f *Figure) against(rival Measured) {
	f.Rival = &rival
	if ratio := f.ratios(); len(ratio) > 0 {
		s := ratio.Spread()
		f.Ratio = &s
		return
	}
	f.Rival = nil
}

// ratios are those to the rival, of each round.
func (f *Figure) ratios() Series {
	switch {
	case f.Rival == nil:
		return nil
	case f.Better == Higher:
		return f.Values.Over(f.Rival.Values)
	}
	return f.Rival.Values.Over(f.Values)
}

// agreement is the share of the rounds that must say the same before a verdict says it. One round in which something
// else ran on the machine should not decide.
const agreement = 0.75

// Verdict is what the rounds say: ahead or lost, or even where they don't agree; nothing without a rival.
func (f *Figure) Verdict() string {
	if f.Ratio == nil {
		return ""
	}
	above, below := 0, 0
	for _, r := range f.ratios() {
		if r > 1 {
			above++
		} else if r < 1 {
			below++
		}
	}
	switch enough := agreement * float64(len(f.Values)); {
	case float64(above) >= enough:
		return "ahead"
	case float64(below) >= enough:
		return "lost"
	}
	return "even"
}

// finite says that every value is a number that can be shown.
func (f *Figure) finite() bool {
	return len(f.Values) > 0 && !slices.ContainsFunc(f.Values, func(v float64) bool { return v != v || v > 1e300 })
}
