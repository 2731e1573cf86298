package measure

import (
	"fmt"
	"io"
	"strings"
)

// Table is a Markdown table.
type Table struct {
	head []string
	rows [][]string
}

// NewTable makes a table with these columns.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Row adds a row; a Series prints itself, a float64 in three digits.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.head))
	for i := range row {
		if i >= len(cells) {
			continue
		}
		switch c := cells[i].(type) {
		case float64:
			row[i] = number(c)
		default:
			row[i] = fmt.Sprint(c)
		}
	}
	t.rows = append(t.rows, row)
}

// WriteTo writes the table, with columns of even width.
func (t *Table) WriteTo(w io.Writer) (int64, error) {
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, c := range row {
			width[i] = max(width[i], len([]rune(c)), 3)
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i, c := range row {
			fmt.Fprintf(&b, "| %s%s ", c, strings.Repeat(" ", width[i]-len([]rune(c))))
		}
		b.WriteString("|\n")
	}
	line(t.head)
	rule := make([]string, len(width))
	for i, n := range width {
		rule[i] = strings.Repeat("-", n)
	}
	line(rule)
	for _, row := range t.rows {
		line(row)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
