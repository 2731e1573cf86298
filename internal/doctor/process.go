package doctor

import (
	"fmt"
	"math"
	"path"
	"strings"
)

const (
	// spareOpen are descriptors for what is neither a stream nor a file: the listeners, the poller, /metrics, the page's
	// visitors.
	spareOpen = 64
	// uploadOpen are those of an upload: its connection, its file, and the two ends of the pipe between them.
	uploadOpen = 4
)

// descriptors returns how many descriptors a plan takes at most, and what for.
func (p Plan) descriptors() (need int64, sum string) {
	parts := []string{fmt.Sprintf("%d viewers and downloads", p.Viewers), fmt.Sprintf("%d publishers", p.Streams)}
	need = int64(p.Viewers) + int64(p.Streams) + spareOpen
	if p.Root != "" {
		need += int64(p.FilesOpen)
		parts = append(parts, fmt.Sprintf("%d files", p.FilesOpen))
	}
	if p.Blobs != "" {
		need += int64(p.BlobsOpen) + uploadOpen*int64(p.Uploads)
		parts = append(parts,
			fmt.Sprintf("%d blobs", p.BlobsOpen), fmt.Sprintf("%d × %d for uploads", uploadOpen, p.Uploads))
	}
	return need, strings.Join(append(parts, fmt.Sprintf("%d others", spareOpen)), ", ")
}

// roundUp returns the smallest power of two that is not below n.
func roundUp(n int64) int64 {
	m := int64(1)
	for m < n {
		m <<= 1
	}
	return m
}

func mostViewers(_ *Host, p Plan) Finding {
	f := Finding{State: OK, Value: count(int64(p.MaxViewers)), Why: "The server answers 503 to viewers of streams beyond " +
		"--max-viewers, and --max-stream-viewers for one of them. Downloads do not count."}
	if p.Viewers > p.MaxViewers {
		f.State = Info
		f.Advice = fmt.Sprintf("raise both if most of the %d are viewers of streams", p.Viewers)
		f.Command = fmt.Sprintf("millrace serve --max-viewers %d --max-stream-viewers %[1]d ...", p.Viewers)
	}
	return f
}

func openFiles(h *Host, p Plan) Finding {
	if !h.OpenFiles.Known {
		return unknown(fmt.Errorf("%s does not tell its limit on open files", h.OS))
	}
	need, sum := p.descriptors()
	// The runtime has raised the soft limit already, or was kept from it.
	soft, hard := bounded(h.OpenFiles.Soft), bounded(h.OpenFiles.Hard)
	f := Finding{
		Value: count(soft),
		Why: fmt.Sprintf("The plan takes up to %d descriptors: %s. Beyond the limit connections wait unaccepted, "+
			"and files that are not open yet answer 500. Go raises the soft limit to the hard one by itself, so "+
			"that the hard one counts.", need, sum),
	}
	if soft != hard {
		f.Value += " (hard: " + count(hard) + ")"
	}
	want := max(roundUp(need*5/4), 4096)
	switch {
	case soft < need:
		f.State = Bad
		f.Advice = fmt.Sprintf("allow at least %d", need)
	case soft < need*5/4:
		f.State = Warn
		f.Advice = fmt.Sprintf("allow some more than the %d that the plan takes", need)
	default:
		f.State = OK
		return f
	}
	f.Advice += fmt.Sprintf(" (systemd: LimitNOFILE=%d, docker: --ulimit nofile=%d:%d)", want, want, want)
	f.Command = fmt.Sprintf("ulimit -n %d", want)
	return f
}

func fileMax(h *Host, p Plan) Finding {
	most, err := h.number("fs.file-max")
	if err != nil {
		return unknown(err)
	}
	used, err := h.numbers("fs.file-nr", 3)
	if err != nil {
		return unknown(err)
	}
	need, _ := p.descriptors()
	f := Finding{
		State: OK, Value: fmt.Sprintf("%s (open: %s)", count(most), count(used[0])),
		Why: fmt.Sprintf("The limit of all processes together. The plan adds up to %d; at the limit every process "+
			"that opens something fails, not the server alone.", need),
	}
	if used[0]+need > most {
		f.State = Bad
		f.Advice = fmt.Sprintf("allow %d, which is what is open and the plan", used[0]+need)
		f.Command = fmt.Sprintf("sysctl -w fs.file-max=%d", roundUp(used[0]+need))
	}
	return f
}

// spareThreads are those that Go has beside the ones that run goroutines or wait for a disk: the collector's, the
// monitor's, those that look up names.
const spareThreads = 32

