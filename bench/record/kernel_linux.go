package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A kernel reads what the kernel did: at the end of each interval by system calls, and by bpftrace as it happens.
type kernel struct {
	source, note string
	conns        func() []syscall.Conn

	faults unix.Rusage
	resent map[uint64]uint32 // by a socket's cookie: what it had sent again at the last reading
	delay  uint64            // nanoseconds that threads had waited for a processor
	runs   uint64            // how often they had run

	tracer *tracer // nil without bpftrace
}

func openKernel(o Options) *kernel {
	k := &kernel{conns: o.Conns, source: "TCP_INFO and schedstat"}
	if !o.Bpftrace {
		return k
	}
	t, err := startTracer(o.Interval)
	if err != nil {
		k.note = fmt.Sprintf(" (not by bpftrace: %v)", err)
		return k
	}
	k.tracer, k.source = t, "bpftrace, and TCP_INFO for round trips"
	return k
}

// begin takes the values from which the first interval's differences are.
func (k *kernel) begin() {
	k.read(new(Kernel))
	if k.tracer != nil {
		k.tracer.begin()
	}
}

func (k *kernel) read(s *Kernel) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		s.MinorFaults, s.MajorFaults = u.Minflt-k.faults.Minflt, u.Majflt-k.faults.Majflt
		k.faults = u
	}
	retransmits := k.readConns(s)
	if k.tracer != nil {
		return // the other two come when the record ends
	}
	s.Retransmits = retransmits
	delay, runs := schedstat()
	if runs > k.runs && delay >= k.delay {
		s.RunQueue = time.Duration((delay - k.delay) / (runs - k.runs))
	}
	k.delay, k.runs = delay, runs
}

// readConns asks every connection for TCP_INFO. It returns how many segments were sent again since the last reading.
func (k *kernel) readConns(s *Kernel) (retransmits int64) {
	resent := make(map[uint64]uint32)
	var rtts []time.Duration
	for _, c := range k.conns() {
		raw, err := c.SyscallConn()
		if err != nil {
			continue
		}
		raw.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			cookie, err2 := unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
			if err != nil || err2 != nil {
				return
			}
			rtts = append(rtts, time.Duration(info.Rtt)*time.Microsecond)
			retransmits += int64(info.Total_retrans - k.resent[cookie])
			resent[cookie] = info.Total_retrans
		})
	}
	k.resent = resent
	if slices.Sort(rtts); len(rtts) > 0 {
		s.RTT = rtts[len(rtts)/2]
	}
	return retransmits
}

// schedstat adds up how long the threads of this process have waited for a processor, and how often they have run.
func schedstat() (delay, runs uint64) {
	names, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		var onCPU, waited, times uint64
		if err != nil { // the thread has ended
			continue
		}
		if _, err := fmt.Sscan(string(text), &onCPU, &waited, &times); err == nil {
			delay, runs = delay+waited, runs+times
		}
	}
	return delay, runs
}

// close stops bpftrace and adds its intervals to the samples in which they lie.
func (k *kernel) close(samples []Sample) {
	if k.tracer != nil {
		k.tracer.stop(samples)
	}
}

// script counts retransmissions of the machine, and measures how long the threads of one program wait for a processor:
// from when they are woken, or are taken off a processor while they could go on, until they run. Five times an interval it
// prints both, and the time of CLOCK_MONOTONIC, which is the clock of Go's timers.
const script = `
tracepoint:tcp:tcp_retransmit_skb { @retransmits = count(); }
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new / args->comm == "COMM" / { @since[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
	if (args->prev_comm == "COMM" && args->prev_state == 0) { @since[args->prev_pid] = nsecs; }
	if (@since[args->next_pid]) { @wait = hist(nsecs - @since[args->next_pid]); delete(@since[args->next_pid]); }
}
interval:ms:INTERVAL { printf("%llu", nsecs); print(@retransmits); print(@wait); clear(@retransmits); clear(@wait); }
END { clear(@since); }
`

// A tracer is a bpftrace that runs.
type tracer struct {
	cmd    *exec.Cmd
	errors bytes.Buffer
	read   sync.WaitGroup
	began  int64    // nanoseconds of CLOCK_MONOTONIC
	lines  []string // of the goroutine that reads them, until it has ended
}

