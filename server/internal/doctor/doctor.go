// Package doctor checks whether a Linux machine can carry a streaming server, and says what to
// change.
//
// The table of checks lists the checks. A check is a function of a host and a Plan only: it runs no
// command, writes nothing, and opens no connection. If it cannot see something, the State is
// Unknown, which is no reason to fail. Much of the package is text for users: for each of fifteen
// checks what to do, why, and with which command.
package doctor

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode"
)

// A Plan describes the intended load. The fields after Blobs are the server's limits of the same
// names.
type Plan struct {
	Viewers int    // viewers and downloads at a time
	Root    string // as --root; empty: no files are served
	Blobs   string // as --blobs; empty: no blobs are kept in a directory

	MaxViewers int
	MaxStreams int
	KeepBytes  int64
	Unsent     int64
	MaxUploads int
}

// A State is the result of a check.
type State string

const (
	Bad     State = "bad"     // keeps the plan from working
	Warn    State = "warn"    // works, and costs speed, memory or safety
	Info    State = "info"    // is a choice
	Unknown State = "unknown" // could not be seen
	OK      State = "ok"      // needs no change
)

// States has all of them, the worst first.
var States = [...]State{Bad, Warn, Info, Unknown, OK}

// A Finding is the report of one check. Its texts are one line each, of printable characters.
type Finding struct {
	Group   string `json:"group"`
	Name    string `json:"name"` // for scripts: it stays the same
	State   State  `json:"state"`
	Value   string `json:"value"`   // the current value
	Advice  string `json:"advice"`  // empty if there is nothing to do
	Why     string `json:"why"`     // its effect on the server
	Command string `json:"command"` // that would follow the advice; empty if no command does
}

// advise sets the advice of f, and a command that follows it, or "".
func (f *Finding) advise(s State, advice, command string) {
	f.State, f.Advice, f.Command = s, advice, command
}

// schema is the version of a Report's JSON. A field may be added within one version, and findings
// may be added or removed.
const schema = 2

// A Report has the findings of all checks.
type Report struct {
	Schema   int           `json:"schema"`
	OS       string        `json:"os"`
	CPUs     int           `json:"cpus"`
	Memory   int64         `json:"memory_bytes"` // of the machine; 0 if it is not known
	Viewers  int           `json:"viewers"`
	Root     string        `json:"root"`
	Blobs    string        `json:"blobs"`
	Counts   map[State]int `json:"counts"` // has each of States
	Findings []Finding     `json:"findings"`
}

// Examine has every check look at the machine that this process is on. The worst findings come
// first.
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
		r.Counts[s] = 0 // scripts find each of them
	}
	for _, c := range checks {
		at := *h // with its own error
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

// line returns s as one line of printable characters: a file or a path may have escape sequences in
// it.
func line(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
	return strings.TrimSpace(s)
}

// size formats a number of bytes in powers of 1024, as the server's flags count them.
func size(n int64) string {
	v, i := float64(n), 0
	for ; v >= 1024 && i < 5; i++ {
		v /= 1024
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") +
		" " + []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}[i]
}

// count formats a number that may be the kernel's way to say "no limit".
func count(n int64) string {
	if n >= unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// roundUp returns the smallest power of two that is not below n.
func roundUp(n int64) int64 {
	m := int64(1)
	for m < n {
		m <<= 1
	}
	return m
}

// quote makes s one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
