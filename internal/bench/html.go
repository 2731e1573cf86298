package bench

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
	"sync"
)

//go:embed report.html
var pageText string

//go:embed report.css
var pageStyle string

// palette is what the page and each picture need to have colours.
//
//go:embed palette.css
var palette string

// page is made when it is first asked for, which most runs of the program do not.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{
		"style":  func() template.CSS { return template.CSS(palette + pageStyle) },
		"number": number,
		"join":   strings.Join,
	}).Parse(pageText))
})

// A view is a report as the page shows it.
type view struct {
	*Report
	Suites []suiteView
}

type suiteView struct {
	SuiteInfo
	Ratios     template.HTML
	Groups     []group
	Recordings []recordingView
}

// A group is the figures of one thing that is done: what we have in it, and the rivals of each.
type group struct {
	What, Unit string
	Better     Better
	Ours       []oursView
}

// oursView is one of ours, and its figures: one for each rival, or one that has none.
type oursView struct {
	Measured
	Figures []Figure
}

type recordingView struct {
	Recording
	Picture template.HTML
	Sources []sourceView
	Notes   []string
}

type sourceView struct{ Layer, Title, Source, Unknown string }

// WriteHTML writes the report as one page that needs nothing else: the style and the pictures are in it.
func (r *Report) WriteHTML(w io.Writer) error {
	v := view{Report: r}
	for _, info := range r.Suites {
		figures := r.FiguresOf(info.Name)
		s := suiteView{SuiteInfo: info, Groups: groups(figures)}
		p, err := ratios(info.Name, figures)
		if err != nil {
			return err
		}
		s.Ratios = p.element()
		if s.Recordings, err = r.recordingsOf(info.Name); err != nil {
			return err
		}
		v.Suites = append(v.Suites, s)
	}
	return page().Execute(w, v)
}

func (r *Report) recordingsOf(suite string) (views []recordingView, err error) {
	for _, rec := range r.Recordings {
		if rec.Suite != suite {
			continue
		}
		p, err := rec.timeline()
		if err != nil {
			return nil, err
		}
		v := recordingView{Recording: rec, Picture: p.element()}
		for _, s := range rec.strips() {
			v.Sources = append(v.Sources, sourceView{s.layer, s.title, s.source, s.unknown})
		}
		v.Notes = rec.notes()
		views = append(views, v)
	}
	return views, nil
}

// notes are what the recorders have to say besides.
func (r *Recording) notes() []string {
	var notes []string
	if r.Load != nil {
		notes = append(notes, r.Load.Notes...)
		for _, p := range r.Load.Profiles {
			notes = append(notes, "Profile: "+p)
		}
	}
	if r.Server != nil {
		for _, n := range r.Server.Notes {
			notes = append(notes, "Server: "+n)
		}
		for _, p := range r.Server.Profiles {
			notes = append(notes, "Profile of the server: "+p)
		}
	}
	return notes
}

// groups puts figures together that are of the same thing.
func groups(figures []Figure) []group {
	var all []group
	for _, f := range figures {
		if n := len(all); n == 0 || all[n-1].What != f.What {
			all = append(all, group{What: f.What, Unit: f.Unit, Better: f.Better})
		}
		g := &all[len(all)-1]
		if n := len(g.Ours); n == 0 || g.Ours[n-1].Contender != f.Contender {
			g.Ours = append(g.Ours, oursView{Measured: f.Measured})
		}
		o := &g.Ours[len(g.Ours)-1]
		o.Figures = append(o.Figures, f)
	}
	return all
}
