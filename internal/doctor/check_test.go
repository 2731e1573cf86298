package doctor

import (
	"strings"
	"testing"
)

// A situation is what one check is put before, and what it is to say.
type situation struct {
	files   files
	host    func(*Host)
	plan    func(*Plan)
	state   State
	value   string // what Value has in it
	says    string // what Advice or Why have in them
	command string // what Command has in it
}

func (s situation) run(t *testing.T, name string) {
	t.Helper()
	h, p := newHost(s.files), plan
	if s.host != nil {
		s.host(h)
	}
	if s.plan != nil {
		s.plan(&p)
	}
	for _, f := range Examine(h, p).Findings {
		if f.Name != name {
			continue
		}
		if f.State != s.state || !strings.Contains(f.Value, s.value) ||
			!strings.Contains(f.Advice+" "+f.Why, s.says) || !strings.Contains(f.Command, s.command) {
			t.Errorf("%s with %q:\n%+v, want\n%s, %q, %q, %q", name, s.files, f, s.state, s.value, s.says, s.command)
		}
		return
	}
	t.Errorf("nothing is called %s", name)
}

// inBox adds to files that the server is in /box of the control groups of version 1, as in a container. In the tree for memory
// nothing else is seen.
func inBox(v1 files) files {
	v1["proc/self/cgroup"] = "9:name=systemd:/\n4:memory:/box\n3:cpu,cpuacct:/box\n2:pids:/box\n0::/\n"
	v1["proc/self/mountinfo"] = healthy["proc/self/mountinfo"] +
		`40 24 0:40 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 24 0:41 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
42 24 0:42 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
`
	return v1
}

func open(soft, hard uint64) func(*Host) {
	return func(h *Host) { h.OpenFiles = Limit{soft, hard, true} }
}

func procs(n int) func(*Host) { return func(h *Host) { h.Procs = n } }

func limitTo(n int64) func(*Host) { return func(h *Host) { h.MemoryLimit = n } }

func viewers(n int) func(*Plan) { return func(p *Plan) { p.Viewers = n } }

func rooted(dir string) func(*Plan) { return func(p *Plan) { p.Root = dir } }

func blobbed(dir string) func(*Plan) { return func(p *Plan) { p.Blobs = dir } }

// onBSD is a machine without /proc.
func onBSD(h *Host) { h.OS, h.OpenFiles = "freebsd", Limit{} }

