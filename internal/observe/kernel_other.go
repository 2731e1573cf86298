//go:build !linux

package observe

import "errors"

var errLinux = errors.New("needs Linux")

func openKernel(_ system, o Options) (kernelLayer, error) {
	k := &kernel{}
	traced := way{SourceTracepoint, "", func() error { return errLinux }}
	u := &usage{}
	k.origin = KernelReport{
		Retransmits: choose(o.Kernel, traced),
		RTT:         choose(o.Kernel, traced),
		RunQueue:    choose(o.Kernel, traced),
		PageFaults:  choose(o.Kernel, traced, way{SourceRusage, usageScope, u.enableFaults}),
	}
	if o.Kernel == KernelTracepoints {
		return nil, k.origin.missing()
	}
	if o.Kernel != KernelNone {
		k.meters = append(k.meters, u)
	}
	return k, nil
}
