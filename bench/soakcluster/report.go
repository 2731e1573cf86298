package soakcluster

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Report is the result of a run.
type Report struct {
	Took        time.Duration               `json:"took_ns"`
	Seed        uint64                      `json:"seed"`
	Interrupted bool                        `json:"interrupted,omitempty"`
	Done        map[string]map[string]int64 `json:"done"` // by client and kind of number
	Nodes       []Node                      `json:"nodes"`
	Faults      []string                    `json:"faults,omitempty"`
	Missing     []string                    `json:"missing,omitempty"` // clients without a connection
}

// A Node is the summary of one node.
type Node struct {
	Name      string `json:"name"`
	Processes int    `json:"processes"`
	MaxRSS    int64  `json:"max_rss"` // in bytes
}

func (r *run) report(interrupted bool) *Report {
	rep := &Report{Took: time.Since(r.began), Seed: r.cfg.Seed, Interrupted: interrupted,
		Faults: slices.Clone(r.faults.texts), Done: make(map[string]map[string]int64)}
	for cell, n := range r.done.n {
		if rep.Done[cell[0]] == nil {
			rep.Done[cell[0]] = make(map[string]int64)
		}
		rep.Done[cell[0]][cell[1]] = n
	}
	for _, k := range append(slices.Clone(kinds), viewerKind{name: ofPushed}) {
		if rep.Done[k.name]["connections"] == 0 {
			rep.Missing = append(rep.Missing, k.name)
		}
	}
	return rep
}

func (s *site) summary() (list []Node) {
	for _, n := range s.nodes {
		n.mu.Lock()
		list = append(list, Node{n.name(), n.starts, n.maxRSS})
		n.mu.Unlock()
	}
	return list
}

// line describes the current state in one line.
func (s *site) line() string {
	var viewers, bytes, cut int64
	for _, k := range kinds {
		viewers += s.done.get(k.name, "connections")
		bytes += s.done.get(k.name, "bytes")
		cut += s.done.get(k.name, "interrupted")
	}
	line := fmt.Sprintf("%6v  %.1f MB checked, %d connections of viewers, %d interrupted; %d kills, "+
		"%d upgrades, %d failovers; RSS", time.Since(s.began).Round(time.Second),
		float64(bytes)/1e6, viewers, cut, s.done.get("failures", "kills"),
		s.done.get("failures", "upgrades"), s.done.get("failures", "failovers of Redis"))
	for _, n := range s.nodes {
		line += fmt.Sprintf(" %d", residentMemory(n.current())>>20)
	}
	return line + " MiB"
}

// String returns the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	columns := []string{"connections", "interrupted", "bytes", "lost after a failure",
		"lost and counted"}
	fmt.Fprintln(w, "\t"+strings.Join(columns, "\t"))
	var rows []string
	for row := range r.Done {
		rows = append(rows, row)
	}
	slices.Sort(rows)
	var rest []string
	for _, row := range rows {
		if r.Done[row]["connections"] == 0 {
			rest = append(rest, row)
			continue
		}
		fmt.Fprint(w, row)
		for _, c := range columns {
			fmt.Fprintf(w, "\t%d", r.Done[row][c])
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	for _, row := range rest {
		fmt.Fprintf(&b, "%s: %v\n", row, r.Done[row])
	}
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "%s: %d processes, at most %d MiB of resident memory\n", n.Name,
			n.Processes, n.MaxRSS>>20)
	}
	return b.String()
}
