package server

import (
	"net/http"
	"strconv"

	"github.com/millrace-io/millrace"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics tells Prometheus what the parts of the server have counted.
type metrics struct {
	server   *Server
	registry *prometheus.Registry
}

func newMetrics(s *Server) *metrics {
	m := &metrics{server: s, registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		m,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// The exported metrics. Streams' names are not among the labels: publishers choose them, and a time series for each would
// never end. /api/streams tells about single streams.
var (
	descBuild     = desc("build_info", "Always 1; the label says which version runs.", "version")
	descStreams   = desc("streams", "Streams that are being published.")
	descPublished = desc("streams_total", "Streams that were published, those that still are included.")
	descViewers   = desc("viewers", "Viewers, by the way in which their bytes reach the connection.", "path")
	descCame      = desc("viewers_total", "Viewers that ever came, by the same.", "path")
	descBehind    = desc("viewers_behind", "Viewers that were further behind than their allowance and have not caught up.")
	descBlocked   = desc("viewers_blocked", "Viewers whose connection takes no more at present, or that have only begun.")
	descSeen      = desc("viewers_behind_total", "Viewers found further behind than their allowance, by what they exceeded.", "reason")
	descDropped   = desc("viewers_dropped_total", "Viewers that the server disconnected, by reason.", "reason")
	descLag       = desc("viewer_lag_seconds_max", "How far behind the last of all viewers is; 0 when all keep up.")
	descLost      = desc("frames_lost_total", "Frames that viewers were moved past because they were behind, by reason.", "reason")
	descBytesIn   = desc("bytes_in_total", "Bytes of streams that publishers sent.")
	descFramesIn  = desc("frames_in_total", "Frames (FLV tags, or pieces of an unknown form) that publishers sent.")
	descGroupsCut = desc("groups_cut_total", "Groups of pictures longer than what is kept, so that who came late had to wait for the next key frame.")
	descBytesOut  = desc("bytes_out_total", "Bytes written to viewers.", "path")
	descWritev    = desc("writev_calls_total", "System calls that wrote to viewers whose connection was taken over.")
	descFiles     = desc("files_requests_total", "Requests for files that were answered, by the first digit of the status.", "status")
	descFileBytes = desc("files_bytes_total", "Bytes of files that were sent: by sendfile, or copied through the server's memory.", "path")
	descDownloads = desc("files_downloads", "Requests for files that are being answered.")
	descRefused   = desc("files_refused_total", "Requests for files that were refused because there were too many at a time.")
	descStalled   = desc("files_stalled_total", "Downloads that were cut because the client took nothing for the stall timeout.")
	descKept      = desc("kept_bytes", "Bytes of streams that are kept for viewers.")
	descPoolInUse = desc("pool_in_use_bytes", "Memory that the pool has lent.")
	descPoolIdle  = desc("pool_idle_bytes", "Memory that the pool keeps for the next loan.")
	descPoolHigh  = desc("pool_high_water_bytes", "The most memory that the pool had lent: the sum of each size class' own peak, which need not have been at one time.")
	descPoolTaken = desc("pool_taken_total", "Blocks lent.")
	descPoolReuse = desc("pool_reused_total", "Of the blocks lent, those that had been lent before.")
	descPoolOver  = desc("pool_oversize_total", "Of the blocks lent, those too large to be kept.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("millrace_"+name, help, labels, nil)
}

// Describe sends nothing, which tells the registry that Collect decides.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(descBuild, 1, m.server.cfg.Version)
	m.collectRelay(gauge, counter)
	m.collectPool(gauge, counter)
	if f := m.server.files; f != nil {
		f.collect(gauge, counter)
	}
	if b := m.server.blobs; b != nil {
		b.collect(gauge, counter)
	}
}

type (
	gaugeFunc   func(d *prometheus.Desc, v float64, labels ...string)
	counterFunc func(d *prometheus.Desc, v int64, labels ...string)
)

func (m *metrics) collectRelay(gauge gaugeFunc, counter counterFunc) {
	st := m.server.relay.Stats()
	gauge(descStreams, float64(st.Streams))
	counter(descPublished, st.Published)
	counter(descWritev, st.WriteCalls)
	counter(descBytesIn, st.BytesIn)
	counter(descFramesIn, st.FramesIn)
	counter(descGroupsCut, st.GroupsCut)
	gauge(descKept, float64(st.KeptBytes))
	gauge(descBehind, float64(st.Behind))
	gauge(descBlocked, float64(st.Blocked))
	gauge(descLag, st.LagMax.Seconds())
	for path, p := range st.Paths {
		gauge(descViewers, float64(p.Viewers), path)
		counter(descCame, p.Came, path)
		counter(descBytesOut, p.BytesOut, path)
	}
	for desc, byReason := range map[*prometheus.Desc]map[string]int64{
		descDropped: st.Dropped, descSeen: st.FoundBehind, descLost: st.FramesLost,
	} {
		for reason, n := range byReason {
			counter(desc, n, reason)
		}
	}
}

func (m *metrics) collectPool(gauge gaugeFunc, counter counterFunc) {
	p := millrace.DefaultPool().Stats()
	gauge(descPoolInUse, float64(p.InUse))
	gauge(descPoolIdle, float64(p.Idle))
	gauge(descPoolHigh, float64(p.HighWater))
	counter(descPoolTaken, int64(p.Taken))
	counter(descPoolReuse, int64(p.Reused))
	counter(descPoolOver, int64(p.Oversize))
}

// collect tells about files.
func (f *fileService) collect(gauge gaugeFunc, counter counterFunc) {
	for class := 1; class < statusClasses; class++ {
		counter(descFiles, f.answered[class].Load(), strconv.Itoa(class)+"xx")
	}
	sent := f.handler.Sent()
	counter(descFileBytes, sent.Sendfile, "sendfile")
	counter(descFileBytes, sent.Copied, "copied")
	gauge(descDownloads, float64(f.count()))
	counter(descRefused, f.downloads.refused.Load())
	counter(descStalled, f.stalled.Load())
}
