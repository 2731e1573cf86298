package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// WriteText writes the report for people: a table for each suite, and what is to be known of it.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s, %d rounds, %s s\n", r.Machine, r.Command, r.Rounds, number(r.Seconds))
	if r.Interrupted {
		b.WriteString("INTERRUPTED: the figures are those of the time until then.\n")
	}
	for _, s := range r.Suites {
		fmt.Fprintf(&b, "\n%s: %s\n", s.Name, s.What)
		if s.State != Finished {
			fmt.Fprintf(&b, "  %s", s.State)
			if s.Why != "" {
				fmt.Fprintf(&b, ": %s", s.Why)
			}
			b.WriteString("\n")
		}
		writeFigures(&b, r.FiguresOf(s.Name))
		for _, note := range s.Notes {
			fmt.Fprintf(&b, "  %s\n", note)
		}
	}
	if len(r.Figures) > 0 {
		b.WriteString("\nA value is the median of the rounds (smallest to largest). A ratio is how many times better ours is\n" +
			"than the rival, taken within each round. LOST: so in three rounds of four or more; even: rounds don't agree.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFigures writes what is done in a line of its own, and under it ours and each rival.
func writeFigures(b *strings.Builder, figures []Figure) {
	if len(figures) == 0 {
		return
	}
	rows := [][]string{{"", "median (smallest to largest)", "ratio", ""}}
	for _, g := range groups(figures) {
		rows = append(rows, []string{g.What + ", " + g.Unit})
		for _, o := range g.Ours {
			rows = append(rows, []string{"  " + o.Contender, o.Spread.String(), "", ""})
			for _, f := range o.Figures {
				if r := f.Rival; r != nil {
					rows = append(rows, []string{"    " + r.Contender, r.Spread.String(), f.Ratio.String(), shown(f.Verdict())})
				}
			}
		}
	}
	align(b, rows)
}

// shown is a verdict in a table, in which what is lost is not overlooked and what is won needs no word.
func shown(verdict string) string {
	switch verdict {
	case "lost":
		return "LOST"
	case "ahead":
		return ""
	}
	return verdict
}

// align writes rows in columns of even width. A row of one cell is as wide as it is.
func align(b *strings.Builder, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			if len(row) > 1 {
				width[i] = max(width[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for _, row := range rows {
		line := " "
		for i, cell := range row {
			line += " " + cell + strings.Repeat(" ", max(width[i]-utf8.RuneCountInString(cell), 0)+1)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
