// Package doctor checks whether a Linux machine is set up for a streaming server, and advises what
// to change.
//
// A check depends only on a host and a Plan. It does not run commands, write files or open
// connections. If it cannot read a value, its State is Unknown, which is not a failure. Only
// [Measure] does more: it loads a server on this machine.
package doctor

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// A Plan describes the load that a machine should carry. Each field from MaxViewers to MaxUploads
// has the value of a flag of "millrace serve".
type Plan struct {
	Viewers int    // concurrent viewers and downloads
	Root    string // value of --root; empty if no files are served
	Blobs   string // value of --blobs; empty if no blobs are stored on disk

	MaxViewers int
	MaxStreams int
	KeepBytes  int64
	Unsent     int64
	MaxUploads int
}

// A State is the result of a check.
type State string

const (
	Bad     State = "bad"     // the load in the Plan will not work
	Warn    State = "warn"    // the load will work, but slowly, unsafely or with much memory
	Info    State = "info"    // the advice applies only in some cases
	Unknown State = "unknown" // the check could not read a value
	OK      State = "ok"      // nothing to change
)

// States lists all States. The worst comes first.
var States = [...]State{Bad, Warn, Info, Unknown, OK}

// A Finding is the result of a check. Each string is one line of printable characters.
type Finding struct {
	Group   string `json:"group"`
	Name    string `json:"name"` // identifier for scripts; does not change
	State   State  `json:"state"`
	Value   string `json:"value"`   // the current value
	Advice  string `json:"advice"`  // empty if there is nothing to do
	Why     string `json:"why"`     // how the setting affects the server
	Command string `json:"command"` // a command that changes the setting; empty if there is none
}

func (f *Finding) advise(s State, advice, command string) {
	f.State, f.Advice, f.Command = s, advice, command
}

// schema is the version of the JSON form of a Report. Adding fields, or adding or removing
// findings, does not change the version.
const schema = 2

// A Report has the findings of all checks.
type Report struct {
	Schema   int           `json:"schema"`
	OS       string        `json:"os"`
	CPUs     int           `json:"cpus"`
	Memory   int64         `json:"memory_bytes"` // memory of the machine; 0 if unknown
	Viewers  int           `json:"viewers"`
	Root     string        `json:"root"`
	Blobs    string        `json:"blobs"`
	Counts   map[State]int `json:"counts"` // number of findings for every State; may be 0
	Findings []Finding     `json:"findings"`
	Capacity *Capacity     `json:"capacity,omitempty"` // not set by Examine; see Measure
}

// Examine runs all checks on this machine. It returns the worst findings first.
func Examine(p Plan) Report { return examine(thisHost(), p) }

func examine(h *host, p Plan) Report {
	r := Report{
		Schema: schema, OS: runtime.GOOS, CPUs: h.cpus, Viewers: p.Viewers, Root: line(p.Root),
		Blobs:  line(p.Blobs),
		Counts: make(map[State]int),
	}
	machine := *h
	r.Memory = machine.memory()
	for _, s := range States {
		r.Counts[s] = 0 // so that scripts find an entry for every State
	}
	for _, c := range checks {
		at := *h // a copy, so that each check has a separate err
		f := c.look(&at, p)
		if at.err != nil {
			f = Finding{State: Unknown, Value: "-", Why: at.err.Error()}
		} else {
			f.State, f.Why = cmp.Or(f.State, OK), f.Why+" "+c.why
		}
		f.Group, f.Name = c.group, c.name
		for _, text := range []*string{&f.Value, &f.Advice, &f.Why, &f.Command} {
			*text = line(*text)
		}
		r.Counts[f.State]++
		r.Findings = append(r.Findings, f)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(States[:], a.State), slices.Index(States[:], b.State))
	})
	return r
}

// line converts s to one line of printable characters, without escape sequences.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	return strings.TrimSpace(s)
}

// size formats a number of bytes with binary units, as in the server's flags.
func size(n int64) string {
	v, i := float64(n), 0
	for ; v >= 1024 && i < 5; i++ {
		v /= 1024
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") +
		" " + []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}[i]
}

func count(n int64) string {
	if n >= unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// roundUp returns the smallest power of two that is at least n.
func roundUp(n int64) int64 {
	m := int64(1)
	for m < n {
		m <<= 1
	}
	return m
}

// quote quotes s as a single word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
