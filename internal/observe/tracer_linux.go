package observe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The counters that the programs and this process share: one value of 64-bit words in one map.
const (
	wordRetransmits = iota
	wordFaults
	wordUnknown  // threads for which knownThreads had no room
	wordRTT      // bucketCount of them, from here on
	wordRunQueue = wordRTT + bucketCount
	wordCount    = wordRunQueue + bucketCount

	wordBytes = 8
)

// maxThreads bounds the map of this process's threads. A Go program has some more than GOMAXPROCS, and one for each blocking
// system call; the map takes 300 KB of the kernel's memory. A note says so if there were more.
const maxThreads = 4096

// maxFormat bounds what is read of a tracepoint's format file. Those that are read here have 2 KB.
const maxFormat = 64 << 10

// initialPIDs is the name of the PID namespace that the kernel boots with. Tracepoints and eBPF have its numbers.
const initialPIDs = "pid:[4026531836]"

// A tracer runs eBPF programs at tracepoints of the kernel. The programs count in memory that is mapped here, so a reading
// takes no system call and no allocation.
//
// A tracer that has nothing enabled holds nothing.
type tracer struct {
	system system
	ports  []uint16 // of the connections to look at; all if empty

	counters *ebpf.Map
	words    []byte    // counters, mapped: wordCount words
	threads  *ebpf.Map // of this process: thread ID to when it became ready to run, 0 while it is not
	attached []attachment

	hasRetransmits, hasRTT, hasRunQueue, hasFaults bool

	retransmits, faults uint64 // at the last reading
	rtt, runQueue       growing
	counts              [bucketCount]uint64 // scratch
}

// An attachment is a program and what holds it at its tracepoint.
type attachment struct {
	program *ebpf.Program
	link    link.Link
}

func (t *tracer) enableRetransmits() (err error) {
	t.hasRetransmits, err = t.attach("tcp", "tcp_retransmit_skb", countRetransmits)
	return err
}

func (t *tracer) enableRTT() (err error) {
	t.hasRTT, err = t.attach("tcp", "tcp_probe", countRTT)
	return err
}

func (t *tracer) enablePageFaults() (err error) {
	if err := t.ownNumbers(); err != nil {
		return err
	}
	t.hasFaults, err = t.attach("exceptions", "page_fault_user", countFaults)
	return err
}

// enableRunQueue attaches wake-ups first: a switch that finds no wake-up counts nothing.
func (t *tracer) enableRunQueue() (err error) {
	if err := t.ownNumbers(); err != nil {
		return err
	}
	if err := t.openThreads(); err != nil {
		return err
	}
	before := len(t.attached)
	if _, err := t.attach("sched", "sched_wakeup", markReady); err != nil {
		return err
	}
	if t.hasRunQueue, err = t.attach("sched", "sched_switch", countWait); err != nil {
		t.detach(before) // wake-ups alone are a cost for nothing
		return err
	}
	return nil
}

// ownNumbers returns an error if the kernel has another number for this process than os.Getpid.
func (t *tracer) ownNumbers() error {
	namespace, err := os.Readlink(filepath.Join(t.system.proc, "self/ns/pid"))
	if err == nil && namespace != initialPIDs {
		err = errors.New("this process is in a PID namespace, whose numbers tracepoints don't have")
	}
	return err
}

// open makes the shared counters. The tracepoints that need nothing else then can be tried one by one.
func (t *tracer) open() error {
	if t.counters != nil {
		return nil
	}
	counters, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "observe_count", Type: ebpf.Array, Flags: unix.BPF_F_MMAPABLE,
		KeySize: 4, ValueSize: wordCount * wordBytes, MaxEntries: 1,
	})
	if err != nil {
		return readable(err)
	}
	words, err := syscall.Mmap(counters.FD(), 0, wordCount*wordBytes, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		counters.Close() // its error would say nothing of why there is no tracing
		return fmt.Errorf("map the counters: %w", err)
	}
	t.counters, t.words = counters, words
	t.rtt, t.runQueue = newGrowing(bucketMiddle), newGrowing(bucketMiddle)
	return nil
}

