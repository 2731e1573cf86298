package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// A check examines one setting of the machine.
type check struct {
	group, name string
	// look examines the setting, and returns a Finding without Group and Name. If look cannot read
	// the setting, it sets the field err of the host, and the Finding is ignored.
	look func(*host, Plan) Finding
	why  string // added to the Why of the Finding
}

// checks is the list of all checks. Findings with the same State are reported in this order.
var checks = [...]check{
	{"process", "open files", openFiles,
		"At the limit, new connections wait, and file requests fail with 500. Go raises the soft " +
			"limit to the hard one."},
	{"process", "--max-viewers", maxViewers,
		"Above --max-viewers, and --max-stream-viewers of one stream, viewers get 503. " +
			"Downloads do not count."},
	{"process", "pids.max", tasks,
		"Viewers need no threads. But a Go program crashes if it cannot start a thread."},
	{"process", "cpu.max", processors,
		"When a control group has used up its CPU time, it is stopped until the next period " +
			"(100 ms by default), and every viewer waits. Without a limit the server may use " +
			"every processor."},
	{"memory", "memory", memory,
		"The rest is used to cache files."},
	{"memory", "GOMEMLIMIT", memoryLimit,
		"Go ignores a control group's memory limit. millrace serve sets Go's limit to --memory, " +
			"half of the memory by default, unless GOMEMLIMIT is set. If GOMEMLIMIT exceeds the " +
			"memory, the kernel kills the server."},
	{"network", "net.core.somaxconn", backlog,
		"The limit of connections that wait to be accepted. After a restart all viewers " +
			"reconnect at once; if the queue is full, a client retries after a second or more."},
	{"network", "net.ipv4.ip_local_port_range", ports,
		"The server needs one port. A proxy on this machine needs one for each of its " +
			"connections to the server."},
	{"network", "conntrack", conntrack,
		"The firewall tracks every connection, and closed ones for two minutes. When its table " +
			"is full, it drops packets of new connections, which only the kernel's log shows."},
	{"network", "net.ipv4.tcp_wmem", tcpBuffer("net.ipv4.tcp_wmem", "4096 16384 4194304"),
		"This limit is for downloads. Viewers of streams have --unsent."},
	{"network", "net.ipv4.tcp_rmem", tcpBuffer("net.ipv4.tcp_rmem", "4096 131072 6291456"),
		"This limit is for publishers and uploads."},
	{"network", "net.ipv4.tcp_mem", tcpMemory,
		"A limit for all connections of the machine together. Above the pressure mark the " +
			"kernel shrinks buffers; at the limit connections fail."},
	{"disk", "root", rootDirectory, ""},
	{"disk", "blobs", blobsDirectory, ""},
	{"system", "clock source", clockSource,
		"The server reads the clock at each write. Some clocks need a system call, which often " +
			"takes a microsecond or more."},
}

const (
	// spareFiles is the number of file descriptors for everything except streams and files, such as
	// listeners, the poller, and visitors of the web page.
	spareFiles = 64
	// uploadFiles is the number of file descriptors for an upload: its connection, its file, and
	// both ends of the pipe between them.
	uploadFiles = 4
	// viewerBytes is the memory that the server needs for each viewer, in bytes. It does not
	// include the kernel's memory.
	viewerBytes = 4 << 10
	// spareThreads is the number of threads that the Go runtime needs in addition to the threads
	// for goroutines.
	spareThreads = 32
)

// sockets returns the number of bytes of unsent data that the kernel holds if all viewers are slow.
// It does not include data in flight.
func (p Plan) sockets() int64 { return int64(p.Viewers) * p.Unsent }

