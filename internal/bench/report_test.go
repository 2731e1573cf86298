package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a report of what never was: one of everything.
func sample() *Report {
	figure := func(suite, name string, ours, rival Series, better Better, cost *Cost) Figure {
		f := Figure{Name: suite + "/" + name, Suite: suite, What: "What is done in " + suite, Unit: "ns/op", Better: better,
			Measured: measured("ours", ours), Command: "millrace bench " + suite + " --rounds 3"}
		f.Cost = cost
		if rival != nil {
			f.against(measured("rival of "+name, rival))
		}
		return f
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &Report{
		Version: SchemaVersion, Command: "millrace bench --rounds 3", Began: began, Seconds: 12.5, Rounds: 3,
		Machine: Machine{
			CPU: "Some CPU", CPUs: 4, GOMAXPROCS: 4, Memory: 8 << 30, Kernel: "Linux 6.1", OS: "linux", Arch: "amd64",
			Governor: "performance", Go: "go1.26", Millrace: "v1", Date: "2026-01-02", LoadBefore: "0.10",
		},
		Suites: []SuiteInfo{
			{Name: "reader", What: "Reading", State: Finished, Command: "millrace bench reader --rounds 3"},
			{Name: "relay", What: "Relaying", State: Finished, Command: "millrace bench relay --rounds 3", Notes: []string{"A note."}},
			{Name: "redis", What: "Values", State: Skipped, Why: "redis-server is not installed", Command: "millrace bench redis"},
		},
		Figures: []Figure{
			figure("reader", "case/won", Series{10, 11, 12}, Series{20, 30, 25}, Lower, &Cost{CPU: 9, Bytes: 16, Allocs: 0.5, GCs: 2}),
			figure("reader", "case/lost", Series{10, 11, 12}, Series{1, 2, 3}, Lower, nil),
			figure("reader", "case/even", Series{10, 11, 12}, Series{9, 12, 12}, Higher, nil),
			figure("relay", "case/alone", Series{3, 1, 2}, nil, Lower, nil),
		},
		Recordings: []Recording{{
			Suite: "relay", Key: "case", Contender: "ours", What: "A load", Operation: "frames",
			Load: lived(began), Server: lived(began.Add(-time.Second / 2)),
		}},
	}
}

// lived is a timeline of a few samples.
func lived(began time.Time) *observe.Timeline {
	t := &observe.Timeline{Began: began, Interval: time.Second, Kernel: observe.KernelReport{
		RunQueue:    observe.Metric{Source: observe.SourceSchedstat, Scope: "threads of this process", Why: "permission denied"},
		PageFaults:  observe.Metric{Source: observe.SourceTracepoint, Scope: "this process"},
		Retransmits: observe.Metric{Source: observe.SourceNone, Why: "no /proc/net/snmp"},
	}}
	for i := range 3 {
		t.Samples = append(t.Samples, observe.Sample{
			At: time.Duration(i+1) * time.Second, Length: time.Second,
			Load:    observe.LoadSample{Operations: int64(i), Rate: float64(i), P50: time.Millisecond, P99: time.Second},
			Runtime: observe.RuntimeSample{GCs: 1, HeapBytes: 1 << 20, Goroutines: 7},
			Kernel:  observe.KernelSample{PageFaults: 100, RunQueue: observe.Spread{Count: 1, Mean: time.Microsecond}},
		})
	}
	return t
}

// The schema is for other programs: a change of this file that takes something away asks for another SchemaVersion.
func TestJSON(t *testing.T) {
	r := sample()
	for i := range r.Recordings { // whose fields are internal/observe's
		r.Recordings[i].Load, r.Recordings[i].Server = nil, nil
	}
	golden(t, "testdata/report.json", func(w io.Writer) error { return r.WriteJSON(w) })
}

func TestText(t *testing.T) {
	golden(t, "testdata/report.txt", func(w io.Writer) error { return sample().WriteText(w) })
}

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is another; with -update it is written anew:\n%s", name, &got)
	}
}

// pageOf is the page, and what a reader of HTML finds in it.
func pageOf(t *testing.T, r *Report) (page string, elements map[string]int) {
	t.Helper()
	var b strings.Builder
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(b.String()))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	elements = make(map[string]int)
	for depth := 0; ; {
		token, err := d.Token()
		if err == io.EOF && depth == 0 {
			return b.String(), elements
		}
		if err != nil {
			t.Fatalf("%v at byte %d", err, d.InputOffset())
		}
		switch token := token.(type) {
		case xml.StartElement:
			depth++
			elements[token.Name.Local]++
		case xml.EndElement:
			depth--
		}
	}
}

// pictures are the drawings of a page, each of them well-formed.
func pictures(t *testing.T, page string) (svgs []string) {
	t.Helper()
	for {
		_, rest, ok := strings.Cut(page, "<svg ")
		if !ok {
			return svgs
		}
		inner, after, closed := strings.Cut(rest, "</svg>")
		if !closed {
			t.Fatal("a picture has no end")
		}
		svg := "<svg " + inner + "</svg>"
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a picture: %v", err)
			}
		}
		svgs, page = append(svgs, svg), after
	}
}

