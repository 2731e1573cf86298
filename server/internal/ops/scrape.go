package ops

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// A scrape sends metrics to a Prometheus registry. It adds the prefix millrace_ to names.
type scrape struct{ to chan<- prometheus.Metric }

func (c scrape) gauge(name, help string, value int64) {
	c.send(prometheus.GaugeValue, name, help, float64(value))
}

func (c scrape) counter(name, help string, value int64) {
	c.send(prometheus.CounterValue, name, help, float64(value))
}

// gaugeVec sends a gauge for each entry of values. The key of the entry is the value of the label.
func (c scrape) gaugeVec(name, help, label string, values map[string]int64) {
	c.sendAll(prometheus.GaugeValue, name, help, label, values)
}

func (c scrape) counterVec(name, help, label string, values map[string]int64) {
	c.sendAll(prometheus.CounterValue, name, help, label, values)
}

// counterOf sends a counter with several labels. The argument labels contains pairs of a name and a
// value.
func (c scrape) counterOf(name, help string, value int64, labels ...string) {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	desc := prometheus.NewDesc("millrace_"+name, help, names, nil)
	c.to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), values...)
}

func (c scrape) send(kind prometheus.ValueType, name, help string, value float64) {
	c.to <- prometheus.MustNewConstMetric(prometheus.NewDesc("millrace_"+name, help, nil, nil),
		kind, value)
}

func (c scrape) sendAll(kind prometheus.ValueType, name, help, label string,
	values map[string]int64) {
	desc := prometheus.NewDesc("millrace_"+name, help, []string{label}, nil)
	for of, value := range values {
		c.to <- prometheus.MustNewConstMetric(desc, kind, float64(value), of)
	}
}
