package bench

import (
	"encoding/json"
	"io"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
)

// SchemaVersion is that of the JSON. It grows when a field changes its meaning or goes, not when one comes.
const SchemaVersion = 1

// A Report is everything that was measured. Times in JSON are seconds unless a name says otherwise.
type Report struct {
	Version     int         `json:"version"` // SchemaVersion
	Command     string      `json:"command"` // that made it
	Began       time.Time   `json:"began"`
	Seconds     float64     `json:"seconds"`
	Interrupted bool        `json:"interrupted"` // the figures are those of the time until then
	Rounds      int         `json:"rounds"`
	Machine     Machine     `json:"machine"`
	Suites      []SuiteInfo `json:"suites"` // that were asked for, in this order
	Figures     []Figure    `json:"figures"`
	Recordings  []Recording `json:"recordings"`
}

// SuiteInfo is what became of a suite.
type SuiteInfo struct {
	Name    string   `json:"name"`
	What    string   `json:"what"`
	State   State    `json:"state"`
	Why     string   `json:"why,omitempty"` // it was skipped or has failed
	Command string   `json:"command"`
	Notes   []string `json:"notes,omitempty"`
}

// State is how a suite ended.
type State string

// The states.
const (
	Measuring  State = "interrupted" // it had begun when the benchmark was interrupted
	Finished   State = "finished"
	Skipped    State = "skipped" // something is not installed
	Failed     State = "failed"
	NotReached State = "not reached"
)

// A Recording is a server under load, seen from three sides. Both timelines have their own beginning on the one clock of
// the machine; Server is nil where the server is not ours to look into.
type Recording struct {
	Suite     string            `json:"suite"`
	Key       string            `json:"key"` // names its picture and its profiles, behind the suite: "latency-50ms"
	Contender string            `json:"contender"`
	What      string            `json:"what"`
	Operation string            `json:"operation"` // that the load counts: "requests"
	Load      *observe.Timeline `json:"load"`      // of this process: only its load layer tells of the load
	Server    *observe.Timeline `json:"server"`    // of the server's process
}

// FiguresOf returns the figures of a suite.
func (r *Report) FiguresOf(suite string) []Figure {
	var of []Figure
	for _, f := range r.Figures {
		if f.Suite == suite {
			of = append(of, f)
		}
	}
	return of
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
