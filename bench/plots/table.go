// Package plots draws pictures of the docs from the tables beside them, so that a picture cannot say anything else than its
// table.
package plots

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Row is a line of the table of all figures.
type Row struct {
	Work, Ours, Rival string
	Ratio             float64 // how many times better ours is
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// Figures reads the table whose head is "| work | ours | the rival, …".
func Figures(markdown string) ([]Row, error) {
	var rows []Row
	for _, cells := range table(markdown, "| work | ours |") {
		if len(cells) < 4 {
			return nil, fmt.Errorf("plots: a row of %d cells: %q", len(cells), cells)
		}
		ratio, err := strconv.ParseFloat(number.FindString(cells[3]), 64)
		if err != nil || ratio <= 0 {
			return nil, fmt.Errorf("plots: %q has the ratio %q", cells[0], cells[3])
		}
		rows = append(rows, Row{Work: plain(cells[0]), Ours: plain(cells[1]), Rival: plain(cells[2]), Ratio: ratio})
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("plots: there is no table of figures")
	}
	return rows, nil
}

// A Bound is a row of the table of the relay's latency bound.
type Bound struct {
	Name          string  // "50ms"
	CPU           float64 // seconds a gigabyte
	Latency, High float64 // of a frame in ms: median and 99th percentile
}

// Bounds reads the table whose rows begin with "| millrace, 0s" behind the given heading.
func Bounds(markdown, heading string) ([]Bound, error) {
	_, markdown, ok := strings.Cut(markdown, heading)
	if !ok {
		return nil, fmt.Errorf("plots: there is no heading %q", heading)
	}
	var bounds []Bound
	for _, cells := range table(markdown, "| contender ") {
		name, found := strings.CutPrefix(cells[0], "millrace, ")
		if !found || len(cells) < 6 {
			continue
		}
		cpu, err := strconv.ParseFloat(number.FindString(cells[1]), 64)
		latencies := number.FindAllString(cells[5], 2)
		if err != nil || len(latencies) < 2 {
			return nil, fmt.Errorf("plots: %q", cells)
		}
		b := Bound{Name: name, CPU: cpu}
		b.Latency, _ = strconv.ParseFloat(latencies[0], 64) // numbers, as they were found
		b.High, _ = strconv.ParseFloat(latencies[1], 64)
		bounds = append(bounds, b)
	}
	if len(bounds) < 2 {
		return nil, fmt.Errorf("plots: %d bounds", len(bounds))
	}
	return bounds, nil
}

// table returns the cells of the first table whose head begins so, without head and rule.
func table(markdown, head string) (rows [][]string) {
	inside := false
	for line := range strings.Lines(markdown) {
		line = strings.TrimSpace(line)
		switch {
		case !inside:
			inside = strings.HasPrefix(line, head)
		case !strings.HasPrefix(line, "|"):
			return rows
		case strings.Trim(line, "|- :") != "":
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// plain takes Markdown's marks away.
func plain(s string) string { return strings.NewReplacer("*", "", "`", "").Replace(s) }