func threads(h *Host, p Plan) Finding {
	system, err := h.number("kernel.threads-max")
	if err != nil {
		return unknown(err)
	}
	most, from := system, "kernel.threads-max"
	if group, err := h.groupThreads(); err == nil && group.set && group.tightest < most {
		most, from = group.tightest, "pids.max of the control group"
	}
	need := int64(h.Procs) + spareThreads
	why := "goroutines"
	if p.Root != "" {
		need += int64(p.ColdReaders)
		why += fmt.Sprintf(", %d downloads that wait for a disk", p.ColdReaders)
	}
	if p.Blobs != "" {
		need += int64(p.ColdReaders) + int64(p.Uploads)
		why += fmt.Sprintf(", blobs that do, %d uploads", p.Uploads)
	}
	f := Finding{
		State: OK, Value: fmt.Sprintf("%s (%s)", count(most), from),
		Why: fmt.Sprintf("A viewer needs no thread; the plan takes up to %d, for %s. A Go program that gets none "+
			"when it needs one ends with a crash.", need, why),
	}
	if most < need {
		f.State = Bad
		f.Advice = fmt.Sprintf("allow at least %d (docker: --pids-limit %d)", need, roundUp(need))
		f.Command = fmt.Sprintf("systemctl set-property UNIT TasksMax=%d", roundUp(need))
		if from == "kernel.threads-max" {
			f.Advice = fmt.Sprintf("allow at least %d", need)
			f.Command = fmt.Sprintf("sysctl -w kernel.threads-max=%d", roundUp(need))
		}
	}
	return f
}

func processors(h *Host, _ Plan) Finding {
	f := Finding{
		State: OK, Value: fmt.Sprintf("%d of %d processors", h.Procs, h.CPUs),
		Why: "Go takes it from the processors and from the CPU limit of the innermost control group, rounded up, " +
			"at least 2.",
	}
	group, err := h.groupCPU()
	if err != nil || !group.set {
		if h.Procs < h.CPUs {
			f.State = Warn
			f.Advice = "leave GOMAXPROCS unset"
			f.Why = fmt.Sprintf("The server leaves processors idle: %d of %d, though no CPU limit was found.",
				h.CPUs-h.Procs, h.CPUs)
			f.Command = "unset GOMAXPROCS"
		}
		if h.Procs > h.CPUs {
			f.State = Warn
			f.Advice = "leave GOMAXPROCS unset"
			f.Why = "More threads than processors take turns: who is interrupted may hold what the others wait for."
			f.Command = "unset GOMAXPROCS"
		}
		return f
	}
	cpus := float64(group.tightest) / 1000
	whole := max(int(math.Ceil(cpus)), 1)
	f.Value += fmt.Sprintf(", limit %s", decimal(cpus))
	switch {
	case h.Procs > max(whole, 2):
		f.State = Warn
		f.Advice = fmt.Sprintf("set GOMAXPROCS to %d", whole)
		f.Why = fmt.Sprintf("%d threads use up the time of %s processors early in each period (100 ms unless set), "+
			"and every viewer waits for the next.", h.Procs, decimal(cpus))
		if group.own > group.tightest {
			f.Why += " The limit is that of a control group further out, at which Go does not look."
		}
		f.Command = fmt.Sprintf("GOMAXPROCS=%d millrace serve ...", whole)
	case cpus < 1:
		f.State = Warn
		f.Advice = "allow one processor at least (docker: --cpus 1)"
		f.Why = fmt.Sprintf("With %s of a processor the server stands still for up to %d%% of each period (100 ms "+
			"unless set) when it is busy: longer than --latency of 50 ms has frames wait.",
			decimal(cpus), int(100-100*cpus))
		f.Command = "systemctl set-property UNIT CPUQuota=100%"
	case h.Procs < min(whole, h.CPUs):
		f.State = Warn
		f.Advice = "leave GOMAXPROCS unset"
		f.Why = fmt.Sprintf("%s processors are allowed, and %d are used.", decimal(cpus), h.Procs)
		f.Command = "unset GOMAXPROCS"
	}
	return f
}

// mostThrottled is the share of periods, in percent, above which being throttled is no accident of starting up.
const mostThrottled = 1

func throttling(h *Host, _ Plan) Finding {
	dirs, _, err := h.groups("cpu")
	if err != nil {
		return unknown(err)
	}
	f := Finding{State: OK, Value: "never", Why: "A control group that has used up its CPU time stands still until " +
		"the next period, and every viewer waits that long."}
	for _, dir := range dirs {
		stat, err := h.table(path.Join(dir, "cpu.stat"))
		if err != nil || stat["nr_throttled"] == 0 || stat["nr_periods"] == 0 {
			continue
		}
		share := 100 * float64(stat["nr_throttled"]) / float64(stat["nr_periods"])
		if f.Value == "never" || share > mostThrottled {
			f.Value = fmt.Sprintf("in %s%% of %s periods", decimal(share), count(stat["nr_periods"]))
		}
		if share > mostThrottled {
			f.State = Warn
			f.Advice = "allow more processors (docker: --cpus 4)"
			f.Command = "systemctl set-property UNIT CPUQuota=400%"
			return f
		}
	}
	return f
}
