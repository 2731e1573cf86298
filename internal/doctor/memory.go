package doctor

import (
	"fmt"
	"strings"
)

// viewerBytes is what a viewer takes in the server, beside what the kernel holds for it.
const viewerBytes = 4 << 10

// socketBytes returns what the kernel holds if every viewer is slow, not counting what is on its way.
func (p Plan) socketBytes() int64 { return int64(p.Viewers) * p.Unsent }

// streamBytes returns what the streams keep if all of them are there and full.
func (p Plan) streamBytes() int64 { return int64(p.Streams) * p.KeepBytes }

func memory(h *Host, p Plan) Finding {
	have, group, err := h.memoryCap()
	if err != nil {
		return unknown(err)
	}
	viewers := int64(p.Viewers)*viewerBytes + p.socketBytes()
	f := Finding{
		State: OK, Value: size(have),
		Why: fmt.Sprintf("%d viewers take %s here, and up to %s in the kernel if all are slow (--unsent %s each); "+
			"%d streams keep up to %s. What is left caches files.",
			p.Viewers, size(int64(p.Viewers)*viewerBytes), size(p.socketBytes()), size(p.Unsent),
			p.Streams, size(p.streamBytes())),
	}
	if group.set {
		f.Value += " (control group)"
	}
	switch {
	case viewers > have:
		f.State = Bad
		f.Advice = "expect fewer viewers, or have more memory"
		f.Command = fmt.Sprintf("millrace serve --max-viewers %d ...", max(1, have/2/(viewerBytes+max(p.Unsent, 1))))
	case viewers+p.streamBytes() > have:
		f.State = Warn
		f.Advice = "let there be fewer streams, or let each keep less"
		f.Command = fmt.Sprintf("millrace serve --max-streams %d ...", max(1, (have-viewers)/2/max(p.KeepBytes, 1)))
	}
	return f
}

const (
	// leastLimit is a GOMEMLIMIT below which the collector would run without end: two streams that keep 16 MiB, and what
	// Go needs for itself.
	leastLimit = 64 << 20
	// mebibyte is the unit that GOMEMLIMIT is advised in.
	mebibyte = 1 << 20
)

// advisedLimit returns the GOMEMLIMIT that leaves room, of most bytes, for what Go does not count: a tenth for the binary,
// stacks of threads and pages of files; and sockets, where they count against the same limit. It is half at least: then
// there are too many viewers, of which another check speaks.
func advisedLimit(most int64, sockets int64) int64 {
	return max(most-most/10-sockets, most/2) / mebibyte * mebibyte
}

func memoryLimit(h *Host, p Plan) Finding {
	most, group, err := h.memoryCap()
	if err != nil {
		return unknown(err)
	}
	f := Finding{
		State: OK, Value: "none",
		Why: "Go does not look at a memory limit of a control group. Without GOMEMLIMIT its heap grows to twice of " +
			"what is in use, whatever the limit, and the kernel kills the server.",
	}
	if !h.unlimited() {
		f.Value = size(h.MemoryLimit)
	}
	sockets := int64(0)
	if group.unified {
		sockets = p.socketBytes()
		f.Why += fmt.Sprintf(" The limit includes what the kernel holds for viewers: up to %s.", size(sockets))
	}
	advised := advisedLimit(most, sockets)
	switch {
	case h.unlimited() && !group.set:
		f.Why = "No control group limits the server's memory, so there is nothing that it must keep to."
		return f
	case h.unlimited():
		f.State = Warn
		f.Advice = fmt.Sprintf("set it to %s of the %s that the control group allows", size(advised), size(most))
	case h.MemoryLimit > most:
		f.State = Bad
		f.Advice = fmt.Sprintf("set it below the %s that there are: %s", size(most), size(advised))
		f.Why = "A limit that is above what there is holds nothing back: the kernel kills the server before Go collects harder."
	case h.MemoryLimit < leastLimit:
		f.State = Warn
		f.Advice = fmt.Sprintf("allow %s", size(max(advised, leastLimit)))
		f.Why = fmt.Sprintf("One stream keeps up to %s. Near its limit Go collects all the time, and uses up to "+
			"half of the processors for it.", size(p.KeepBytes))
		advised = max(advised, leastLimit)
	case group.set && h.MemoryLimit > most-most/20:
		f.State = Warn
		f.Advice = fmt.Sprintf("leave more room below the %s that the control group allows: %s",
			size(most), size(advised))
	default:
		return f
	}
	f.Command = fmt.Sprintf("GOMEMLIMIT=%dMiB millrace serve ...", advised/mebibyte)
	return f
}

