package doctor

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files are the contents of files by name, or by their names in sysctl(8).
type files map[string]string

const (
	gone  = "\x00gone" // removes a file
	group = "sys/fs/cgroup/system.slice/millrace.service/"
)

// Control groups of version 1. A container has its own group mounted at oldMemory.
const (
	oldGroups = "9:name=systemd:/\n5:cpu,cpuacct:/docker/7f\n4:hugetlb,memory:/docker/7f\n0::/\n"
	oldMemory = "sys/fs/cgroup/memory/"
)

func openFilesLine(n string) string {
	return "Limit                     Soft Limit           Hard Limit           Units     \n" +
		"Max open files            " + n + "              " + n + "              files     \n"
}

// healthy is a machine of 16 GiB and four processors without any problem.
var healthy = files{
	"proc/7/cgroup": "0::/system.slice/millrace.service\n",
	"proc/7/limits": openFilesLine("65536"),
	"proc/7/mountinfo": `22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
23 22 0:22 / TMP/tmpfs rw,relatime - tmpfs tmpfs rw
24 22 0:30 / TMP/nfs rw,relatime - nfs4 store:/films rw
25 22 0:31 / TMP/sealed ro,relatime - ext4 /dev/sdb1 ro
26 22 0:33 / TMP/two\040words rw,relatime - overlay overlay rw
`,
	"proc/meminfo":                     "MemTotal:       16777216 kB\nMemAvailable:   8388608 kB\n",
	"net.core.somaxconn":               "4096",
	"net.ipv4.ip_local_port_range":     "32768\t60999",
	"net.ipv4.tcp_wmem":                "4096\t16384\t4194304",
	"net.ipv4.tcp_rmem":                "4096\t131072\t6291456",
	"net.ipv4.tcp_mem":                 "191000\t254000\t382000",
	"net.netfilter.nf_conntrack_max":   "262144",
	"net.netfilter.nf_conntrack_count": "120",
	"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
	group + "cpu.max":    "max 100000\n",
	group + "memory.max": "max\n",
	group + "pids.max":   "4915\n",
}

