package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

const (
	// spareFiles are descriptors for what is neither a stream nor a file: the listeners, the poller, visitors of the page.
	spareFiles = 64
	// uploadFiles are those of an upload: its connection, its file, and the two ends of the pipe between them.
	uploadFiles = 4
	// viewerBytes is what a viewer takes in the server, beside what the kernel holds for it.
	viewerBytes = 4 << 10
	// spareThreads are those that Go has beside the ones that run goroutines.
	spareThreads = 32
)

// descriptors returns how many descriptors a plan takes at most, and what for.
func (p Plan) descriptors() (need int64, sum string) {
	need = int64(p.Viewers) + int64(p.MaxStreams) + spareFiles
	sum = fmt.Sprintf("%d viewers and downloads, %d publishers, %d others", p.Viewers, p.MaxStreams, spareFiles)
	if p.Root != "" || p.Blobs != "" {
		need += int64(p.Viewers)
		sum += fmt.Sprintf(", a file for each download (up to %d)", p.Viewers)
	}
	if p.Blobs != "" {
		need += uploadFiles * int64(p.MaxUploads)
		sum += fmt.Sprintf(", %d × %d for uploads", uploadFiles, p.MaxUploads)
	}
	return need, sum
}

// sockets returns what the kernel holds if every viewer is slow, without what is on its way.
func (p Plan) sockets() int64 { return int64(p.Viewers) * p.Unsent }

func openFiles(h *Host, p Plan) (Finding, error) {
	self, err := h.self()
	if err != nil {
		return Finding{}, err
	}
	limits, err := self.Limits()
	if err != nil {
		return Finding{}, err
	}
	have := int64(min(limits.OpenFiles, unlimited)) // Go has raised the soft limit to the hard one
	need, sum := p.descriptors()
	f := Finding{State: OK, Value: count(have), Why: fmt.Sprintf("The plan takes up to %d descriptors: %s. Beyond the limit "+
		"connections wait unaccepted, and files answer 500. Go raises the soft limit to the hard one by itself.", need, sum)}
	want := max(roundUp(need*5/4), 4096)
	switch {
	case have < need:
		f.State, f.Advice = Bad, fmt.Sprintf("allow at least %d", need)
	case have < need*5/4:
		f.State, f.Advice = Warn, fmt.Sprintf("allow some more than the %d that the plan takes", need)
	default:
		return f, nil
	}
	f.Advice += fmt.Sprintf(" (systemd: LimitNOFILE=%d, docker: --ulimit nofile=%d:%d)", want, want, want)
	f.Command = fmt.Sprintf("ulimit -n %d", want)
	return f, nil
}

func maxViewers(_ *Host, p Plan) (Finding, error) {
	f := Finding{State: OK, Value: fmt.Sprint(p.MaxViewers), Why: "The server answers 503 to viewers of streams beyond " +
		"--max-viewers, and --max-stream-viewers for one of them. Downloads do not count."}
	if p.Viewers > p.MaxViewers {
		f.State, f.Advice = Info, fmt.Sprintf("raise both if most of the %d are viewers of streams", p.Viewers)
		f.Command = fmt.Sprintf("millrace serve --max-viewers %d --max-stream-viewers %[1]d ...", p.Viewers)
	}
	return f, nil
}

func tasks(h *Host, p Plan) (Finding, error) {
	need := int64(h.Procs) + spareThreads
	if p.Blobs != "" {
		need += int64(p.MaxUploads)
	}
	f := Finding{State: OK, Value: "none", Why: fmt.Sprintf("A viewer needs no thread; the plan takes up to %d. A Go program that "+
		"gets no thread when it needs one crashes.", need)}
	most, set := h.groupLimit("pids.max", parseLimit)
	if set {
		f.Value = fmt.Sprint(most)
	}
	if set && most < need {
		f.State, f.Advice = Bad, fmt.Sprintf("allow at least %d (docker: --pids-limit %d)", need, roundUp(need))
		f.Command = fmt.Sprintf("systemctl set-property UNIT TasksMax=%d", roundUp(need))
	}
	return f, nil
}

