package measure

import (
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
)

// A Report is a directory of tables. It contains the files NAME.md and NAME.json for each table,
// and the file index.html, which shows all tables.
type Report struct{ Dir string }

// Write writes the files of a table, and rewrites index.html. It replaces the files of an earlier
// table with the same name.
func (r Report) Write(t *Table) error {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Dir, t.Name+".json"), append(text, '\n'),
		0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.Dir, t.Name+".md"), []byte(t.Markdown()),
		0o644); err != nil {
		return err
	}
	return r.WriteHTML()
}

// WriteHTML writes index.html from the JSON files of all tables in the directory.
func (r Report) WriteHTML() error {
	names, err := filepath.Glob(filepath.Join(r.Dir, "*.json")) // in alphabetical order
	if err != nil {
		return err
	}
	var tables []*Table
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		t := new(Table)
		if err := json.Unmarshal(text, t); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tables = append(tables, t)
	}
	var page strings.Builder
	if err := htmlPage.Execute(&page, tables); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Dir, "index.html"), []byte(page.String()), 0o644)
}

func (t *Table) barWidth(row []Cell) float64 {
	longest := 0.0
	for _, r := range t.Rows {
		if v := r[t.Bar].Value; v != nil {
			longest = max(longest, *v)
		}
	}
	if v := row[t.Bar].Value; v != nil && longest > 0 {
		return 200 * *v / longest
	}
	return 0
}

var htmlPage = template.Must(template.New("report").Funcs(template.FuncMap{"bar": (*Table).barWidth}).Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Millrace: benchmarks</title>
<style>
body{font:15px/1.4 system-ui,sans-serif;margin:2em auto;max-width:80em;padding:0 1em;color:#22303c;background:#fbfaf7}
table{border-collapse:collapse;margin:1em 0}td,th{text-align:left;padding:.2em .8em;border-bottom:1px solid #d5dbe0}
rect{fill:#2b6c99}p,code{color:#5b6b78}
@media(prefers-color-scheme:dark){body{color:#e8eef2;background:#161c22}td,th{border-color:#34414c}p,code{color:#9fb0bd}}
</style>
<h1>Benchmarks</h1>
<p>Medians of the rounds, with the smallest and the largest value in parentheses.</p>
<ul>{{range .}}<li><a href="#{{.Name}}">{{.Title}}</a></li>{{end}}</ul>
{{range $t := .}}<h2 id="{{.Name}}">{{.Title}}</h2>
<p>{{.Machine}}<br><code>{{.Command}}</code></p>
<table><tr>{{range .Columns}}<th>{{.}}</th>{{end}}</tr>
{{range $row := .Rows}}<tr>{{range $i, $c := .}}<td>{{$c.Text}}{{if and $t.Bar (eq $i $t.Bar)}}<br><svg width="200" height="8"><rect width="{{bar $t $row}}" height="8"/></svg>{{end}}</td>{{end}}</tr>
{{end}}</table>{{if .Note}}<p>{{.Note}}</p>{{end}}
{{end}}</html>
`))
