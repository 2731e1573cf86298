package observe

import (
	"errors"
	"fmt"
	"strings"
)

// A system is where the kernel layer looks for its files. Tests have others.
type system struct {
	proc    string
	tracefs []string // the first that is there is taken
}

var thisSystem = system{
	proc:    "/proc",
	tracefs: []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"},
}

// A meter reads the figures of a KernelSample that were enabled, and leaves the others alone.
type meter interface {
	read(*KernelSample)
	notes() []string
	close() error
}

// A way is one of the ways to a figure.
type way struct {
	source Source
	scope  string
	enable func() error // has a meter read the figure; once at most
}

// A kernel is the kernel layer, made of meters.
type kernel struct {
	meters []meter
	origin KernelReport
}

func (k *kernel) read(s *KernelSample) {
	for _, m := range k.meters {
		m.read(s)
	}
}

func (k *kernel) report() KernelReport { return k.origin }

func (k *kernel) notes() (all []string) {
	for _, m := range k.meters {
		all = append(all, m.notes()...)
	}
	return all
}

func (k *kernel) close() error {
	var errs []error
	for _, m := range k.meters {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

var errNotAsked = errors.New("not asked for")

// choose enables the first way that works, and says why the ways before it do not.
func choose(from KernelSource, ways ...way) Metric {
	if from == KernelNone {
		return Metric{Source: SourceNone, Why: errNotAsked.Error()}
	}
	var why []string
	for _, w := range ways {
		err := errNotAsked
		switch {
		case from == KernelProc && w.source == SourceTracepoint:
		case from == KernelTracepoints && w.source != SourceTracepoint:
		default:
			err = w.enable()
		}
		if err == nil {
			return Metric{Source: w.source, Scope: w.scope, Why: strings.Join(why, "; ")}
		}
		why = append(why, fmt.Sprintf("%s: %v", w.source, err))
	}
	return Metric{Source: SourceNone, Why: strings.Join(why, "; ")}
}

// missing returns an error if a figure has no tracepoint, for KernelTracepoints.
func (r KernelReport) missing() error {
	for _, f := range []struct {
		name string
		Metric
	}{
		{"retransmits", r.Retransmits}, {"RTT", r.RTT}, {"run queue", r.RunQueue}, {"page faults", r.PageFaults},
	} {
		if f.Source != SourceTracepoint {
			return fmt.Errorf("no tracepoint for %s: %s", f.name, f.Why)
		}
	}
	return nil
}
