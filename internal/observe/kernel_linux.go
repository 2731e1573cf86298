package observe

import "errors"

// openKernel opens what o.Kernel allows, figure by figure. If it fails, nothing is left attached.
func openKernel(sys system, o Options) (kernelLayer, error) {
	t := &tracer{system: sys, ports: o.Ports}
	c := &connections{list: o.Conns}
	snmp := &snmp{path: sys.proc + "/self/net/snmp"}
	queue := &schedstat{directory: sys.proc + "/self/task"}
	u := &usage{}
	machine := "all TCP connections of this machine"
	if len(o.Ports) > 0 {
		machine = "TCP connections of this machine from or to the load's ports"
	}
	k := &kernel{origin: KernelReport{
		Retransmits: choose(o.Kernel,
			way{SourceTracepoint, machine, t.enableRetransmits},
			way{SourceTCPInfo, "the load's connections", c.enableRetransmits},
			way{SourceSNMP, "all TCP connections of this network namespace", snmp.enable}),
		RTT: choose(o.Kernel,
			way{SourceTracepoint, machine, t.enableRTT},
			way{SourceTCPInfo, "the load's connections", c.enableRTT}),
		RunQueue: choose(o.Kernel,
			way{SourceTracepoint, "threads of this process", t.enableRunQueue},
			way{SourceSchedstat, "threads of this process; no quantiles", queue.enable}),
		PageFaults: choose(o.Kernel,
			way{SourceTracepoint, "this process, in user mode", t.enablePageFaults},
			way{SourceRusage, usageScope, u.enableFaults}),
	}}
	if o.Kernel == KernelNone {
		return k, nil
	}
	k.meters = []meter{t, c, snmp, queue, u}
	if o.Kernel == KernelTracepoints {
		if err := k.origin.missing(); err != nil {
			return nil, errors.Join(err, k.close())
		}
	}
	return k, nil
}