const attachWithin = 20 * time.Second

// startTracer starts bpftrace and waits until its probes are attached.
func startTracer(interval time.Duration) (*tracer, error) {
	path, err := exec.LookPath("bpftrace")
	if err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("only root may attach")
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		return nil, err
	}
	code := strings.NewReplacer("COMM", strings.TrimSpace(string(comm)), "INTERVAL", fmt.Sprint(max(1, interval.Milliseconds()/5))).Replace(script)
	t := &tracer{cmd: exec.Command(path, "-f", "json", "-e", code)}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := os.Stat("/sys/kernel/tracing/events/tcp"); err != nil {
		// tracefs is not mounted. It is mounted for bpftrace alone, in a mount namespace that ends with it.
		t.cmd = exec.Command("sh", "-c", `mount -t tracefs nodev /sys/kernel/tracing && exec "$@"`, "sh", path, "-f", "json", "-e", code)
		attr.Unshareflags = syscall.CLONE_NEWNS
	}
	t.cmd.SysProcAttr = attr
	t.cmd.Stderr = &t.errors
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	attached := make(chan bool, 1)
	t.read.Go(func() { t.readLines(out, attached) })
	select {
	case ok := <-attached:
		if ok {
			return t, nil
		}
	case <-time.After(attachWithin):
	}
	t.cmd.Process.Kill()
	t.read.Wait()
	t.cmd.Wait()
	return nil, fmt.Errorf("bpftrace cannot attach: %s", strings.TrimSpace(t.errors.String()))
}

// readLines keeps what bpftrace prints, and tells attached once whether the probes are attached.
func (t *tracer) readLines(out io.Reader, attached chan<- bool) {
	told := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		t.lines = append(t.lines, lines.Text())
		if !told && strings.Contains(lines.Text(), `"printf"`) { // the script's last probe is attached
			attached <- true
			told = true
		}
	}
	if !told {
		attached <- false
	}
}

func (t *tracer) begin() {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	t.began = now.Nano()
}

// stop ends bpftrace and adds what it printed to the samples.
func (t *tracer) stop(samples []Sample) {
	t.cmd.Process.Signal(syscall.SIGINT)
	kill := time.AfterFunc(5*time.Second, func() { t.cmd.Process.Kill() })
	defer kill.Stop()
	t.read.Wait()
	t.cmd.Wait()
	addTraced(samples, t.began, t.lines)
}

// addTraced adds bpftrace's intervals, which each begin with their time, to the samples in which they end.
func addTraced(samples []Sample, began int64, lines []string) {
	type bucket struct{ Min, Max, Count int64 }
	waits := make([]map[bucket]int64, len(samples)) // how often each bucket was counted; the key has no Count
	at := -1
	for _, line := range lines {
		var said struct {
			Type string
			Data json.RawMessage
		}
		if json.Unmarshal([]byte(line), &said) != nil {
			continue
		}
		switch said.Type {
		case "printf":
			var text string
			var now int64
			json.Unmarshal(said.Data, &text)
			at = -1
			if _, err := fmt.Sscan(text, &now); err == nil {
				since := time.Duration(now - began)
				at = slices.IndexFunc(samples, func(s Sample) bool { return since > s.At-s.Length && since <= s.At })
			}
		case "map":
			var counts map[string]int64
			if json.Unmarshal(said.Data, &counts) == nil && at >= 0 {
				samples[at].Kernel.Retransmits += counts["@retransmits"]
			}
		case "hist":
			var hists map[string][]bucket
			if json.Unmarshal(said.Data, &hists) != nil || at < 0 {
				continue
			}
			if waits[at] == nil {
				waits[at] = make(map[bucket]int64)
			}
			for _, b := range hists["@wait"] {
				waits[at][bucket{Min: b.Min, Max: b.Max}] += b.Count
			}
		}
	}
	for i, counts := range waits {
		sum, seen := int64(0), int64(0)
		for _, n := range counts {
			sum += n
		}
		for _, b := range slices.SortedFunc(maps.Keys(counts), func(a, b bucket) int { return int(a.Min - b.Min) }) {
			if seen += counts[b]; seen*100 >= sum*99 {
				samples[i].Kernel.RunQueue = time.Duration(b.Max)
				break
			}
		}
	}
}
