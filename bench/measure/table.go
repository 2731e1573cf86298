package measure

import (
	"fmt"
	"math"
	"strings"
)

// A Table is the result of a program. It is printed as Markdown and written as Markdown and JSON.
type Table struct {
	Name    string   `json:"name"` // base name of the table's files
	Title   string   `json:"title"`
	Note    string   `json:"note,omitempty"` // explains the columns if their names are not enough
	Machine Machine  `json:"machine"`
	Command string   `json:"command"`
	Columns []string `json:"columns"`
	Bar     int      `json:"bar,omitempty"` // the column that the report shows as bars; 0 for none
	Rows    [][]Cell `json:"rows"`
}

// A Cell is the text of one cell of a Table. If the text is a number, the Cell also has the value
// and its spread.
type Cell struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value,omitempty"` // the median
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// NewTable returns an empty table.
func NewTable(name, title string, columns ...string) *Table {
	return &Table{Name: name, Title: title, Columns: columns}
}

// Row adds a row. A Series is formatted as its median and its spread. A float64 is formatted with
// three significant digits. Any other value is formatted as by fmt.Sprint.
func (t *Table) Row(cells ...any) {
	row := make([]Cell, len(t.Columns))
	for i := range min(len(row), len(cells)) {
		row[i] = newCell(cells[i])
	}
	t.Rows = append(t.Rows, row)
}

func newCell(v any) Cell {
	switch v := v.(type) {
	case Series:
		c := newCell(v.Median())
		if c.Text = v.String(); c.Value != nil && len(v) > 1 {
			low, high := v.Min(), v.Max()
			c.Low, c.High = &low, &high
		}
		return c
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return Cell{Text: "-"}
		}
		return Cell{Text: number(v), Value: &v}
	case int:
		return newCell(float64(v))
	}
	return Cell{Text: fmt.Sprint(v)}
}

// Markdown returns the title, the machine, the command, the table with aligned columns, and the
// note.
func (t *Table) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n`%s`\n\n", t.Title, t.Machine, t.Command)
	width := make([]int, len(t.Columns))
	lines := [][]string{t.Columns}
	for _, row := range t.Rows {
		line := make([]string, len(row))
		for i, c := range row {
			line[i] = c.Text
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		for i, text := range line {
			width[i] = max(width[i], len([]rune(text)), 3)
		}
	}
	for k, line := range lines {
		for i, text := range line {
			fmt.Fprintf(&b, "| %s%s ", text, strings.Repeat(" ", width[i]-len([]rune(text))))
		}
		b.WriteString("|\n")
		if k == 0 {
			for _, n := range width {
				fmt.Fprintf(&b, "| %s ", strings.Repeat("-", n))
			}
			b.WriteString("|\n")
		}
	}
	if t.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", t.Note)
	}
	return b.String()
}