var processSituations = map[string][]situation{
	"open files": {
		{state: OK, value: "1048576", says: "1192 descriptors: 1000 viewers and downloads, 128 publishers, 64 others"},
		{host: open(1024, 1024), state: Bad, value: "1024", says: "at least 1192", command: "ulimit -n 4096"},
		{host: open(1024, 4096), state: Bad, value: "1024 (hard: 4096)"},
		{host: open(1200, 1200), state: Warn, says: "some more than the 1192"},
		{host: open(1<<63, 1<<63), state: OK, value: "unlimited"},
		{host: open(1600, 1600), plan: rooted("/srv"), state: Bad, says: "LimitNOFILE=4096", command: "ulimit -n 4096"},
		{host: open(1500, 1500), plan: blobbed("/srv"), state: Bad, says: "128 blobs, 4 × 64 for uploads, 64 others"},
		{host: onBSD, state: Unknown, says: "freebsd does not tell"},
	},
	"fs.file-max": {
		{state: OK, value: "unlimited (open: 1984)"},
		{files: files{"fs.file-max": "2000"}, state: Bad, value: "2000 (open: 1984)", command: "fs.file-max=4096"},
		{files: files{"fs.file-nr": "1984"}, state: Unknown, says: "not what it is"},
		{files: files{"fs.file-max": gone}, state: Unknown, says: "there is no /proc/sys/fs/file-max"},
	},
	"threads": {
		{state: OK, value: "4915 (pids.max of the control group)", says: "up to 36"},
		{files: files{service + "pids.max": "max"}, state: OK, value: "127000 (kernel.threads-max)"},
		{files: files{service + "pids.max": "40"}, plan: rooted("/srv"),
			state: Bad, says: "at least 44", command: "TasksMax=64"},
		{files: files{"kernel.threads-max": "20"}, state: Bad, command: "sysctl -w kernel.threads-max=64"},
		{files: inBox(files{"sys/fs/cgroup/pids/box/pids.max": "10"}), plan: blobbed("/srv"),
			state: Bad, says: "--pids-limit 128"},
		{files: files{"kernel.threads-max": "many"}, state: Unknown},
	},
	"--max-viewers": {
		{state: OK, value: "4096"},
		{plan: viewers(5000), state: Info, says: "raise both", command: "--max-viewers 5000 --max-stream-viewers 5000"},
	},
	"GOMAXPROCS": {
		{state: OK, value: "4 of 4 processors"},
		{host: procs(2), state: Warn, says: "leave GOMAXPROCS unset", command: "unset GOMAXPROCS"},
		{host: procs(64), state: Warn, value: "64 of 4 processors", command: "unset GOMAXPROCS"},
		{files: files{service + "cpu.max": "250000 100000"}, host: procs(3), state: OK, value: "limit 2.5"},
		{files: files{service + "cpu.max": "250000 100000"},
			state: Warn, says: "set GOMAXPROCS to 3", command: "GOMAXPROCS=3"},
		{files: files{service + "cpu.max": "300000 100000"}, host: procs(2),
			state: Warn, says: "3 processors are allowed"},
		{files: files{service + "cpu.max": "50000 100000"}, host: procs(2),
			state: Warn, says: "one processor at least"},
		{files: files{service + "cpu.max": "100000 100000"}, host: procs(2), state: OK, value: "limit 1"},
		{files: files{"sys/fs/cgroup/system.slice/cpu.max": "200000 100000"}, state: Warn, says: "further out"},
		{files: files{service + "cpu.max": "lots"}, state: OK},
		{files: files{service + "cpu.max": "100000 0"}, state: OK},
		{files: inBox(files{
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us":  "200000",
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
		}), state: Warn, command: "GOMAXPROCS=2"},
		{files: inBox(files{
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us":  "-1",
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
		}), state: OK, value: "4 of 4 processors"},
	},
	"cpu throttling": {
		{state: OK, value: "never"},
		{files: files{service + "cpu.stat": "nr_periods 1000\nnr_throttled 5\n"}, state: OK, value: "in 0.5% of 1000"},
		{files: files{service + "cpu.stat": "nr_periods 1000\nnr_throttled 205\n"},
			state: Warn, value: "in 20.5% of 1000"},
		{files: files{"sys/fs/cgroup/system.slice/cpu.stat": "nr_periods 10\nnr_throttled 10\n"},
			state: Warn, value: "in 100%"},
		{files: files{"proc/self/cgroup": gone}, state: Unknown},
		{files: files{"proc/self/cgroup": "1:cpuset:/\n"}, state: Unknown, says: "in no control group"},
		{files: files{"proc/self/mountinfo": "22 1 259:1 / / rw - ext4 /dev/sda rw\n"},
			state: Unknown, says: "are mounted"},
	},
}