// readable says what is missing where the kernel says no more than EPERM, which ebpf takes for a limit that is too low. Before
// Linux 5.11 it may be that limit; to raise it here would take ebpf's rlimit package, which makes a map in every program that
// imports it, as it starts.
func readable(err error) error {
	if errors.Is(err, os.ErrPermission) {
		return errors.New("eBPF needs root, or CAP_BPF and CAP_PERFMON (and before Linux 5.11 ulimit -l unlimited)")
	}
	return err
}

// openThreads makes the map of threads, with those that are there. Later ones are entered when they leave a CPU for the first
// time, and their first wait is not counted.
func (t *tracer) openThreads() error {
	threads, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "observe_threads", Type: ebpf.Hash, KeySize: 4, ValueSize: wordBytes, MaxEntries: maxThreads,
	})
	if err != nil {
		return readable(err)
	}
	t.threads = threads
	tasks, err := os.ReadDir(filepath.Join(t.system.proc, "self/task"))
	if err != nil {
		return err
	}
	for _, task := range tasks[:min(len(tasks), maxThreads)] {
		id, err := strconv.ParseUint(task.Name(), 10, 32)
		if err != nil {
			return err
		}
		if err := threads.Put(uint32(id), uint64(0)); err != nil {
			return err
		}
	}
	return nil
}

// attach has a program run at a tracepoint. assemble makes it for the record's format.
func (t *tracer) attach(group, name string, assemble func(*tracer, format) (asm.Instructions, error)) (bool, error) {
	record, err := t.format(group, name)
	if err != nil {
		return false, err
	}
	if err := t.open(); err != nil {
		return false, err
	}
	code, err := assemble(t, record)
	if err != nil {
		return false, err
	}
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "observe_" + name[:min(len(name), 7)], Type: ebpf.TracePoint, Instructions: code, License: "Apache-2.0",
	})
	if err != nil {
		return false, readable(err)
	}
	held, err := link.Tracepoint(group, name, program, nil)
	if err != nil {
		program.Close() // its error would say nothing of why there is no tracing
		return false, readable(err)
	}
	t.attached = append(t.attached, attachment{program, held})
	return true, nil
}

// format reads the format of a tracepoint's record.
func (t *tracer) format(group, name string) (format, error) {
	err := errors.New("no tracefs")
	for _, root := range t.system.tracefs {
		var file []byte
		file, err = readBounded(filepath.Join(root, "events", group, name, "format"), maxFormat)
		if err == nil {
			return parseFormat(file)
		}
		if !errors.Is(err, os.ErrNotExist) {
			break // it is here, and closed to this process: the other place would say less
		}
	}
	return nil, err
}

func (t *tracer) read(s *KernelSample) {
	if t.hasRetransmits {
		s.Retransmits = since(&t.retransmits, t.word(wordRetransmits))
	}
	if t.hasFaults {
		s.PageFaults = since(&t.faults, t.word(wordFaults))
	}
	if t.hasRTT {
		s.RTT = t.spread(&t.rtt, wordRTT)
	}
	if t.hasRunQueue {
		s.RunQueue = t.spread(&t.runQueue, wordRunQueue)
	}
}

func (t *tracer) word(i int) uint64 { return binary.NativeEndian.Uint64(t.words[i*wordBytes:]) }

func (t *tracer) spread(g *growing, from int) Spread {
	for i := range t.counts {
		t.counts[i] = t.word(from + i)
	}
	return g.spread(t.counts[:])
}

func (t *tracer) notes() []string {
	if t.counters == nil || t.word(wordUnknown) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("run queue: there were more threads than %d; the waits of the others are missing", maxThreads)}
}

// close detaches all programs. Once they are gone nothing else holds the maps.
func (t *tracer) close() error {
	errs := []error{t.detach(0)}
	if t.threads != nil {
		errs = append(errs, t.threads.Close())
	}
	if t.counters != nil {
		errs = append(errs, syscall.Munmap(t.words), t.counters.Close())
	}
	*t = tracer{system: t.system, ports: t.ports}
	return errors.Join(errs...)
}

// detach takes all programs but the first ones from their tracepoints. The kernel waits for those that run just then, some
// hundredths of a second each.
func (t *tracer) detach(from int) error {
	var errs []error
	for _, a := range t.attached[from:] {
		errs = append(errs, a.link.Close(), a.program.Close())
	}
	clear(t.attached[from:])
	t.attached = t.attached[:from]
	return errors.Join(errs...)
}