// newHost returns the healthy machine with some files replaced. TMP in a file stands for an
// existing directory, which has some of the files.
func newHost(t *testing.T, other files) (h *host, tmp string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tmp = filepath.Join(dir, "tmp")
	for _, name := range []string{"tmpfs", "nfs", "sealed", "two words"} {
		if err := os.MkdirAll(filepath.Join(tmp, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	all := maps.Clone(healthy)
	maps.Copy(all, other)
	for name, text := range all {
		if text == gone {
			continue
		}
		if !strings.Contains(name, "/") {
			name = "proc/sys/" + strings.ReplaceAll(name, ".", "/")
		}
		tmp := tmp
		if name == "proc/7/mountinfo" {
			// Escape the name like the kernel.
			tmp = strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n",
				`\012`).Replace(tmp)
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "TMP", tmp)),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("7", filepath.Join(dir, "proc/self")); err != nil {
		t.Fatal(err)
	}
	return &host{dir: dir, cpus: 4, procs: 4, pageSize: 4096, memoryLimit: math.MaxInt64}, tmp
}

func TestChecks(t *testing.T) {
	type situation struct {
		files   files
		plan    Plan  // nonzero fields replace those of the plan
		limit   int64 // GOMEMLIMIT
		procs   int   // GOMAXPROCS
		state   State
		value   string // a part of Value
		says    string // a part of Advice or Why
		command string // a part of Command
	}
	for name, situations := range map[string][]situation{
		"open files": {
			{state: OK, value: "65536", says: "1192 descriptors: 1000 viewers and downloads, 128 publishers, 64 others"},
			{files: files{"proc/7/limits": openFilesLine("1024")}, state: Bad,
				says: "at least 1192", command: "ulimit -n 4096"},
			{files: files{"proc/7/limits": openFilesLine("1200")}, state: Warn,
				says: "some more than the 1192"},
			{files: files{"proc/7/limits": openFilesLine("2400")}, plan: Plan{Root: "TMP"},
				state: Warn, says: "LimitNOFILE=4096"},
			{files: files{"proc/7/limits": openFilesLine("2400")}, plan: Plan{Blobs: "TMP"},
				state: Bad, says: "4 × 64 for uploads"},
			{files: files{"proc/7/limits": gone}, state: Unknown, says: "limits"},
		},
		"--max-viewers": {
			{state: OK, value: "4096"},
			{plan: Plan{Viewers: 5000}, state: Info,
				command: "--max-viewers 5000 --max-stream-viewers 5000"},
		},
		"pids.max": {
			{state: OK, value: "4915", says: "up to 36"},
			{files: files{group + "pids.max": "40"}, plan: Plan{Blobs: "TMP"}, state: Bad,
				says: "--pids-limit 128", command: "TasksMax=128"},
			{files: files{group + "pids.max": gone}, state: OK, value: "none"},
		},
		"cpu.max": {
			{state: OK, value: "none"},
			{files: files{group + "cpu.max": "250000 100000"}, procs: 3, state: OK,
				value: "2.5 processors"},
			{files: files{group + "cpu.max": "50000 100000",
				"sys/fs/cgroup/system.slice/cpu.max": "400000 100000"},
				state: Warn, says: "one processor at least"},
			{files: files{"sys/fs/cgroup/system.slice/cpu.max": "200000 100000"}, state: Warn,
				command: "GOMAXPROCS=2"},
			{files: files{group + "cpu.max": "100000 0"}, state: OK, value: "none"},
		},
		"memory": {
			{state: OK, value: "16 GiB", says: "1000 viewers take 3.9 MiB here, and up to 125 MiB in the kernel"},
			{files: files{group + "memory.max": "67108864"}, state: Bad,
				value: "64 MiB (control group)"},
			{files: files{"sys/fs/cgroup/system.slice/memory.max": "1073741824"}, state: Warn,
				command: "--max-streams"},
			{files: files{"proc/meminfo": "MemFree: 1 kB\n"}, state: Unknown, says: "does not say"},
			{files: files{"proc/meminfo": gone, group + "memory.max": "4294967296"}, state: OK,
				value: "4 GiB (control group)"},
			{files: files{"proc/7/cgroup": oldGroups, oldMemory +
				"docker/7f/memory.limit_in_bytes": "67108864"},
				state: Bad, value: "64 MiB (control group)"},
			// The machine is a container.
			{files: files{"proc/7/cgroup": oldGroups, oldMemory +
				"memory.limit_in_bytes": "67108864"},
				state: Bad, value: "64 MiB (control group)"},
			{files: files{"proc/7/cgroup": oldGroups, oldMemory +
				"memory.limit_in_bytes": "4294967296",
				oldMemory + "docker/7f/memory.limit_in_bytes": "9223372036854771712"}, state: OK,
				value: "4 GiB (control group)"},
			{files: files{"proc/7/cgroup": oldGroups, oldMemory +
				"docker/7f/memory.limit_in_bytes": "9223372036854771712"},
				state: OK, value: "16 GiB"},
		},
		"GOMEMLIMIT": {
			{state: OK, value: "none", says: "--memory: 8 GiB"},
			{files: files{group + "memory.max": "4294967296"}, state: OK, says: "--memory: 2 GiB"},
			{files: files{group + "memory.max": "4294967296"}, limit: 3 << 30, state: OK,
				value: "3 GiB"},
			{limit: 32 << 30, state: Bad, says: "below the 16 GiB"},
		},
		"net.core.somaxconn": {
			{state: OK, value: "4096"},
			{files: files{"net.core.somaxconn": "128"}, state: Warn, command: "somaxconn=4096"},
			{files: files{"net.core.somaxconn": "128"}, plan: Plan{Viewers: 100}, state: OK},
			{files: files{"net.core.somaxconn": "many"}, state: Unknown, says: "want numbers"},
			{files: files{"net.core.somaxconn": gone}, state: Unknown,
				says: "there is no /proc/sys/net/core/somaxconn"},
		},
		"net.ipv4.ip_local_port_range": {
			{state: OK, value: "32768 to 60999"},
			{plan: Plan{Viewers: 50000}, state: Info, says: "a proxy on this machine"},
		},
		"conntrack": {
			{state: OK, value: "262144 (in use: 120)"},
			{files: files{"net.netfilter.nf_conntrack_max": "1024"}, state: Bad,
				command: "nf_conntrack_max=4096"},
			{files: files{"net.netfilter.nf_conntrack_max": "2048"}, state: Warn},
			{files: files{"net.netfilter.nf_conntrack_max": gone}, state: OK, value: "not loaded"},
		},
		"net.ipv4.tcp_wmem": {
			{state: OK, value: "4096 16384 4194304", says: "20 MiB a second"},
			{files: files{"net.ipv4.tcp_wmem": "4096 16384 65536"}, state: Warn,
				says: "1 MiB or more"},
			{files: files{"net.ipv4.tcp_wmem": "4096 2097152 4194304"}, state: Warn,
				says: "begin small"},
			{files: files{"net.ipv4.tcp_wmem": "1 2"}, state: Unknown},
		},
		"net.ipv4.tcp_rmem": {{state: OK}},
		"net.ipv4.tcp_mem": {
			{state: OK, value: "1.5 GiB, pressure from 992.2 MiB"},
			{plan: Plan{Viewers: 9000}, state: Warn},
			{plan: Plan{Viewers: 20000}, state: Bad, command: `tcp_mem="1048576 1572864 2097152"`},
		},
		"root": {
			{state: OK, value: "none"},
			{plan: Plan{Root: "TMP"}, state: OK, value: "ext4 on /"},
			{plan: Plan{Root: "TMP/nfs"}, state: Warn, says: "a disk of this machine"},
			{plan: Plan{Root: "TMP/missing"}, state: Bad, command: "mkdir -p '"},
		},
		"blobs": {
			{plan: Plan{Blobs: "TMP"}, state: OK, value: "ext4 on /"},
			{plan: Plan{Blobs: "TMP/tmpfs"}, state: Warn,
				says: "gone when the machine starts again"},
			{plan: Plan{Blobs: "TMP/sealed"}, state: Bad, command: "mount -o remount,rw '"},
			{plan: Plan{Blobs: "TMP/two words"}, state: Warn, says: "a volume"},
		},
		"clock source": {
			{state: OK, value: "tsc"},
			{files: files{"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"}, state: Warn},
		},
	} {
		for _, s := range situations {
			h, tmp := newHost(t, s.files)
			p := Plan{Viewers: 1000, MaxViewers: 4096, MaxStreams: 128, KeepBytes: 16 << 20,
				Unsent: 128 << 10, MaxUploads: 64}
			if s.plan.Viewers > 0 {
				p.Viewers = s.plan.Viewers
			}
			p.Root, p.Blobs = strings.Replace(s.plan.Root, "TMP", tmp, 1),
				strings.Replace(s.plan.Blobs, "TMP", tmp, 1)
			if s.limit > 0 {
				h.memoryLimit = s.limit
			}
			if s.procs > 0 {
				h.procs = s.procs
			}
			found := false
			for _, f := range examine(h, p).Findings {
				if f.Name != name {
					continue
				}
				found = true
				if f.State != s.state || !strings.Contains(f.Value, s.value) ||
					!strings.Contains(f.Advice+" "+f.Why, s.says) ||
					!strings.Contains(f.Command, s.command) {
					t.Errorf("%s with %q:\n%+v, want\n%s, %q, %q, %q", name, s.files, f, s.state,
						s.value, s.says, s.command)
				}
			}
			if !found {
				t.Errorf("nothing is called %s", name)
			}
		}
	}
}

// A report of a machine that shows nothing does not fail. The worst findings come first.
func TestReport(t *testing.T) {
	r := examine(&host{dir: t.TempDir(), cpus: 1, procs: 1, pageSize: 4096,
		memoryLimit: math.MaxInt64}, Plan{Viewers: 1, Root: "/no\x1b[2Jwhere"})
	if r.Counts[Bad] != 1 || r.Counts[Warn] != 0 || r.Counts[Unknown] == 0 ||
		len(r.Counts) != len(States) || len(r.Findings) != len(checks) {
		t.Errorf("%+v, want one bad finding, and all checks counted", r.Counts)
	}
	if f := r.Findings[0]; f.State != Bad || f.Name != "root" ||
		strings.ContainsRune(f.Value+f.Command+r.Root, '\x1b') {
		t.Errorf("%+v, want root as bad, and no control characters", f)
	}
	if r := Examine(Plan{Viewers: 1}); r.CPUs < 1 {
		t.Errorf("%+v, want one processor or more", r)
	}
}