// parseCPU reads cpu.max, "QUOTA PERIOD" or "max PERIOD", as thousandths of a processor.
func parseCPU(s string) (int64, bool) {
	fields := strings.Fields(s)
	if len(fields) != 2 {
		return 0, false
	}
	quota, err1 := strconv.ParseInt(fields[0], 10, 64)
	period, err2 := strconv.ParseInt(fields[1], 10, 64)
	if err1 != nil || err2 != nil || period <= 0 || quota < 0 || quota > unlimited {
		return 0, false
	}
	return quota * 1000 / period, true
}

func processors(h *Host, _ Plan) (Finding, error) {
	f := Finding{State: OK, Value: "none", Why: "Without a CPU limit the server may use every processor."}
	milli, set := h.groupLimit("cpu.max", parseCPU)
	if !set {
		return f, nil
	}
	cpus := float64(milli) / 1000
	whole := max(int(math.Ceil(cpus)), 1)
	f.Value = fmt.Sprintf("%.3g processors, GOMAXPROCS %d", cpus, h.Procs)
	f.Why = "A control group that has used up its CPU time stands still until the next period, 100 ms unless set, and every viewer " +
		"waits that long."
	switch {
	case cpus < 1:
		f.State, f.Advice = Warn, "allow one processor at least (docker: --cpus 1)"
		f.Command = "systemctl set-property UNIT CPUQuota=100%"
	case h.Procs > max(whole, 2): // a group further out, at which Go does not look
		f.State, f.Advice = Warn, fmt.Sprintf("set GOMAXPROCS to %d", whole)
		f.Command = fmt.Sprintf("GOMAXPROCS=%d millrace serve ...", whole)
	}
	return f, nil
}

func memory(h *Host, p Plan) (Finding, error) {
	have, group, err := h.memoryCap()
	if err != nil {
		return Finding{}, err
	}
	viewers, streams := int64(p.Viewers)*viewerBytes+p.sockets(), int64(p.MaxStreams)*p.KeepBytes
	f := Finding{State: OK, Value: size(have), Why: fmt.Sprintf("%d viewers take %s here, and up to %s in the kernel if all are slow "+
		"(--unsent %s each); %d streams keep up to %s. The rest caches files.",
		p.Viewers, size(int64(p.Viewers)*viewerBytes), size(p.sockets()), size(p.Unsent), p.MaxStreams, size(streams))}
	if group {
		f.Value += " (control group)"
	}
	switch {
	case viewers > have:
		f.State, f.Advice = Bad, "expect fewer viewers, or have more memory"
		f.Command = fmt.Sprintf("millrace serve --max-viewers %d ...", max(1, have/2/(viewerBytes+max(p.Unsent, 1))))
	case viewers+streams > have:
		f.State, f.Advice = Warn, "let there be fewer streams, or let each keep less"
		f.Command = fmt.Sprintf("millrace serve --max-streams %d ...", max(1, (have-viewers)/2/max(p.KeepBytes, 1)))
	}
	return f, nil
}

func memoryLimit(h *Host, p Plan) (Finding, error) {
	most, group, err := h.memoryCap()
	if err != nil {
		return Finding{}, err
	}
	f := Finding{State: OK, Value: "none", Why: "Go does not look at a control group's memory limit. Without GOMEMLIMIT its heap grows " +
		"to twice what is in use, beyond the limit, and the kernel kills the server."}
	if h.MemoryLimit != math.MaxInt64 {
		f.Value = size(h.MemoryLimit)
	}
	// Room for what Go does not count: a tenth for the binary and threads, and what the kernel holds for viewers, which counts
	// against the same limit.
	advised := max(most-most/10-p.sockets(), most/2)
	switch {
	case h.MemoryLimit == math.MaxInt64 && !group:
		f.Why = "No control group limits the server's memory."
		return f, nil
	case h.MemoryLimit == math.MaxInt64:
		f.State, f.Advice = Warn, fmt.Sprintf("set it to %s of the %s that the control group allows", size(advised), size(most))
	case h.MemoryLimit > most:
		f.State, f.Advice = Bad, fmt.Sprintf("set it below the %s that there are: %s", size(most), size(advised))
	default:
		return f, nil
	}
	f.Command = fmt.Sprintf("GOMEMLIMIT=%dMiB millrace serve ...", advised>>20)
	return f, nil
}