// The page has every figure, a picture for each suite with rivals and for each recording, and all that is to be known.
func TestHTML(t *testing.T) {
	r := sample()
	page, elements := pageOf(t, r)
	for _, f := range r.Figures {
		if !strings.Contains(page, fmt.Sprintf("data-figure=%q", f.Name)) {
			t.Errorf("%s is not on the page", f.Name)
		}
	}
	for _, want := range []string{
		"Some CPU", "8.0 GiB", "performance", "millrace bench reader --rounds 3", "redis-server is not installed", "A note.",
		"schedstat of threads of this process (no tracepoint: permission denied)", "not known: no /proc/net/snmp", ">lost<", ">even<",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	svgs := pictures(t, page)
	if len(svgs) != 2 {
		t.Fatalf("%d pictures", len(svgs))
	}
	for _, svg := range svgs {
		for _, want := range []string{`role="img"`, "<title id=", "<desc id=", "aria-labelledby=", "var(--ink)"} {
			if !strings.Contains(svg, want) {
				t.Errorf("a picture has no %q", want)
			}
		}
		if strings.Contains(svg, "rgba(") {
			t.Error("a colour is not one of the page's")
		}
	}
	elsewhere := strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "")
	if elements["script"]+elements["link"]+elements["img"] > 0 || strings.Contains(elsewhere, "://") {
		t.Errorf("the page needs more than itself: %v", elements)
	}
	if strings.Contains(page, "Interrupted") {
		t.Error("the page says that it was interrupted")
	}
	r.Interrupted = true
	if page, _ := pageOf(t, r); !strings.Contains(page, "Interrupted.") {
		t.Error("the page does not say that it was interrupted")
	}
}

// A report of nothing is a page, too.
func TestHTMLOfNothing(t *testing.T) {
	for _, r := range []*Report{
		{},
		{Suites: []SuiteInfo{{Name: "relay"}}, Recordings: []Recording{{Suite: "relay"}}},
		{Suites: []SuiteInfo{{Name: "relay"}}, Recordings: []Recording{{Suite: "relay", Load: &observe.Timeline{}}}},
	} {
		if page, _ := pageOf(t, r); len(pictures(t, page)) != 0 {
			t.Error("a picture of nothing")
		}
	}
}

// A picture in a file of its own has its colours with it.
func TestWritePictures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := sample().WritePictures(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ratios-reader.svg", "relay-case.svg"} {
		p, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if err := xml.Unmarshal(p, new(struct{})); err != nil || !bytes.Contains(p, []byte("--line1:")) {
			t.Errorf("%s: %v, or no colours in it:\n%.900s", name, err, p)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 2 {
		t.Errorf("files %q", files)
	}
	if err := sample().WritePictures(filepath.Join(dir, "relay-case.svg", "below")); err == nil {
		t.Error("a directory below a file")
	}
}

// Whatever a name contains, it is text.
func TestHTMLEscapes(t *testing.T) {
	const evil = `</title></style></svg><script>alert("1")</script>&amp;'"--><x y=`
	r := sample()
	r.Command, r.Machine.CPU, r.Machine.Millrace, r.Suites[0].What, r.Suites[2].Why = evil, evil, evil, evil, evil
	r.Suites[1].Notes = []string{evil}
	for i := range r.Figures {
		r.Figures[i].What, r.Figures[i].Contender, r.Figures[i].Unit = evil, evil, evil
		if r.Figures[i].Rival != nil {
			r.Figures[i].Rival.Contender = evil
		}
	}
	rec := &r.Recordings[0]
	rec.Contender, rec.What, rec.Operation = evil, evil, evil
	rec.Server.Notes, rec.Server.Profiles = []string{evil}, []string{evil}
	rec.Server.Kernel.RunQueue.Why = evil
	page, elements := pageOf(t, r)
	if elements["script"] > 0 || elements["x"] > 0 || strings.Contains(page, "<script") {
		t.Error("a name has become part of the page")
	}
	if n := len(pictures(t, page)); n != 2 {
		t.Errorf("%d pictures", n)
	}
}

func TestRoundTicks(t *testing.T) {
	for _, tt := range []struct {
		ticks roundTicks
		high  float64
		want  string
	}{
		{valueTicks, 1, "0 0.5 1"}, {valueTicks, 9.9, "0 2 4 6 8"}, {valueTicks, 26_000, "0 10\u202f000 20\u202f000"},
		{valueTicks, 0.0031, "0 0.001 0.002 0.003"}, {timeTicks, 4, "0 1 2 3 4"}, {timeTicks, 5.05, "0 1 2 3 4 5"},
		{valueTicks, 3e6, "0 1\u202f000\u202f000 2\u202f000\u202f000 3\u202f000\u202f000"}, {valueTicks, 3.1e-5, "0 1e-05 2e-05 3e-05"}, {valueTicks, 0, "0"},
	} {
		var got []string
		for _, tick := range tt.ticks.Ticks(0, tt.high) {
			got = append(got, tick.Label)
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("up to %g: %s, want %s", tt.high, s, tt.want)
		}
	}
}

// An error of whoever is written to is not lost.
func TestWriteErrors(t *testing.T) {
	for name, write := range map[string]func(*Report, io.Writer) error{
		"text": (*Report).WriteText, "JSON": (*Report).WriteJSON, "HTML": (*Report).WriteHTML,
	} {
		if err := write(sample(), fullDisk{}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errFull = errors.New("the disk is full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
