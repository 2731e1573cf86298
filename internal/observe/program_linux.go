package observe

import (
	"fmt"
	"math"
	"os"

	"github.com/cilium/ebpf/asm"
)

// The programs at the tracepoints. They begin with the record in R1; R6 to R9 live over calls of the kernel's helpers. They
// use none of the helpers that are for programs under the GPL alone; of the clock that takes Linux 5.8.

// Slots on a program's stack: offsets from its top, R10.
const (
	slotKey   = -8
	slotValue = -16
)

// Bits of sched_switch's prev_state. They are the same in all versions of Linux that have eBPF at tracepoints.
const (
	stateSleeps = 0xff // any of them: the thread waits for something else than a CPU
	stateEnded  = 0x30 // EXIT_DEAD, EXIT_ZOMBIE
)

func countRetransmits(t *tracer, record format) (asm.Instructions, error) {
	ports, err := t.onlyPorts(record)
	if err != nil {
		return nil, err
	}
	return join(ports, t.increment(wordRetransmits), leave()), nil
}

func countFaults(t *tracer, _ format) (asm.Instructions, error) {
	return join(onlyOwn("exit"), t.increment(wordFaults), leave()), nil
}

// countRTT counts the smoothed round trip that a connection has when a segment comes in; 0 is one that has none yet.
func countRTT(t *tracer, record format) (asm.Instructions, error) {
	srtt, err := record.load(asm.R6, asm.R1, "srtt")
	if err != nil {
		return nil, err
	}
	ports, err := t.onlyPorts(record)
	if err != nil {
		return nil, err
	}
	const microsecond = 1000
	return join(
		ports,
		asm.Instructions{
			srtt,
			asm.JEq.Imm(asm.R6, 0, "exit"),
			asm.Mul.Imm(asm.R6, microsecond),
		},
		t.countBucket(wordRTT),
		leave(),
	), nil
}

// markReady writes down when a thread of this process becomes ready to run.
func markReady(t *tracer, record format) (asm.Instructions, error) {
	pid, err := record.load(asm.R1, asm.R1, "pid")
	if err != nil {
		return nil, err
	}
	return join(
		asm.Instructions{pid, asm.StoreMem(asm.R10, slotKey, asm.R1, asm.Word)},
		t.lookupThread(),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "exit"),
			asm.Mov.Reg(asm.R6, asm.R0),
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(asm.R6, 0, asm.R0, asm.DWord),
		},
		leave(),
	), nil
}

// countWait runs when a CPU goes from one thread to the next. If the next is this process's, its wait is over. If the one
// before is, it either is still ready, and waits again, or it sleeps or has ended.
func countWait(t *tracer, record format) (asm.Instructions, error) {
	next, err1 := record.load(asm.R1, asm.R9, "next_pid")
	prev, err2 := record.load(asm.R1, asm.R9, "prev_pid")
	state, err3 := record.load(asm.R7, asm.R9, "prev_state")
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return nil, err
		}
	}
	return join(
		asm.Instructions{
			asm.Mov.Reg(asm.R9, asm.R1),
			next,
			asm.StoreMem(asm.R10, slotKey, asm.R1, asm.Word),
		},
		t.lookupThread(),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "previous"),
			asm.LoadMem(asm.R6, asm.R0, 0, asm.DWord),
			asm.JEq.Imm(asm.R6, 0, "previous"), // it was on another CPU when it was woken, or it is new
			asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
			asm.FnKtimeGetNs.Call(),
			asm.JLT.Reg(asm.R0, asm.R6, "previous"), // clocks of two CPUs may differ by a little
			asm.Sub.Reg(asm.R0, asm.R6),
			asm.Mov.Reg(asm.R6, asm.R0),
		},
		t.countBucket(wordRunQueue),
		label("previous", onlyOwn("exit")),
		asm.Instructions{
			prev,
			asm.StoreMem(asm.R10, slotKey, asm.R1, asm.Word),
			state,
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.And.Imm(asm.R1, stateEnded),
			asm.JNE.Imm(asm.R1, 0, "forget"),
			asm.Mov.Imm(asm.R0, 0),
			asm.And.Imm(asm.R7, stateSleeps),
			asm.JNE.Imm(asm.R7, 0, "remember"),
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(asm.R10, slotValue, asm.R0, asm.DWord).WithSymbol("remember"),
		},
		t.updateThread(),
		asm.Instructions{asm.JEq.Imm(asm.R0, 0, "exit")},
		t.increment(wordUnknown),
		asm.Instructions{asm.Ja.Label("exit")},
		label("forget", t.deleteThread()),
		leave(),
	), nil
}