func backlog(h *Host, p Plan) (Finding, error) {
	const name, usual = "net.core.somaxconn", 4096 // Linux's default since 5.4
	n, err := h.sysctl(name, 1)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{State: OK, Value: count(n[0]), Why: fmt.Sprintf("So many connections may wait to be accepted. After a restart all %d "+
		"viewers come back at once; a client that finds the queue full tries again after a second or more.", p.Viewers)}
	if n[0] < int64(min(p.Viewers, usual)) {
		f.State, f.Advice = Warn, fmt.Sprintf("allow %d, and restart the server", usual)
		f.Command = fmt.Sprintf("sysctl -w %s=%d", name, usual)
	}
	return f, nil
}

func ports(h *Host, p Plan) (Finding, error) {
	const name = "net.ipv4.ip_local_port_range"
	n, err := h.sysctl(name, 2)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{State: OK, Value: fmt.Sprintf("%d to %d", n[0], n[1]), Why: "The server needs one port. A proxy on this machine needs " +
		"one for each of its connections to the server's address."}
	if n[1]-n[0]+1 < int64(p.Viewers) {
		f.State, f.Advice = Info, "allow more ports if a proxy on this machine, such as nginx, stands before the server"
		f.Command = fmt.Sprintf(`sysctl -w %s="1024 65535"`, name)
	}
	return f, nil
}

func conntrack(h *Host, p Plan) (Finding, error) {
	const name = "net.netfilter.nf_conntrack_"
	most, err := h.sysctl(name+"max", 1)
	if errors.Is(err, fs.ErrNotExist) {
		return Finding{State: OK, Value: "not loaded", Why: "This machine keeps no table of connections that could be full."}, nil
	}
	if err != nil {
		return Finding{}, err
	}
	used, err := h.sysctl(name+"count", 1)
	if err != nil {
		return Finding{}, err
	}
	need := used[0] + int64(p.Viewers) + int64(p.MaxStreams)
	f := Finding{State: OK, Value: fmt.Sprintf("%s (in use: %s)", count(most[0]), count(used[0])), Why: "The firewall remembers every " +
		"connection, and closed ones for two minutes. When its table is full, packets of new ones are dropped, and only the kernel's log tells."}
	switch {
	case most[0] < need:
		f.State = Bad
	case most[0] < 2*need: // with those that were closed
		f.State = Warn
	default:
		return f, nil
	}
	f.Advice = fmt.Sprintf("allow %d, or have the firewall not track the server's port", roundUp(2*need))
	f.Command = fmt.Sprintf("sysctl -w %smax=%d", name, roundUp(2*need))
	return f, nil
}

// tcpBuffer judges the range in which the kernel sizes a connection's buffers. The kernel's own default is advised.
func tcpBuffer(h *Host, name, advised, why string) (Finding, error) {
	// About half of a buffer is data, and that much is on its way at a time: 1 MiB is 5 MB/s to a client that is 100 ms away.
	const least = 1 << 20
	n, err := h.sysctl(name, 3)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{State: OK, Value: fmt.Sprintf("%d %d %d", n[0], n[1], n[2]), Why: fmt.Sprintf("%s a connection are at most %s a second "+
		"to a client that is 100 ms away. %s", size(n[2]), size(n[2]/2*10), why)}
	switch {
	case n[2] < least:
		f.State, f.Advice = Warn, fmt.Sprintf("let the kernel use %s or more", size(least))
	case n[1] > least:
		f.State, f.Advice = Warn, "let connections begin small: the kernel lets those grow that need it"
	default:
		return f, nil
	}
	f.Command = fmt.Sprintf("sysctl -w %s=%q", name, advised)
	return f, nil
}

func sendBuffer(h *Host, p Plan) (Finding, error) {
	return tcpBuffer(h, "net.ipv4.tcp_wmem", "4096 16384 4194304",
		fmt.Sprintf("Viewers of streams are bounded by --unsent (%s), downloads by this.", size(p.Unsent)))
}

func receiveBuffer(h *Host, _ Plan) (Finding, error) {
	return tcpBuffer(h, "net.ipv4.tcp_rmem", "4096 131072 6291456", "It is for publishers and uploads.")
}

