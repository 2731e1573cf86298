package doctor

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// A State is what a check thinks of what it saw.
type State string

const (
	// Bad is what keeps the plan from working.
	Bad State = "bad"
	// Warn is what works, and costs speed, memory or safety.
	Warn State = "warn"
	// Info is what people ask about, and is a choice or makes no difference here.
	Info State = "info"
	// Unknown is what could not be seen.
	Unknown State = "unknown"
	// OK is what needs no change.
	OK State = "ok"
)

// States has all of them, the worst first.
var States = [...]State{Bad, Warn, Info, Unknown, OK}

// A Finding is what one check says. Its texts are one line each, of printable characters.
type Finding struct {
	Group   string `json:"group"`
	Name    string `json:"name"` // for scripts: it stays the same
	State   State  `json:"state"`
	Value   string `json:"value"`   // as it is now
	Advice  string `json:"advice"`  // empty if there is nothing to do
	Why     string `json:"why"`     // what it is for here
	Command string `json:"command"` // that would follow the advice; empty if it is no matter of one
}

// Schema is the version of what a Report looks like as JSON. A field may be added within one, and findings may come and go.
const Schema = 1

// A Report is what all checks say.
type Report struct {
	Schema   int           `json:"schema"`
	OS       string        `json:"os"`
	Kernel   string        `json:"kernel"` // empty if it is not known
	CPUs     int           `json:"cpus"`
	Memory   int64         `json:"memory_bytes"` // of the machine; 0 if it is not known
	Viewers  int           `json:"viewers"`
	Root     string        `json:"root"`
	Blobs    string        `json:"blobs"`
	Counts   map[State]int `json:"counts"` // has each of States
	Findings []Finding     `json:"findings"`
}

// A check looks at one thing. What it returns has no Group and no Name.
type check struct {
	group, name string
	look        func(*Host, Plan) Finding
}

// checks has all of them, in the order that those of one State are shown in.
var checks = [...]check{
	{"process", "open files", openFiles},
	{"process", "--max-viewers", mostViewers},
	{"process", "fs.file-max", fileMax},
	{"process", "threads", threads},
	{"process", "GOMAXPROCS", processors},
	{"process", "cpu throttling", throttling},
	{"memory", "memory", memory},
	{"memory", "GOMEMLIMIT", memoryLimit},
	{"memory", "transparent huge pages", hugePages},
	{"memory", "swap", swap},
	{"network", "net.core.somaxconn", backlog},
	{"network", "conntrack", conntrack},
	{"network", "net.ipv4.tcp_wmem", sendBuffer},
	{"network", "net.ipv4.tcp_rmem", receiveBuffer},
	{"network", "net.ipv4.tcp_mem", tcpMemory},
	{"network", "net.core.wmem_max", socketBuffers},
	{"network", "net.ipv4.tcp_congestion_control", congestion},
	{"network", "net.ipv4.tcp_slow_start_after_idle", slowStart},
	{"network", "net.ipv4.tcp_notsent_lowat", notSent},
	{"disk", "root", rootDirectory},
	{"disk", "blobs", blobsDirectory},
	{"disk", "vm.dirty_background_ratio", dirtyBackground},
	{"disk", "vm.dirty_ratio", dirtyAll},
	{"disk", "fs.aio-max-nr", asyncIO},
	{"system", "kernel", kernelVersion},
	{"system", "sendfile", sendfile},
	{"system", "clock source", clockSource},
}

// Examine has every check look at h. The worst findings come first.
func Examine(h *Host, p Plan) Report {
	r := Report{
		Schema: Schema, OS: h.OS, CPUs: h.CPUs,
		Viewers: p.Viewers, Root: line(p.Root), Blobs: line(p.Blobs),
		Counts: make(map[State]int),
	}
	r.Memory, _, _ = h.memory()
	if kernel, _, _, err := h.kernel(); err == nil {
		r.Kernel = line(kernel)
	} else {
		r.Kernel = line(h.Values["kern.osrelease"])
	}
	for _, s := range States {
		r.Counts[s] = 0
	}
	for _, c := range checks {
		f := c.look(h, p)
		f.Group, f.Name = c.group, c.name
		for _, text := range []*string{&f.Value, &f.Advice, &f.Why, &f.Command} {
			*text = line(*text)
		}
		r.Counts[f.State]++
		r.Findings = append(r.Findings, f)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.State.rank(), b.State.rank()) })
	return r
}

// rank is 0 for the worst.
func (s State) rank() int { return slices.Index(States[:], s) }

// mostLine bounds a text that has something from a file in it. A path may be longer; nobody reads that.
const mostLine = 1000

// line makes s one line that a terminal takes for text, whatever a file or a path has in it.
func line(s string) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if len(s) > mostLine {
		s = strings.ToValidUTF8(s[:mostLine], "") + "…"
	}
	return strings.TrimSpace(s)
}

// unknown is the Finding of a check that could not see what it is for.
func unknown(err error) Finding { return Finding{State: Unknown, Value: "-", Why: err.Error()} }
