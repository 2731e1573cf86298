package doctor

import (
	"io/fs"
	"maps"
	"math"
	"strings"
	"testing/fstest"
)

// files are the contents of files by their names, or by what sysctl(8) calls them.
type files map[string]string

// gone takes a file away.
const gone = "\x00gone"

// healthy is a machine of 16 GiB and four processors that lacks nothing: Linux, control groups of version 2, no limits.
var healthy = files{
	"proc/self/cgroup": "0::/system.slice/millrace.service\n",
	"proc/self/mountinfo": `22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
24 22 0:22 / /sys rw,nosuid - sysfs sysfs rw
25 24 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate
26 22 0:24 / /run rw,nosuid - tmpfs tmpfs rw
27 22 259:2 / /srv/strict rw shared:5 - xfs /dev/nvme1n1 rw
28 22 0:30 / /srv/nfs rw,relatime - nfs4 store:/films rw
29 22 0:31 / /srv/sealed ro,relatime - ext4 /dev/sdb1 ro
30 22 0:32 / /srv/two\040words rw,relatime - fuse.sshfs me@far:/ rw
31 22 0:33 / /srv/layer rw,relatime - overlay overlay rw
`,
	"proc/meminfo":                    "MemTotal:       16777216 kB\nMemFree:  1024 kB\nMemAvailable:   8388608 kB\n",
	"proc/swaps":                      "Filename Type Size Used Priority\n",
	"fs.file-max":                     "9223372036854775807",
	"fs.file-nr":                      "1984\t0\t9223372036854775807",
	"fs.aio-max-nr":                   "65536",
	"fs.aio-nr":                       "0",
	"kernel.threads-max":              "127000",
	"kernel.osrelease":                "6.12.41-cloud-amd64",
	"net.core.somaxconn":              "4096",
	"net.core.wmem_max":               "4194304",
	"net.core.rmem_max":               "212992",
	"net.core.default_qdisc":          "fq",
	"net.ipv4.tcp_wmem":               "4096\t16384\t4194304",
	"net.ipv4.tcp_rmem":               "4096\t131072\t6291456",
	"net.ipv4.tcp_mem":                "191000\t254000\t382000",
	"net.ipv4.tcp_congestion_control": "bbr",
	"net.ipv4.tcp_available_congestion_control":           "reno cubic bbr",
	"net.ipv4.tcp_slow_start_after_idle":                  "0",
	"net.ipv4.tcp_notsent_lowat":                          "4294967295",
	"net.netfilter.nf_conntrack_max":                      "262144",
	"net.netfilter.nf_conntrack_count":                    "120",
	"vm.swappiness":                                       "60",
	"vm.dirty_bytes":                                      "1073741824",
	"vm.dirty_ratio":                                      "0",
	"vm.dirty_background_bytes":                           "268435456",
	"vm.dirty_background_ratio":                           "0",
	"sys/kernel/mm/transparent_hugepage/enabled":          "always [madvise] never",
	clockDir + "current_clocksource":                      "tsc",
	clockDir + "available_clocksource":                    "tsc hpet acpi_pm",
	"sys/fs/cgroup/system.slice/cpu.stat":                 "usage_usec 1\n",
	"sys/fs/cgroup/system.slice/millrace.service/cpu.max": "max 100000\n",
	"sys/fs/cgroup/system.slice/millrace.service/cpu.stat": `usage_usec 1
nr_periods 0
nr_throttled 0
`,
	"sys/fs/cgroup/system.slice/millrace.service/memory.max": "max\n",
	"sys/fs/cgroup/system.slice/millrace.service/pids.max":   "4915\n",
}

// service is where the healthy machine has the server's control group.
const service = "sys/fs/cgroup/system.slice/millrace.service/"

// newHost returns the healthy machine with other files.
func newHost(other files) *Host {
	all := maps.Clone(healthy)
	maps.Copy(all, other)
	system := make(fstest.MapFS)
	for name, content := range all {
		if content != gone {
			if !strings.Contains(name, "/") {
				name = "proc/sys/" + strings.ReplaceAll(name, ".", "/")
			}
			system[name] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return &Host{
		Files: system, OS: "linux", CPUs: 4, Procs: 4, PageSize: 4096,
		MemoryLimit: math.MaxInt64,
		OpenFiles:   Limit{Soft: 1 << 20, Hard: 1 << 20, Known: true},
		Env:         func(string) string { return "" },
		Directory: func(name string, write bool) (string, error) {
			switch {
			case strings.Contains(name, "missing"):
				return "", fs.ErrNotExist
			case strings.Contains(name, "file"):
				return "", errNotDirectory
			case strings.Contains(name, "closed"), write && strings.Contains(name, "readable"):
				return "", fs.ErrPermission
			}
			return name, nil
		},
	}
}

// plan is that of a server with its defaults.
var plan = Plan{
	Viewers: 1000, MaxViewers: 4096, Streams: 128, KeepBytes: 16 << 20, Unsent: 128 << 10,
	SendBuffer: 4 << 20, FilesOpen: 512, BlobsOpen: 128, ColdReaders: 8, Uploads: 64,
}

// forbidden is a file system that lets nobody read.
type forbidden struct{}

func (forbidden) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}
