package plots

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

var (
	// loadCaption stands over a table of bench-files: "*64 KiB, 8 connections, 5 rounds of 3 s*".
	loadCaption = regexp.MustCompile(`(?m)^\*(.+ connections.*), \d+ rounds of .+\*$`)

	// anyHeading ends a section.
	anyHeading = regexp.MustCompile(`(?m)^#+ `)

	firstNumber = regexp.MustCompile(`^[0-9.]+`)
)

// Files reads the tables of bench-files in the section with that heading, and returns what a delivered gigabyte costs: a group
// of bars for each table.
func Files(markdown, heading string) (measure.Bars, error) {
	_, section, ok := strings.Cut(markdown, "\n"+heading+"\n")
	if !ok {
		return measure.Bars{}, fmt.Errorf("plots: there is no section %q", heading)
	}
	if end := anyHeading.FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	c := measure.Bars{
		Title: "CPU seconds of the server a delivered gigabyte",
		Note:  "less is better; each group has a scale of its own",
	}
	for _, at := range loadCaption.FindAllStringSubmatchIndex(section, -1) {
		g := measure.BarGroup{Title: section[at[2]:at[3]]}
		for _, cells := range table(section[at[1]:], "| contender ") {
			if len(cells) < 2 {
				return measure.Bars{}, fmt.Errorf("plots: %q has a row of one cell", g.Title)
			}
			v, err := strconv.ParseFloat(firstNumber.FindString(cells[1]), 64)
			if err != nil {
				return measure.Bars{}, fmt.Errorf("plots: %q, %s: no CPU time in %q", g.Title, cells[0], cells[1])
			}
			g.Bars = append(g.Bars, measure.Bar{Name: cells[0], Value: v, Side: server(cells[0])})
		}
		if len(g.Bars) == 0 {
			return measure.Bars{}, fmt.Errorf("plots: the table %q is empty", g.Title)
		}
		c.Groups = append(c.Groups, g)
	}
	if len(c.Groups) == 0 {
		return measure.Bars{}, fmt.Errorf("plots: there is no table in %q", heading)
	}
	return c, nil
}

// server is whose bar a server's is.
func server(contender string) measure.Side {
	switch {
	case strings.Contains(contender, "chunk."):
		return measure.Ours
	case strings.HasPrefix(contender, "nginx"):
		return measure.Rival
	}
	return measure.Others
}