var memorySituations = map[string][]situation{
	"memory": {
		{state: OK, value: "16 GiB", says: "up to 125 MiB in the kernel"},
		{files: files{service + "memory.max": "1073741824"},
			state: Warn, value: "1 GiB (control group)", command: "--max-streams "},
		{files: files{service + "memory.max": "104857600"},
			state: Bad, says: "fewer viewers", command: "--max-viewers 387 "},
		{plan: viewers(1 << 24), state: Bad},
		{files: files{"proc/meminfo": "MemTotal: none"}, state: Unknown, says: "does not say how much"},
		{files: files{"proc/meminfo": gone}, state: Unknown},
		{files: files{"proc/meminfo": gone, service + "memory.max": "4294967296"},
			state: OK, value: "4 GiB (control group)"},
		{host: func(h *Host) { h.OS, h.Values = "darwin", map[string]string{"hw.memsize": "17179869184"} },
			state: OK, value: "16 GiB"},
	},
	"GOMEMLIMIT": {
		{state: OK, value: "none", says: "No control group limits"},
		{files: files{service + "memory.max": "4294967296"}, state: Warn, value: "none", command: "GOMEMLIMIT=3561MiB"},
		{files: files{service + "memory.max": "4294967296"}, host: limitTo(5 << 30), state: Bad, value: "5 GiB"},
		{files: files{service + "memory.max": "4294967296"}, host: limitTo(4<<30 - 1),
			state: Warn, says: "leave more room"},
		{files: files{service + "memory.max": "4294967296"}, host: limitTo(3 << 30),
			state: OK, value: "3 GiB", says: "125 MiB"},
		{files: files{"sys/fs/cgroup/memory.max": "4294967296"}, host: limitTo(5 << 30), state: Bad},
		{host: limitTo(16 << 20), state: Warn, says: "collects all the time"},
		{host: limitTo(32 << 30), state: Bad, says: "below the 16 GiB"},
		{files: inBox(files{"sys/fs/cgroup/memory/memory.limit_in_bytes": "4294967296"}),
			state: Warn, command: "=3686MiB"},
		{files: inBox(files{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}), state: OK},
		{host: onBSD, state: Unknown, says: "freebsd has no /proc/meminfo"},
	},
	"transparent huge pages": {
		{state: OK, value: "madvise"},
		{files: files{hugePagesDir + "enabled": "always madvise [never]"}, state: OK, value: "never"},
		{files: files{hugePagesDir + "enabled": "[always] madvise never"}, state: Warn, command: "max_ptes_none"},
		{files: files{hugePagesDir + "enabled": "[always]", hugePagesDir + "khugepaged/max_ptes_none": "511"},
			state: Warn, value: "none 511"},
		{files: files{hugePagesDir + "enabled": "[always]", hugePagesDir + "khugepaged/max_ptes_none": "0"},
			state: OK, value: "none 0"},
		{files: files{hugePagesDir + "enabled": "[always]"}, host: func(h *Host) {
			h.Env = func(string) string { return "gctrace=0,disablethp=1" }
		}, state: OK, value: "always, GODEBUG"},
		{files: files{hugePagesDir + "enabled": "always"}, state: Unknown},
		{files: files{hugePagesDir + "enabled": "[sometimes]"}, state: Unknown},
		{files: files{hugePagesDir + "enabled": gone}, state: Unknown},
	},
	"swap": {
		{state: OK, value: "none"},
		{files: files{"proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 1048576 0 -2\n"},
			state: Info, value: "1 GiB, 0 B in use, swappiness 60", command: "vm.swappiness=1"},
		{files: files{"proc/swaps": "F T S U P\n/swap file 1048576 512 -2\n/more file 1048576 512 -3\n"},
			state: Warn, value: "2 GiB, 1 MiB in use"},
		{files: files{"proc/swaps": "F T S U P\n/swap file 1048576 512 -2\n", service + "memory.swap.max": "0"},
			state: OK, value: "not for this"},
		{files: files{"proc/swaps": gone}, state: Unknown},
	},
}