func openFiles(h *host, p Plan) Finding {
	have := h.openFiles() // Go has raised the soft limit to the hard limit
	need := int64(p.Viewers) + int64(p.MaxStreams) + spareFiles
	sum := fmt.Sprintf("%d viewers and downloads, %d publishers, %d others", p.Viewers,
		p.MaxStreams, spareFiles)
	if p.Root != "" || p.Blobs != "" {
		need += int64(p.Viewers)
		sum += fmt.Sprintf(", a file for each download (up to %d)", p.Viewers)
	}
	if p.Blobs != "" {
		need += uploadFiles * int64(p.MaxUploads)
		sum += fmt.Sprintf(", %d × %d for uploads", uploadFiles, p.MaxUploads)
	}
	f := Finding{Value: count(have), Why: fmt.Sprintf("The plan takes up to %d descriptors: %s.",
		need, sum)}
	want := max(roundUp(need*5/4), 4096)
	how := fmt.Sprintf(" (systemd: LimitNOFILE=%d, docker: --ulimit nofile=%d:%d)", want, want,
		want)
	command := fmt.Sprintf("ulimit -n %d", want)
	switch {
	case have < need:
		f.advise(Bad, fmt.Sprintf("allow at least %d", need)+how, command)
	case have < need*5/4:
		f.advise(Warn, fmt.Sprintf("allow some more than the %d that the plan takes", need)+how,
			command)
	}
	return f
}

func maxViewers(_ *host, p Plan) Finding {
	f := Finding{Value: fmt.Sprint(p.MaxViewers)}
	if p.Viewers > p.MaxViewers {
		f.advise(Info, fmt.Sprintf("raise both if most of the %d are viewers of streams",
			p.Viewers),
			fmt.Sprintf("millrace serve --max-viewers %d --max-stream-viewers %[1]d ...",
				p.Viewers))
	}
	return f
}

func tasks(h *host, p Plan) Finding {
	need := int64(h.procs) + spareThreads
	if p.Blobs != "" {
		need += int64(p.MaxUploads)
	}
	f := Finding{Value: "none", Why: fmt.Sprintf("The plan takes up to %d threads.", need)}
	most, set := h.groupLimit("", "pids.max", parseLimit)
	if set {
		f.Value = fmt.Sprint(most)
	}
	if set && most < need {
		f.advise(Bad, fmt.Sprintf("allow at least %d (docker: --pids-limit %d)", need,
			roundUp(need)),
			fmt.Sprintf("systemctl set-property UNIT TasksMax=%d", roundUp(need)))
	}
	return f
}

func processors(h *host, _ Plan) Finding {
	milli, set := h.groupLimit("", "cpu.max", parseCPU)
	if !set {
		return Finding{Value: "none"}
	}
	cpus := float64(milli) / 1000
	whole := max(int(math.Ceil(cpus)), 1)
	f := Finding{Value: fmt.Sprintf("%.3g processors, GOMAXPROCS %d", cpus, h.procs)}
	switch {
	case cpus < 1:
		f.advise(Warn, "allow one processor at least (docker: --cpus 1)",
			"systemctl set-property UNIT CPUQuota=100%")
	case h.procs > max(whole, 2): // Go does not read the limits of enclosing groups
		f.advise(Warn, fmt.Sprintf("set GOMAXPROCS to %d", whole),
			fmt.Sprintf("GOMAXPROCS=%d millrace serve ...", whole))
	}
	return f
}

func memory(h *host, p Plan) Finding {
	have, group := h.memoryCap()
	viewers, streams := int64(p.Viewers)*viewerBytes+p.sockets(), int64(p.MaxStreams)*p.KeepBytes
	f := Finding{Value: size(have), Why: fmt.Sprintf(
		"%d viewers take %s here, and up to %s in the kernel if all are slow "+
			"(--unsent %s each); %d streams keep up to %s.",
		p.Viewers, size(int64(p.Viewers)*viewerBytes), size(p.sockets()), size(p.Unsent),
		p.MaxStreams, size(streams))}
	if group {
		f.Value += " (control group)"
	}
	switch {
	case viewers > have:
		f.advise(Bad, "expect fewer viewers, or have more memory",
			fmt.Sprintf("millrace serve --max-viewers %d ...",
				max(1, have/2/(viewerBytes+max(p.Unsent, 1)))))
	case viewers+streams > have:
		f.advise(Warn, "let there be fewer streams, or let each keep less",
			fmt.Sprintf("millrace serve --max-streams %d ...",
				max(1, (have-viewers)/2/max(p.KeepBytes, 1))))
	}
	return f
}

