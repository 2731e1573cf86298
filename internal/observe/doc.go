// Package observe records three layers of a load on one clock: the load itself, the Go runtime below it, and the kernel
// below that. A latency that jumps then has its cause beside it, or has none there.
//
//	load       operations and bytes a second, p50, p95, p99, errors        Options.Load, say Latencies
//	runtime    collections, pauses, heap, goroutines, scheduling latency   runtime/metrics
//	kernel     retransmissions, round trips, run queue, page faults        tracepoints, or files and system calls
//	           ──┬────────┬────────┬────────┬──▶
//	             At       At       At       At     one goroutine reads the three, one right after the other
//
// A [Recorder] reads every Interval from [Start] to [Recorder.Stop], which returns the [Timeline]. Each [Sample] is what
// happened in its interval, not since the beginning; memory and goroutines are as they stood at its end. The clock is the
// monotonic one.
//
// # The kernel layer
//
// Where the kernel lets it (root, or CAP_BPF and CAP_PERFMON; Linux 5.8 or later; tracefs mounted), a Recorder runs eBPF
// programs at tracepoints. They are assembled here for the records that this kernel has, so neither a compiler nor kernel
// headers are needed. What can't be traced is read elsewhere, figure by figure, and Timeline.Kernel says what, for whom it
// counts and why:
//
//	figure        tracepoint                           otherwise
//	Retransmits   tcp:tcp_retransmit_skb               TCP_INFO of Options.Conns, or else /proc/net/snmp
//	RTT           tcp:tcp_probe                        TCP_INFO of Options.Conns
//	RunQueue      sched:sched_wakeup, sched_switch     /proc/self/task/*/schedstat: no quantiles
//	PageFaults    exceptions:page_fault_user (x86)     rusage
//
// The programs see the whole machine. Run queue and page faults are counted for this process alone, and not if it is in
// a PID namespace, where the numbers that the kernel gives programs are not its own. TCP has no process: a segment is
// taken in by whoever is running. Give Options.Ports, or the figures are of all connections of the machine. On systems
// other than Linux there are page faults and processor time where there is rusage, and nothing else.
//
// A thread counts in the run queue from the first time it leaves a CPU after it was made. Page faults of a tracepoint
// are those in user mode; rusage also has those of system calls.
//
// # What it costs
//
// A reading allocates nothing, except for a file and a directory entry of each thread where there is no tracing, and
// some hundred bytes for each connection that is asked for TCP_INFO. A Timeline has at most [MaxSamples]; then
// neighbours are merged and the interval doubles. The programs' maps take 0.4 MB.
//
// On a virtual machine with two cores of an AMD EPYC a reading takes 5.3 µs by tracepoints and 0.11 to 0.12 ms by files, with
// few threads: less than 0.1 % of one core at [DefaultInterval]. Programs cost where they run: two threads that do nothing but
// wake each other take 6.8 to 7.1 µs there and back, and 5.4 to 5.6 µs untraced, so 0.35 µs for each wake-up or switch. Stop
// waits for the kernel to detach them, 0.1 to 0.4 s. Timeline.Cost says what the readings of a run took, Options.Load with
// them. The figures are of:
//
//	go test -run='^$' -bench='Reading|Switch' -benchtime=0.5s -count=5 ./internal/observe
package observe
