package server

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/chunk"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A tally is what a writer to sockets has done since the tally was flushed.
type tally struct {
	calls int64 // system calls
	bytes int64 // that the kernel took
}

// flush adds the tally to the figures of o's stream and starts it anew. Once a round is enough: one atomic addition for all
// viewers.
func (t *tally) flush(o *outlet) {
	if t.calls == 0 {
		return
	}
	m := o.stream.server.metrics
	m.writevCalls.Add(t.calls)
	m.written[pathWritev].Add(t.bytes)
	*t = tally{}
}

// metrics counts what happens. The counters are plain atomic numbers, which Collect turns into Prometheus' form when somebody
// asks: what is done for every batch should not go through a library.
type metrics struct {
	server *Server

	published   atomic.Int64 // streams
	bytesIn     atomic.Int64
	framesIn    atomic.Int64
	groupsCut   atomic.Int64
	writevCalls atomic.Int64
	written     [paths]atomic.Int64 // bytes
	watching    [paths]atomic.Int64
	came        [paths]atomic.Int64
	dropped     [endings]atomic.Int64
	seen        [endings]atomic.Int64 // viewers that were found too far behind
	frames      [reasons]atomic.Int64 // lost by viewers that were moved past them
	registry    *prometheus.Registry
}

// reasons is how many broadcast.Reason there are, with room.
const reasons = 8

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

func (m *metrics) viewerCame(p path) {
	m.came[p].Add(1)
	m.watching[p].Add(1)
}

func (m *metrics) viewerLeft(p path, why ending) {
	m.watching[p].Add(-1)
	if why.dropped() {
		m.dropped[why].Add(1)
	}
}

func (m *metrics) seenBehind(why ending) { m.seen[why].Add(1) }

func (m *metrics) lost(missed broadcast.Missed) {
	m.frames[min(int(missed.Why), reasons-1)].Add(int64(missed.Frames))
}

func (m *metrics) wrote(p path, n int64) { m.written[p].Add(n) }

func (m *metrics) bytesOut() (n int64) {
	for p := range m.written {
		n += m.written[p].Load()
	}
	return n
}

// The exported metrics. Streams' names are not among the labels: whoever publishes chooses them, and a time series for each would
// never end. /api/streams tells about single streams.
var (
	descBuild           = desc("build_info", "Always 1; the label says which version runs.", "version")
	descStreams         = desc("streams", "Streams that are being published.")
	descPublished       = desc("streams_total", "Streams that were published, those that still are included.")
	descViewers         = desc("viewers", "Viewers, by the way in which their bytes reach the connection.", "path")
	descCame            = desc("viewers_total", "Viewers that ever came, by the same.", "path")
	descBehind          = desc("viewers_behind", "Viewers that were further behind than their allowance and have not caught up.")
	descBlocked         = desc("viewers_blocked", "Viewers whose connection takes no more at present, or that have only begun.")
	descSeen            = desc("viewers_behind_total", "Viewers found further behind than their allowance, by what they exceeded.", "reason")
	descDropped         = desc("viewers_dropped_total", "Viewers that the server disconnected, by reason.", "reason")
	descLag             = desc("viewer_lag_seconds_max", "How far behind the last of all viewers is; 0 when all keep up.")
	descLost            = desc("frames_lost_total", "Frames that viewers were moved past because they were behind, by reason.", "reason")
	descBytesIn         = desc("bytes_in_total", "Bytes of streams that publishers sent.")
	descFramesIn        = desc("frames_in_total", "Frames (FLV tags, or pieces of an unknown form) that publishers sent.")
	descGroupsCut       = desc("groups_cut_total", "Groups of pictures longer than what is kept, so that who came late had to wait for the next key frame.")
	descBytesOut        = desc("bytes_out_total", "Bytes written to viewers.", "path")
	descWritev          = desc("writev_calls_total", "System calls that wrote to viewers whose connection was taken over.")
	descFiles           = desc("files_requests_total", "Requests for files that were answered, by the first digit of the status.", "status")
	descFileBytes       = desc("files_bytes_total", "Bytes of files that were sent: by sendfile or splice, which is not through the server's memory, or copied.", "path")
	descFilesOpen       = desc("files_open", "Files that are open, however many downloads send each.")
	descTunerReaders    = desc("files_tuner_cold_readers", "Downloads that the tuner lets read from a disk at a time.")
	descTunerRunning    = desc("files_tuner_running", "Downloads that are reading from a disk.")
	descTunerWaiting    = desc("files_tuner_waiting", "Downloads that wait for their turn to.")
	descTunerProcessors = desc("files_tuner_processors", "Processors that the process used in the tuner's last sample.")
	descTunerMemory     = desc("files_tuner_memory_bytes", "Memory that the Go runtime had then.")
	descTunerMoves      = desc("files_tuner_moves_total", "Times that the tuner moved the number of cold readers, by reason.", "reason")
	descTunerKept       = desc("files_tuner_kept_total", "Moves that paid, and were kept.")
	descFilesCold       = desc("files_cold_reads_total", "Downloads that had to wait for a disk.")
	descColdBytes       = desc("files_cold_bytes_total", "Bytes that came from a disk for downloads.")
	descDownloads       = desc("files_downloads", "Requests for files that are being answered.")
	descRefused         = desc("files_refused_total", "Requests for files that were refused because there were too many at a time.")
	descStalled         = desc("files_stalled_total", "Downloads that were cut because the client took nothing for the stall timeout.")
	descKept            = desc("kept_bytes", "Bytes of streams that are kept for viewers.")
	descPoolInUse       = desc("pool_in_use_bytes", "Memory that the pool has lent.")
	descPoolIdle        = desc("pool_idle_bytes", "Memory that the pool keeps for the next loan.")
	descPoolHigh        = desc("pool_high_water_bytes", "The most memory that the pool had lent: the sum of each size class' own peak, which need not have been at one time.")
	descPoolTaken       = desc("pool_taken_total", "Blocks lent.")
	descPoolReuse       = desc("pool_reused_total", "Of the blocks lent, those that had been lent before.")
	descPoolOver        = desc("pool_oversize_total", "Of the blocks lent, those too large to be kept.")
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
	counter(descPublished, m.published.Load())
	counter(descWritev, m.writevCalls.Load())
	counter(descBytesIn, m.bytesIn.Load())
	counter(descFramesIn, m.framesIn.Load())
	counter(descGroupsCut, m.groupsCut.Load())
	for p := range paths {
		gauge(descViewers, float64(m.watching[p].Load()), p.String())
		counter(descCame, m.came[p].Load(), p.String())
		counter(descBytesOut, m.written[p].Load(), p.String())
	}
	for why := range endings {
		if why.dropped() {
			counter(descDropped, m.dropped[why].Load(), why.label())
		}
		if why.dropped() && why <= evicted {
			counter(descSeen, m.seen[why].Load(), why.label())
		}
	}
	for why := broadcast.LagBytes; why <= broadcast.Refused; why++ {
		counter(descLost, m.frames[why].Load(), why.Label())
	}
	m.collectStreams(gauge)
	m.collectPool(gauge, counter)
	if f := m.server.shelf; f != nil {
		f.collect(gauge, counter)
	}
	if v := m.server.vault; v != nil {
		v.collect(gauge, counter)
	}
}