func memoryLimit(h *host, p Plan) Finding {
	most, _ := h.memoryCap()
	// Leave room for memory that Go does not count: a tenth for the binary and the threads, and the
	// kernel's socket memory, which also counts for the control group.
	advised := max(most-most/10-p.sockets(), most/2)
	command := fmt.Sprintf("GOMEMLIMIT=%dMiB millrace serve ...", advised>>20)
	f := Finding{Value: "none"}
	if h.memoryLimit == math.MaxInt64 {
		f.Why = fmt.Sprintf("millrace serve sets Go's limit to --memory: %s.", size(most/2))
	} else {
		f.Value = size(h.memoryLimit)
		if h.memoryLimit > most {
			f.advise(Bad, fmt.Sprintf("set it below the %s that there are: %s", size(most),
				size(advised)), command)
		}
	}
	return f
}

func backlog(h *host, p Plan) Finding {
	const name, usual = "net.core.somaxconn", 4096 // the default since Linux 5.4
	n := h.sysctl(name, 1)
	f := Finding{Value: count(n[0])}
	if n[0] < int64(min(p.Viewers, usual)) {
		f.advise(Warn, fmt.Sprintf("allow %d, and restart the server", usual),
			fmt.Sprintf("sysctl -w %s=%d", name, usual))
	}
	return f
}

func ports(h *host, p Plan) Finding {
	const name = "net.ipv4.ip_local_port_range"
	n := h.sysctl(name, 2)
	f := Finding{Value: fmt.Sprintf("%d to %d", n[0], n[1])}
	if n[1]-n[0]+1 < int64(p.Viewers) {
		f.advise(Info, "allow more ports if a proxy on this machine, such as nginx, stands before the server",
			fmt.Sprintf(`sysctl -w %s="1024 65535"`, name))
	}
	return f
}

func conntrack(h *host, p Plan) Finding {
	const name = "net.netfilter.nf_conntrack_"
	if _, err := os.Stat(filepath.Join(h.dir,
		"proc/sys/net/netfilter/nf_conntrack_max")); errors.Is(err, fs.ErrNotExist) {
		return Finding{Value: "not loaded"}
	}
	most, used := h.sysctl(name+"max", 1), h.sysctl(name+"count", 1)
	f := Finding{Value: fmt.Sprintf("%s (in use: %s)", count(most[0]), count(used[0]))}
	need := used[0] + int64(p.Viewers) + int64(p.MaxStreams)
	if most[0] < 2*need { // conntrack counts closed connections as well
		s := Warn
		if most[0] < need {
			s = Bad
		}
		f.advise(s, fmt.Sprintf("allow %d, or have the firewall not track the server's port",
			roundUp(2*need)),
			fmt.Sprintf("sysctl -w %smax=%d", name, roundUp(2*need)))
	}
	return f
}

// tcpBuffer returns a function that checks the kernel setting net.ipv4.tcp_wmem or
// net.ipv4.tcp_rmem. The setting consists of the minimum, default and maximum size of a
// connection's buffer. If the setting is bad, the check recommends the kernel's defaults.
func tcpBuffer(name, defaults string) func(*host, Plan) Finding {
	command := fmt.Sprintf("sysctl -w %s=%q", name, defaults)
	return func(h *host, _ Plan) Finding { return tcpRange(h.sysctl(name, 3), command) }
}

func tcpRange(n []int64, command string) Finding {
	// least is the smallest good value, in bytes, for the maximum size of a connection's buffer.
	// With a buffer of 1 MiB, a client with a round-trip time of 100 ms gets up to 5 MB/s, because
	// only about half of the buffer holds payload.
	const least = 1 << 20
	f := Finding{
		Value: fmt.Sprintf("%d %d %d", n[0], n[1], n[2]),
		Why: fmt.Sprintf("%s a connection are at most %s a second to a client that is 100 ms away.",
			size(n[2]), size(n[2]/2*10)),
	}
	switch {
	case n[2] < least:
		f.advise(Warn, fmt.Sprintf("let the kernel use %s or more", size(least)), command)
	case n[1] > least:
		f.advise(Warn, "let connections begin small: the kernel lets those grow that need it",
			command)
	}
	return f
}

