package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/millrace-io/millrace/bench/measure"
)

// A kernelReader reads statistics of the Linux kernel at the end of each interval. If bpftrace is
// used, the kernelReader also collects the events that bpftrace reports.
type kernelReader struct {
	source, note string
	conns        func() []syscall.Conn

	faults unix.Rusage
	resent map[uint64]uint32 // by socket cookie: retransmissions at the last reading
	delay  uint64            // ns that threads had waited for a processor at the last reading
	runs   uint64            // number of times that threads had run at the last reading

	tracer *tracer // nil if bpftrace is not used
}

func openKernel(o Options) *kernelReader {
	k := &kernelReader{conns: o.Conns, source: "TCP_INFO and schedstat"}
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

// read fills s with the statistics since the last call.
func (k *kernelReader) read(s *Kernel) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) == nil {
		s.MinorFaults, s.MajorFaults = u.Minflt-k.faults.Minflt, u.Majflt-k.faults.Majflt
		k.faults = u
	}
	retransmits := k.readConns(s)
	if k.tracer != nil {
		k.tracer.take(s)
		return
	}
	s.Retransmits = retransmits
	delay, runs := schedstat()
	if runs > k.runs && delay >= k.delay {
		s.RunQueue = time.Duration((delay - k.delay) / (runs - k.runs))
	}
	k.delay, k.runs = delay, runs
}

// readConns sets s.RTT to the median of all connections. It returns the number of segments
// retransmitted since the last reading.
func (k *kernelReader) readConns(s *Kernel) (retransmits int64) {
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

// schedstat returns the time in ns that the threads of this process have waited for a processor,
// and the number of times that they have run.
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

func (k *kernelReader) close() {
	if k.tracer != nil {
		k.tracer.child.Stop(5 * time.Second)
		k.tracer.read.Wait()
	}
}

// script counts the retransmissions of the machine, and measures how long the threads of one
// program wait for a processor. A wait begins when a thread is woken or preempted, and ends when
// the thread runs. The script prints both values five times per interval, so that a sample is at
// most a fifth of an interval late.
const script = `
tracepoint:tcp:tcp_retransmit_skb { @retransmits = count(); }
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new / args->comm == "COMM" / { @since[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
	if (args->prev_comm == "COMM" && args->prev_state == 0) { @since[args->prev_pid] = nsecs; }
	if (@since[args->next_pid]) { @wait = hist(nsecs - @since[args->next_pid]); delete(@since[args->next_pid]); }
}
interval:ms:INTERVAL { printf("attached"); print(@retransmits); print(@wait); clear(@retransmits); clear(@wait); }
END { clear(@since); }
`

// A tracer is a running bpftrace process, and the sums of the values that it has printed since the
// last call to take.
type tracer struct {
	child  *measure.Child
	errors bytes.Buffer
	read   sync.WaitGroup

	mu          sync.Mutex
	retransmits int64
	// Number of waits in each histogram bucket. The key is the bucket's upper limit in nanoseconds.
	waits map[int64]int64
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
	every := fmt.Sprint(max(1, interval.Milliseconds()/5))
	code := strings.NewReplacer("COMM", strings.TrimSpace(string(comm)), "INTERVAL",
		every).Replace(script)
	command := []string{path, "-f", "json", "-e", code}
	if _, err := os.Stat("/sys/kernel/tracing/events/tcp"); err != nil {
		// tracefs is not mounted. Mount it in a mount namespace that ends with bpftrace.
		mount := `mount -t tracefs nodev /sys/kernel/tracing && exec "$@"`
		command = append([]string{"unshare", "--mount", "sh", "-c", mount, "sh"}, command...)
	}
	t := new(tracer)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = &t.errors
	if t.child, err = measure.StartChild(cmd); err != nil {
		return nil, err
	}
	attached := make(chan bool, 1)
	t.read.Go(func() { t.readLines(attached) })
	select {
	case ok := <-attached:
		if ok {
			return t, nil
		}
	case <-time.After(attachWithin):
	}
	t.child.Kill()
	t.read.Wait()
	return nil, fmt.Errorf("bpftrace cannot attach: %s", strings.TrimSpace(t.errors.String()))
}

// readLines reads the output of bpftrace until it ends. When the probes are attached, readLines
// sends true on the channel. If bpftrace ends first, readLines sends false.
func (t *tracer) readLines(attached chan<- bool) {
	for sent := false; ; {
		line, err := t.child.Line()
		// The script prints only after its last probe is attached.
		if !sent && (err != nil || strings.Contains(line, `"printf"`)) {
			attached <- err == nil
			sent = true
		}
		if err != nil {
			return
		}
		t.add(line)
	}
}

// add adds the values in a line of bpftrace's output to the sums. It ignores lines that are not
// JSON.
func (t *tracer) add(line string) {
	var msg struct {
		Data struct {
			Retransmits int64                        `json:"@retransmits"`
			Waits       []struct{ Max, Count int64 } `json:"@wait"`
		}
	}
	if json.Unmarshal([]byte(line), &msg) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retransmits += msg.Data.Retransmits
	if t.waits == nil {
		t.waits = make(map[int64]int64)
	}
	for _, b := range msg.Data.Waits {
		t.waits[b.Max] += b.Count
	}
}

// take summarizes the events since the last call. It sets s.Retransmits, and sets s.RunQueue to the
// 99th percentile of the times that threads waited for a processor.
func (t *tracer) take(s *Kernel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Retransmits = t.retransmits
	sum, seen := int64(0), int64(0)
	for _, n := range t.waits {
		sum += n
	}
	for _, most := range slices.Sorted(maps.Keys(t.waits)) {
		if seen += t.waits[most]; seen*100 >= sum*99 {
			s.RunQueue = time.Duration(most)
			break
		}
	}
	t.retransmits, t.waits = 0, nil
}