type (
	gaugeFunc   func(d *prometheus.Desc, v float64, labels ...string)
	counterFunc func(d *prometheus.Desc, v int64, labels ...string)
)

func (m *metrics) collectStreams(gauge gaugeFunc) {
	var kept int64
	var blocked, behind int
	var lag float64
	streams := m.server.registry.all()
	for _, s := range streams {
		r := s.report()
		kept += r.KeptBytes
		behind += r.Stalled
		blocked += s.blocked()
		lag = max(lag, r.LagMax)
	}
	gauge(descStreams, float64(len(streams)))
	gauge(descKept, float64(kept))
	gauge(descBehind, float64(behind))
	gauge(descBlocked, float64(blocked))
	gauge(descLag, lag)
}

func (m *metrics) collectPool(gauge gaugeFunc, counter counterFunc) {
	p := millrace.DefaultPool.Stats()
	gauge(descPoolInUse, float64(p.InUse))
	gauge(descPoolIdle, float64(p.Idle))
	gauge(descPoolHigh, float64(p.HighWater))
	counter(descPoolTaken, int64(p.Taken))
	counter(descPoolReuse, int64(p.Reused))
	counter(descPoolOver, int64(p.Oversize))
}

// collect tells about files.
func (f *shelf) collect(gauge gaugeFunc, counter counterFunc) {
	for class := 1; class < statusClasses; class++ {
		counter(descFiles, f.answered[class].Load(), strconv.Itoa(class)+"xx")
	}
	stats := f.handler.Stats()
	counter(descFileBytes, stats.Sent.Sendfile, "sendfile")
	counter(descFileBytes, stats.Sent.Splice, "splice")
	counter(descFileBytes, stats.Sent.Copied, "copied")
	gauge(descFilesOpen, float64(stats.Open))
	counter(descFilesCold, int64(stats.ColdReads))
	counter(descColdBytes, stats.ColdBytes)
	if t := f.tuner; t != nil {
		collectTuner(t, gauge, counter)
	}
	gauge(descDownloads, float64(f.count()))
	counter(descRefused, f.downloads.refused.Load())
	counter(descStalled, f.stalled.Load())
}

// collectTuner tells about the cold readers' number.
func collectTuner(t *chunk.Tuner, gauge gaugeFunc, counter counterFunc) {
	stats := t.Stats()
	gauge(descTunerReaders, float64(stats.Setting.Workers))
	gauge(descTunerRunning, float64(stats.Running))
	gauge(descTunerWaiting, float64(stats.Waiting))
	gauge(descTunerProcessors, stats.Sample.CPU.Seconds()/max(stats.Sample.Elapsed.Seconds(), 1e-9))
	gauge(descTunerMemory, float64(stats.Sample.Memory))
	for why, n := range stats.Moves {
		if reason := chunk.MoveReason(why); reason != chunk.Stay {
			counter(descTunerMoves, int64(n), reason.Label())
		}
	}
	counter(descTunerKept, int64(stats.Kept))
}