func tcpMemory(h *host, p Plan) Finding {
	n := h.sysctl("net.ipv4.tcp_mem", 3)
	bytes := func(n int64) int64 { return min(n, unlimited/h.pageSize) * h.pageSize }
	pressure, most, need := bytes(n[1]), bytes(n[2]), p.sockets()
	f := Finding{
		Value: fmt.Sprintf("%s, pressure from %s", size(most), size(pressure)),
		Why: fmt.Sprintf("%d slow viewers hold up to %s in the kernel, without data in flight.",
			p.Viewers, size(need)),
	}
	if need > min(pressure, most) {
		s := Warn
		if need > most {
			s = Bad
		}
		want := roundUp(2 * need / h.pageSize)
		f.advise(s, fmt.Sprintf("allow %s, or expect fewer viewers", size(want*h.pageSize)),
			fmt.Sprintf(`sysctl -w net.ipv4.tcp_mem="%d %d %d"`, want/2, want*3/4, want))
	}
	return f
}

// directory checks whether the server can read a directory, and whether the directory is on a local
// disk. The argument dir is the path of the directory, and flag is the name of the command-line
// flag that sets it. The results are the Finding and the mount that contains the directory.
//
// If mount is nil, the Finding is complete. Otherwise the caller may check the mount further and
// add to the Finding.
func (h *host) directory(flag, dir string) (mount *procfs.MountInfo, f Finding) {
	if dir == "" {
		return nil, Finding{Value: "none", Why: "No --" + flag + " was given."}
	}
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err == nil {
		_, err = os.ReadDir(path)
	}
	if err != nil {
		f = Finding{Value: err.Error(), Why: "The server does not start without it."}
		f.advise(Bad, "create the directory, or let this user read it", "mkdir -p "+quote(dir))
		return nil, f
	}
	if mount = h.mountOf(path); mount == nil {
		return nil, Finding{}
	}
	f = Finding{Value: fmt.Sprintf("%s: %s on %s", dir, mount.FSType, mount.MountPoint),
		Why: "Files leave from the page cache."}
	remote := []string{"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "virtiofs"}
	if slices.Contains(remote, mount.FSType) || strings.HasPrefix(mount.FSType, "fuse") {
		f.Why = "Every read may wait for another machine or process, with a thread for as long as it takes."
		f.advise(Warn, "choose a disk of this machine that the kernel itself reads", "")
		return nil, f
	}
	return mount, f
}

func rootDirectory(h *host, p Plan) Finding {
	_, f := h.directory("root", p.Root)
	return f
}

func blobsDirectory(h *host, p Plan) Finding {
	m, f := h.directory("blobs", p.Blobs)
	if m == nil {
		return f
	}
	_, readOnly := m.Options["ro"]
	switch {
	case readOnly:
		f.Why = "The server does not start where it cannot write."
		f.advise(Bad, "mount it for writing, or choose another directory",
			"mount -o remount,rw "+quote(m.MountPoint))
	case m.FSType == "tmpfs" || m.FSType == "ramfs":
		f.Why = "Blobs take memory there, and are gone when the machine starts again."
		f.advise(Warn, "choose a directory on a disk", "")
	case m.FSType == "overlay":
		f.Why = "The directory is in a layer of the container: blobs are gone with the container."
		f.advise(Warn, "give the container a volume for it", "docker run --volume blobs:DIR ...")
	}
	return f
}

func clockSource(h *host, _ Plan) Finding {
	now := h.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
	f := Finding{Value: now}
	if slices.Contains([]string{"hpet", "acpi_pm", "xen", "jiffies"}, now) {
		f.advise(Warn, "let the kernel use a clock that needs no system call, such as tsc", "")
	}
	return f
}