const hugePagesDir = "sys/kernel/mm/transparent_hugepage/"

func hugePages(h *Host, _ Plan) Finding {
	s, err := h.read(hugePagesDir + "enabled")
	if err != nil {
		return unknown(err)
	}
	_, rest, _ := strings.Cut(s, "[")
	chosen, _, ok := strings.Cut(rest, "]")
	f := Finding{State: OK, Value: chosen}
	switch {
	case !ok || chosen != "always" && chosen != "madvise" && chosen != "never":
		return unknown(fmt.Errorf("/%senabled is not what it is on known kernels", hugePagesDir))
	case chosen != "always":
		f.Why = "Go asks for none for its heap, so that with madvise and never it has pages of 4 KiB, and gives " +
			"back what it says it does."
		return f
	}
	if strings.Contains(","+h.Env("GODEBUG")+",", ",disablethp=1,") {
		f.Value += ", GODEBUG=disablethp=1"
		f.Why = "Go keeps its heap out of huge pages. A future release of Go will not have this setting."
		return f
	}
	f.Why = "A heap of 1 GiB and more gains from huge pages. But the kernel also makes one of 2 MiB in which Go " +
		"uses a few pages of 4 KiB (up to max_ptes_none may be empty), and so takes memory that Go has given back."
	empty, err := h.read(hugePagesDir + "khugepaged/max_ptes_none")
	if n, bad := parseNumber(empty); err == nil && bad == nil {
		f.Value += fmt.Sprintf(", max_ptes_none %d", n)
		if n == 0 {
			return f
		}
	}
	f.State = Warn
	f.Advice = "let the kernel merge full pages only, or choose madvise"
	f.Command = "echo 0 > /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"
	return f
}

func swap(h *Host, _ Plan) Finding {
	s, err := h.read("proc/swaps")
	if err != nil {
		return unknown(err)
	}
	f := Finding{
		State: OK, Value: "none",
		Why: "The collector looks at the whole heap in every cycle. What is swapped out has to come back for that, " +
			"and viewers wait.",
	}
	var all, used int64
	for l := range strings.Lines(s) {
		// FILE TYPE SIZE USED PRIORITY, after a line with these names; in KiB
		field := strings.Fields(l)
		if len(field) < 5 {
			continue
		}
		n, err1 := parseNumber(field[len(field)-3])
		u, err2 := parseNumber(field[len(field)-2])
		if err1 == nil && err2 == nil {
			all, used = min(all+n, mostNumber>>10), min(used+u, mostNumber>>10)
		}
	}
	if all == 0 {
		return f
	}
	f.Value = fmt.Sprintf("%s, %s in use", size(all<<10), size(used<<10))
	if swappiness, err := h.number("vm.swappiness"); err == nil {
		f.Value += fmt.Sprintf(", swappiness %d", swappiness)
	}
	if group, err := h.groupSwap(); err == nil && group.set && group.tightest == 0 {
		f.Value += ", not for this control group"
		return f
	}
	f.State = Info
	f.Advice = "keep the server out of it (systemd: MemorySwapMax=0), or the kernel from using it early"
	f.Command = "sysctl -w vm.swappiness=1"
	if used > 0 {
		f.State = Warn
		f.Advice = "something is swapped out: have more memory or fewer processes, or keep the server out of it " +
			"(systemd: MemorySwapMax=0)"
	}
	return f
}