// load returns the instruction that loads a field of the record, which starts at record, into dst.
func (f format) load(dst, record asm.Register, name string) (asm.Instruction, error) {
	at, ok := f[name]
	if !ok {
		return asm.Instruction{}, fmt.Errorf("no field %s in the tracepoint's record", name)
	}
	size, ok := map[int]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word, 8: asm.DWord}[at.size]
	if !ok || at.offset > math.MaxInt16 || at.offset%at.size != 0 {
		return asm.Instruction{}, fmt.Errorf("field %s of %d bytes at %d is no number", name, at.size, at.offset)
	}
	return asm.LoadMem(dst, record, int16(at.offset), size), nil
}

// onlyOwn goes to the label otherwise unless the current thread is this process's.
func onlyOwn(otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(os.Getpid()), otherwise),
	}
}

// onlyPorts goes to exit unless the record, in R1, is of one of the ports.
func (t *tracer) onlyPorts(record format) (asm.Instructions, error) {
	if len(t.ports) == 0 {
		return nil, nil
	}
	source, err := record.load(asm.R2, asm.R1, "sport")
	if err != nil {
		return nil, err
	}
	destination, err := record.load(asm.R3, asm.R1, "dport")
	if err != nil {
		return nil, err
	}
	code := asm.Instructions{source, destination}
	for _, p := range t.ports {
		code = append(code, asm.JEq.Imm(asm.R2, int32(p), "ours"), asm.JEq.Imm(asm.R3, int32(p), "ours"))
	}
	return append(code, asm.Ja.Label("exit"), asm.Mov.Imm(asm.R2, 0).WithSymbol("ours")), nil
}

// increment adds 1 to a word of the counters.
func (t *tracer) increment(word int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R1, t.counters.FD(), uint32(word*wordBytes)),
		asm.Mov.Imm(asm.R0, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R0, asm.DWord, 0),
	}
}

// countBucket counts R6 in the histogram that starts at a word. It is bucketOf, in R7, with the power of two in R8.
func (t *tracer) countBucket(from int) asm.Instructions {
	code := asm.Instructions{
		asm.Mov.Reg(asm.R7, asm.R6),
		asm.JLT.Imm(asm.R6, 2*bucketSub, "small"),
		asm.Mov.Imm(asm.R8, -bucketBits),
		asm.Mov.Reg(asm.R2, asm.R6),
	}
	for step := int32(32); step > 0; step /= 2 { // R8 += the logarithm of R2, bit by bit
		next := fmt.Sprintf("below%d", step)
		code = append(code,
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.RSh.Imm(asm.R3, step),
			asm.JEq.Imm(asm.R3, 0, next),
			asm.Mov.Reg(asm.R2, asm.R3),
			asm.Add.Imm(asm.R8, step),
			asm.Mov.Imm(asm.R3, 0).WithSymbol(next), // a place for the label
		)
	}
	return append(code,
		asm.RSh.Reg(asm.R7, asm.R8),
		asm.LSh.Imm(asm.R8, bucketBits),
		asm.Add.Reg(asm.R7, asm.R8),
		asm.JLE.Imm(asm.R7, bucketCount-1, "small"),
		asm.Mov.Imm(asm.R7, bucketCount-1),
		asm.LSh.Imm(asm.R7, 3).WithSymbol("small"), // to bytes
		asm.LoadMapValue(asm.R1, t.counters.FD(), uint32(from*wordBytes)),
		asm.Add.Reg(asm.R1, asm.R7),
		asm.Mov.Imm(asm.R0, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R0, asm.DWord, 0),
	)
}

// lookupThread looks the thread in slotKey up: R0 points to its value, or is 0.
func (t *tracer) lookupThread() asm.Instructions {
	return append(t.threadKey(), asm.FnMapLookupElem.Call())
}

// updateThread sets the thread in slotKey to slotValue: R0 is 0 if there was room.
func (t *tracer) updateThread() asm.Instructions {
	return append(t.threadKey(),
		asm.Mov.Reg(asm.R3, asm.R10),
		asm.Add.Imm(asm.R3, slotValue),
		asm.Mov.Imm(asm.R4, 0), // BPF_ANY
		asm.FnMapUpdateElem.Call(),
	)
}

func (t *tracer) deleteThread() asm.Instructions {
	return append(t.threadKey(), asm.FnMapDeleteElem.Call())
}

func (t *tracer) threadKey() asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, t.threads.FD()),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, slotKey),
	}
}

// leave ends a program, at the label exit.
func leave() asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return()}
}

func label(name string, code asm.Instructions) asm.Instructions {
	code[0] = code[0].WithSymbol(name)
	return code
}

func join(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