func tcpMemory(h *Host, p Plan) (Finding, error) {
	n, err := h.sysctl("net.ipv4.tcp_mem", 3)
	if err != nil {
		return Finding{}, err
	}
	pressure, most, need := min(n[1], unlimited/h.PageSize)*h.PageSize, min(n[2], unlimited/h.PageSize)*h.PageSize, p.sockets()
	f := Finding{State: OK, Value: fmt.Sprintf("%s, pressure from %s", size(most), size(pressure)), Why: fmt.Sprintf("What all connections "+
		"of the machine may hold in the kernel: %d slow viewers hold up to %s and what is on its way. From the pressure on the kernel "+
		"makes every buffer small; at the limit connections break off.", p.Viewers, size(need))}
	switch {
	case need > most:
		f.State = Bad
	case need > pressure:
		f.State = Warn
	default:
		return f, nil
	}
	pages := roundUp(2 * need / h.PageSize)
	f.Advice = fmt.Sprintf("allow %s, or expect fewer viewers", size(pages*h.PageSize))
	f.Command = fmt.Sprintf(`sysctl -w net.ipv4.tcp_mem="%d %d %d"`, pages/2, pages*3/4, pages)
	return f, nil
}

// directory looks at the directory of a flag. If the finding is OK, m is what the directory is on.
func (h *Host) directory(flag, name string) (m *procfs.MountInfo, f Finding, err error) {
	if name == "" {
		return nil, Finding{State: OK, Value: "none", Why: "No --" + flag + " was given."}, nil
	}
	path, err := filepath.Abs(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		_, err = os.ReadDir(path)
	}
	if err != nil {
		return nil, Finding{State: Bad, Value: err.Error(), Advice: "create the directory, or let this user read it",
			Why: "The server does not start without it.", Command: "mkdir -p " + quote(name)}, nil
	}
	if m, err = h.mountOf(path); err != nil || m == nil {
		return nil, Finding{}, errors.Join(err, fmt.Errorf("what %s is mounted on is unknown", path))
	}
	f = Finding{State: OK, Value: fmt.Sprintf("%s: %s on %s", name, m.FSType, m.MountPoint), Why: "Files leave from the page cache."}
	if slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "virtiofs"}, m.FSType) || strings.HasPrefix(m.FSType, "fuse") {
		f.State, f.Advice = Warn, "choose a disk of this machine that the kernel itself reads"
		f.Why = "Every read may wait for another machine or process, with a thread for as long as it takes."
	}
	return m, f, nil
}

func rootDirectory(h *Host, p Plan) (Finding, error) {
	_, f, err := h.directory("root", p.Root)
	return f, err
}

func blobsDirectory(h *Host, p Plan) (Finding, error) {
	m, f, err := h.directory("blobs", p.Blobs)
	if err != nil || m == nil || f.State != OK {
		return f, err
	}
	_, readOnly := m.Options["ro"]
	switch {
	case readOnly:
		f.State, f.Advice = Bad, "mount it for writing, or choose another directory"
		f.Why = "The server does not start where it cannot write."
		f.Command = "mount -o remount,rw " + quote(m.MountPoint)
	case m.FSType == "tmpfs" || m.FSType == "ramfs":
		f.State, f.Advice = Warn, "choose a directory on a disk"
		f.Why = "Blobs take memory there, and are gone when the machine starts again."
	case m.FSType == "overlay":
		f.State, f.Advice = Warn, "give the container a volume for it"
		f.Why = "The directory is in a layer of the container: blobs are gone with the container."
		f.Command = "docker run --volume blobs:DIR ..."
	}
	return f, nil
}

func clockSource(h *Host, _ Plan) (Finding, error) {
	now, err := h.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
	if err != nil {
		return Finding{}, err
	}
	f := Finding{State: OK, Value: now, Why: "The server reads the clock whenever it sends."}
	if slices.Contains([]string{"hpet", "acpi_pm", "xen", "jiffies"}, now) {
		f.State, f.Advice = Warn, "let the kernel use a clock that needs no system call, such as tsc"
		f.Why += " This one takes a system call, and often a microsecond or more."
	}
	return f, nil
}