var networkSituations = map[string][]situation{
	"net.core.somaxconn": {
		{state: OK, value: "4096"},
		{files: files{"net.core.somaxconn": "128"},
			state: Warn, says: "restart the server", command: "net.core.somaxconn=4096"},
		{files: files{"net.core.somaxconn": "128"}, plan: viewers(100), state: OK},
		{plan: viewers(100000), state: OK},
		{files: files{"net.core.somaxconn": "-1"}, state: Unknown},
		{host: func(h *Host) { h.OS, h.Values = "darwin", map[string]string{"kern.ipc.somaxconn": "128"} },
			state: Warn, command: "kern.ipc"},
	},
	"conntrack": {
		{state: OK, value: "262144 (in use: 120)"},
		{files: files{"net.netfilter.nf_conntrack_max": gone}, state: OK, value: "not loaded"},
		{files: files{"net.netfilter.nf_conntrack_max": "2000"}, state: Warn, command: "nf_conntrack_max=4096"},
		{files: files{"net.netfilter.nf_conntrack_count": "262000"}, state: Bad, command: "nf_conntrack_max=1048576"},
		{files: files{"net.netfilter.nf_conntrack_count": ""}, state: Unknown},
		{host: func(h *Host) { h.Files = forbidden{} }, state: Unknown, says: "may not read"},
	},
	"net.ipv4.tcp_wmem": {
		{state: OK, value: "4096 16384 4194304", says: "20 MiB a second"},
		{files: files{"net.ipv4.tcp_wmem": "4096 16384 262144"},
			state: Warn, says: "1 MiB or more", command: `"4096 16384 4194304"`},
		{files: files{"net.ipv4.tcp_wmem": "4096 8388608 8388608"}, state: Warn, says: "begin small"},
		{plan: rooted("/srv"), state: OK, says: "with 1000 of them 3.9 GiB"},
		{files: files{"net.ipv4.tcp_wmem": "4096 16384"}, state: Unknown},
	},
	"net.ipv4.tcp_rmem": {
		{state: OK, value: "6291456"},
		{files: files{"net.ipv4.tcp_rmem": "4096 87380 524288"}, state: Warn, command: "tcp_rmem="},
		{files: files{"net.ipv4.tcp_rmem": gone}, state: Unknown},
	},
	"net.ipv4.tcp_mem": {
		{state: OK, value: "1.5 GiB, pressure from 992.2 MiB", says: "up to 125 MiB"},
		{plan: viewers(10000), state: Warn, command: `tcp_mem="524288 786432 1048576"`},
		{plan: viewers(20000), state: Bad, says: "allow 8 GiB"},
		{files: files{"net.ipv4.tcp_mem": "0 1 18446744073709551615"}, state: Warn},
		{files: files{"net.ipv4.tcp_mem": "x"}, state: Unknown},
	},
	"net.core.wmem_max": {
		{state: OK, value: "4194304, rmem_max 212992", says: "a send buffer of 8 MiB"},
		{files: files{"net.core.wmem_max": "212992"}, state: Info, value: "212992, rmem_max",
			says: "so that nothing is widened", command: "sysctl -w net.core.wmem_max=4194304"},
		{files: files{"net.core.wmem_max": "2097152"}, state: Info, says: "nothing is widened"},
		{files: files{"net.core.wmem_max": "3145728"}, state: Info, says: "and restart the server"},
		{files: files{"net.core.wmem_max": "212992", "net.ipv4.tcp_wmem": "4096 16384 8388608"}, state: OK},
		{files: files{"net.core.wmem_max": "212992"}, plan: func(p *Plan) { p.SendBuffer = 0 }, state: OK},
		{files: files{"net.core.wmem_max": "18446744073709551615"}, state: OK},
		{files: files{"net.ipv4.tcp_wmem": gone}, state: Unknown, says: "there is no /proc/sys/net/ipv4/tcp_wmem"},
		{files: files{"net.core.rmem_max": gone}, state: Unknown},
	},
	"net.ipv4.tcp_congestion_control": {
		{state: OK, value: "bbr, queue fq"},
		{files: files{"net.ipv4.tcp_congestion_control": "cubic"},
			state: Info, command: "sysctl -w net.ipv4.tcp_congestion_control=bbr"},
		{files: files{
			"net.ipv4.tcp_congestion_control":           "reno",
			"net.ipv4.tcp_available_congestion_control": "reno cubic",
			"net.core.default_qdisc":                    gone,
		}, state: Warn, value: "reno", command: "modprobe tcp_bbr && "},
		{files: files{"net.ipv4.tcp_congestion_control": gone}, state: Unknown},
		{files: files{"net.ipv4.tcp_congestion_control": "; reboot"}, state: Unknown, says: "not what it is"},
	},
	"net.ipv4.tcp_slow_start_after_idle": {
		{state: OK, value: "0"},
		{files: files{"net.ipv4.tcp_slow_start_after_idle": "1"}, state: Info, command: "idle=0"},
		{files: files{"net.ipv4.tcp_slow_start_after_idle": "no"}, state: Unknown},
	},
	"net.ipv4.tcp_notsent_lowat": {
		{state: Info, value: "unlimited", says: "128 KiB"},
		{files: files{"net.ipv4.tcp_notsent_lowat": "16384"}, plan: func(p *Plan) { p.Unsent = 0 },
			state: Info, value: "16384", says: "--unsent 0"},
		{files: files{"net.ipv4.tcp_notsent_lowat": gone}, state: Unknown},
	},
}

