package observe

import (
	"errors"
	"testing"
)

func TestChoose(t *testing.T) {
	denied := errors.New("denied")
	for _, test := range []struct {
		name             string
		from             KernelSource
		tracing, reading error
		want             Metric
	}{
		{"all there", KernelAuto, nil, nil, Metric{Source: SourceTracepoint, Scope: "all"}},
		{"no tracing", KernelAuto, denied, nil, Metric{SourceSNMP, "few", "tracepoint: denied"}},
		{"nothing", KernelAuto, denied, denied, Metric{Source: SourceNone, Why: "tracepoint: denied; snmp: denied"}},
		{"files asked for", KernelProc, nil, nil, Metric{SourceSNMP, "few", "tracepoint: not asked for"}},
		{"tracing asked for", KernelTracepoints, denied, nil,
			Metric{Source: SourceNone, Why: "tracepoint: denied; snmp: not asked for"}},
		{"nothing asked for", KernelNone, nil, nil, Metric{Source: SourceNone, Why: "not asked for"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			enabled := 0
			enable := func(err error) func() error {
				return func() error {
					if err == nil {
						enabled++
					}
					return err
				}
			}
			got := choose(test.from,
				way{SourceTracepoint, "all", enable(test.tracing)}, way{SourceSNMP, "few", enable(test.reading)})
			if got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
			if want := got.Source != SourceNone; (enabled == 1) != want || enabled > 1 {
				t.Errorf("%d ways are enabled", enabled)
			}
		})
	}
}