var diskSituations = map[string][]situation{
	"root": {
		{state: OK, value: "none"},
		{plan: rooted("/srv/films"), state: OK, value: "/srv/films: ext4 on /"},
		{plan: rooted("/run/films"), state: Info, value: "tmpfs on /run", says: "as memory"},
		{plan: rooted("/runaway"), state: OK, value: "ext4 on /"},
		{plan: rooted("/srv/strict"), state: Warn, command: "mount -o remount,relatime '/srv/strict'"},
		{plan: rooted("/srv/nfs/a"), state: Warn, value: "nfs4 on /srv/nfs"},
		{plan: rooted("/srv/two words"), state: Warn, value: "fuse.sshfs on /srv/two words"},
		{plan: rooted("/srv/sealed"), state: OK},
		{plan: rooted("/it's missing"), state: Bad, command: `mkdir -p '/it'\''s missing'`},
		{plan: rooted("/etc/file"), state: Bad, value: "not a directory", says: "name a directory"},
		{plan: rooted("/closed"), state: Bad, value: "closed to this user", command: "u:USER:rx '/closed'"},
		{plan: rooted("/srv/readable"), state: OK},
		{files: files{"proc/self/mountinfo": gone}, plan: rooted("/srv"), state: Unknown},
		{files: files{"proc/self/mountinfo": "broken\n1 2 3 4 5 6 - \n"}, plan: rooted("/srv"),
			state: Unknown, says: "known to have /srv"},
	},
	"blobs": {
		{state: OK, value: "none"},
		{plan: blobbed("/srv/blobs"), state: OK, value: "ext4 on /"},
		{plan: blobbed("/srv/sealed"), state: Bad, command: "remount,rw '/srv/sealed'"},
		{plan: blobbed("/run"), state: Warn, says: "take memory"},
		{plan: blobbed("/srv/layer/b"), state: Warn, command: "--volume"},
		{plan: blobbed("/srv/nfs"), state: Warn},
		{plan: blobbed("/missing"), state: Bad},
		{plan: blobbed("/srv/readable"), state: Bad, value: "closed to this user", command: "u:USER:rwx '/srv/readable'"},
	},
	"vm.dirty_background_ratio": {
		{plan: blobbed("/srv"), state: OK, value: "256 MiB"},
		{files: files{"vm.dirty_background_bytes": "0", "vm.dirty_background_ratio": "10"}, plan: blobbed("/srv"),
			state: Warn, value: "10% (819.2 MiB)", command: "vm.dirty_background_bytes=268435456"},
		{files: files{"vm.dirty_background_bytes": "0", "vm.dirty_background_ratio": "10"},
			state: OK, says: "Without --blobs"},
		{files: files{"vm.dirty_background_bytes": gone, "vm.dirty_background_ratio": "5"}, plan: blobbed("/srv"),
			state: OK},
		{files: files{"vm.dirty_background_bytes": "0", "vm.dirty_background_ratio": gone}, state: Unknown},
		{files: files{"proc/meminfo": gone}, state: Unknown},
	},
	"vm.dirty_ratio": {
		{plan: blobbed("/srv"), state: OK, value: "1 GiB"},
		{files: files{"vm.dirty_bytes": "0", "vm.dirty_ratio": "20"}, plan: blobbed("/srv"),
			state: OK, value: "20% (1.6 GiB)"},
		{files: files{"vm.dirty_bytes": "0", "vm.dirty_ratio": "40"}, plan: blobbed("/srv"),
			state: Warn, command: "vm.dirty_bytes=1073741824"},
		{files: files{"vm.dirty_bytes": "0", "vm.dirty_ratio": "900"}, plan: blobbed("/srv"),
			state: Warn, value: "100%"},
	},
	"fs.aio-max-nr": {
		{state: Info, value: "65536 (in use: 0)", says: "uses no asynchronous I/O"},
		{files: files{"fs.aio-nr": gone}, state: Info, value: "65536"},
		{files: files{"fs.aio-max-nr": gone}, state: Unknown},
	},
}

var systemSituations = map[string][]situation{
	"kernel": {
		{state: OK, value: "6.12.41-cloud-amd64"},
		{files: files{"kernel.osrelease": "6.5.0"}, state: OK},
		{files: files{"kernel.osrelease": "6.1.0-38-amd64"}, state: Info, says: "cachestat"},
		{files: files{"kernel.osrelease": "5.15"}, state: Info},
		{files: files{"kernel.osrelease": "linux"}, state: Unknown},
	},
	"sendfile": {
		{state: OK, value: "yes"},
		{host: onBSD, state: Info, value: "no"},
		{host: onBSD, plan: rooted("/srv"), state: Warn, says: "copies files"},
	},
	"clock source": {
		{state: OK, value: "tsc"},
		{files: files{clockDir + "current_clocksource": "hpet"}, state: Warn, command: "echo tsc > /sys/devices/"},
		{files: files{clockDir + "current_clocksource": "xen", clockDir + "available_clocksource": "xen"}, state: Warn},
		{files: files{clockDir + "current_clocksource": gone}, state: Unknown},
		{files: files{clockDir + "current_clocksource": "\x1b[31mtsc"}, state: Unknown},
	},
}

func TestChecks(t *testing.T) {
	tested := make(map[string]bool)
	for _, all := range []map[string][]situation{
		processSituations, memorySituations, networkSituations, diskSituations, systemSituations,
	} {
		for name, list := range all {
			tested[name] = true
			t.Run(name, func(t *testing.T) {
				for _, s := range list {
					s.run(t, name)
				}
			})
		}
	}
	for _, c := range checks {
		if !tested[c.name] {
			t.Errorf("%s is not tested", c.name)
		}
	}
}
