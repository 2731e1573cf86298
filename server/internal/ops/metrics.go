package ops

import (
	"net/http"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/push"
	"github.com/millrace-io/millrace/server/internal/live/record"
	"github.com/millrace-io/millrace/server/internal/store"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsBytes is the memory in bytes that a response to /metrics needs in addition to the memory
// that is counted for every request.
const metricsBytes = 128 << 10

// Metrics returns the handler of /metrics.
func (o *Observer) Metrics() http.HandlerFunc {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector{o},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return func(w http.ResponseWriter, r *http.Request) {
		if o.Budget.Lend(w, r, metricsBytes) {
			handler.ServeHTTP(w, r)
		}
	}
}

// A collector exports the server's counters to Prometheus. It does not use stream names as labels:
// publishers choose the names, so the number of time series would be unlimited. The values of each
// stream are available at /api/streams.
type collector struct{ of *Observer }

// Describe sends nothing, which makes this an unchecked collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the server's current counters to Prometheus.
func (m collector) Collect(ch chan<- prometheus.Metric) {
	c, o := scrape{ch}, m.of
	c.gaugeVec("build_info", "Always 1; the label says which version runs.", "version",
		map[string]int64{o.Version: 1})
	streams := o.Hub.Stats()
	c.addStreams(streams)
	if o.Cluster != nil {
		c.addCluster(o.Cluster, streams)
	}
	o.collectMemory(c, streams)
	c.refusals(o.Refusals)
	c.connections(o.Connections, o.Addresses.Stats())
	c.pool(millrace.DefaultPool().Stats())
	if o.Files != nil {
		c.files(o.Files.Stats())
	}
	if o.Blobs != nil {
		c.blobs(o.Blobs.Stats())
	}
	if o.Records != nil {
		c.records(o.Records.Stats())
	}
	c.pushes(o.Push.Stats())
	c.addHook(o.Hook)
}

func (c scrape) pushes(st push.Stats) {
	var connected int64
	for _, p := range st.Pushes {
		if p.Connected {
			connected++
		}
	}
	c.gauge("pushes", "Pushes, one for each stream and server to which it is sent on.",
		int64(len(st.Pushes)))
	c.gauge("pushes_connected", "Pushes that are connected.", connected)
	c.counter("push_failures_total",
		"Connections to other servers that failed, or ended before their stream.", st.Failures)
	c.counter("push_bytes_total", "Bytes sent to other servers; also counted in bytes_out_total.",
		st.Bytes)
}

func (c scrape) addStreams(st live.Stats) {
	viewers, came, sent := make(map[string]int64), make(map[string]int64), make(map[string]int64)
	for path, p := range st.Paths {
		viewers[path], came[path], sent[path] = p.Viewers, p.Came, p.BytesOut
	}
	c.gauge("streams", "Streams, including those that wait for their publisher.", int64(st.Streams))
	c.gauge("streams_waiting",
		"Streams that wait for their publisher to return.", int64(st.Waiting))
	c.counter("streams_total", "Streams since the start, including current ones.", st.Published)
	c.counter("publisher_returns_total", "Publishers that continued a waiting stream.", st.Returns)
	c.counter("publisher_takeovers_total", "Publishers that took over a name from another publisher.", st.Takeovers)
	c.send(prometheus.CounterValue, "publisher_wait_seconds_total",
		"Total time without a publisher, over all streams.", st.PublisherWait.Seconds())
	c.send(prometheus.GaugeValue, "publisher_silent_seconds_max",
		"Time since the last frame of the most silent publisher.", st.SilentMax.Seconds())
	c.gaugeVec("viewers", "Viewers, by the way in which bytes are written to them.", "path", viewers)
	c.counterVec("viewers_total", "Viewers since the start, by the same.", "path", came)
	c.gauge("viewers_behind", "Viewers that exceeded a lag limit and have not caught up.",
		int64(st.Behind))
	c.gauge("viewers_blocked", "Viewers with a full connection, or that have just started.",
		int64(st.Blocked))
	c.counterVec("viewers_behind_total", "Viewers that exceeded a lag limit, by limit.",
		"reason", st.FoundBehind)
	c.counterVec("viewers_dropped_total", "Viewers that the server disconnected, by reason.",
		"reason", st.Dropped)
	c.send(prometheus.GaugeValue, "viewer_lag_seconds_max",
		"Lag of the slowest viewer; 0 if all keep up.", st.LagMax.Seconds())
	c.send(prometheus.GaugeValue, "viewer_behind_live_seconds_max",
		"The largest distance of a player from live, if it plays at normal speed: viewers"+
			" start at the last keyframe.", st.BehindLive.Seconds())
	c.counterVec("frames_lost_total",
		"Frames that viewers skipped because they were behind, by reason.",
		"reason", st.FramesLost)
	c.counter("bytes_in_total", "Bytes of streams that publishers sent.", st.BytesIn)
	c.counter("frames_in_total", "Frames (FLV tags, or pieces of an unknown form) that publishers sent.", st.FramesIn)
	c.counter("groups_cut_total",
		"GOPs longer than the kept frames: new viewers had to wait for the next keyframe.",
		st.GroupsCut)
	c.counter("video_left_out_total",
		"NAL units of length 0, and video frames that are empty or have start codes "+
			"(Annex B) or wrong lengths, that MP4, HLS and recordings left out.", st.LeftOut)
	c.counter("codec_change_left_out_total", "Frames that MP4, HLS and recordings left out because "+
		"they came between a change of the codecs and the next keyframe.", st.Unstarted)
	c.counterVec("bytes_out_total", "Bytes written to viewers.", "path", sent)
	c.counter("writev_calls_total", "Calls of writev to plain TCP viewers.", st.WriteCalls)
	c.gauge("further_tracks",
		"Tracks in addition to the first video and audio track of each stream.",
		int64(st.FurtherTracks))
	c.gauge("hls_streams",
		"Streams with HLS, which is made only while players request it.", int64(st.HLS.Windows))
	c.gauge("hls_viewers",
		"HLS players, estimated from their requests; players behind a cache are not "+
			"counted.",
		int64(st.HLS.Viewers))
	c.gauge("hls_waiting", "Requests that wait for the next HLS part.", int64(st.HLS.Waiting))
	c.gauge("hls_window_bytes", "Bytes of HLS segments in memory.", st.HLS.Bytes)
	c.counter("hls_playlists_made_total",
		"Media playlists made; one serves all players that wait for it.", st.HLS.Rendered)
	c.counter("hls_playlists_sent_total", "Media playlists sent.", st.HLS.Playlists)
	c.counter("hls_objects_sent_total",
		"Segments, parts and initialization segments sent.", st.HLS.Objects)
	c.counter("hls_bytes_out_total", "Bytes of these.", st.HLS.BytesOut)
	c.gauge("kept_bytes", "Bytes of streams that are kept for viewers.", st.KeptBytes)
}

// memoryOwners returns how many bytes of memory each part of the server uses, such as streams,
// downloads and blobs. The key "idle" is for unused bytes. The argument heap is the memory in use
// outside the pool of memory blocks.
func (o *Observer) memoryOwners(streams live.Stats, heap int64) map[string]int64 {
	pool, downloads, blobs := millrace.DefaultPool().Stats(), o.Files.BlockBytes(),
		o.Blobs.BlockBytes()
	clients := o.Acceptor.ClientBytes()
	return map[string]int64{
		"streams": streams.Memory, "clients": clients, "downloads": downloads, "blobs": blobs,
		"blocks": max(0, pool.InUse-streams.Memory-clients-downloads-blobs),
		"idle":   pool.Idle, "heap": heap,
	}
}

func (o *Observer) collectMemory(c scrape, streams live.Stats) {
	st := o.Budget.Memory.Stats()
	c.gauge("memory_budget_bytes",
		"The limit of --memory; 0: only the other limits apply.", st.Limit)
	c.gauge("memory_used_bytes",
		"Memory in use: lent blocks of the pool, and the rest of the heap as of the last "+
			"garbage collection.", st.Used)
	c.gauge("memory_high_water_bytes", "Maximum memory in use.", st.High)
	c.gauge("memory_mapped_bytes",
		"Memory mapped from the system, including idle blocks and garbage.", st.Mapped)
	c.gaugeVec("memory_owner_bytes",
		"Memory in use or idle, by owner: blocks of streams and their viewers, of RTMP "+
			"clients that do not publish, of file downloads, of blobs, other blocks "+
			"(headers), idle blocks, and the rest of the heap (connections, goroutines).",
		"owner", o.memoryOwners(streams, st.Heap))
	held := map[string]int64{"kept": streams.KeptBytes, "viewers": streams.Pending,
		"hls":         streams.HLS.Bytes,
		"hls_answers": o.Budget.HLS.Bytes(), "downloads": o.Budget.Downloads.Bytes(),
		"requests": o.Budget.Requests.Bytes() + o.Budget.Operator.Bytes()}
	if o.Cluster != nil {
		held["cluster_cache"] = o.Cluster.objects.Stats().Bytes
	}
	if o.Records != nil {
		held["recordings"] = o.Records.Stats().Queued
	}
	c.gaugeVec("memory_held_bytes",
		"Bytes held by each user; shared bytes count for each. requests is the memory of "+
			"requests with unread responses.", "by", held)
	c.counterVec("memory_freed_total", "How often memory was freed because it was short, by step.",
		"step", st.Taken)
	c.counter("memory_refused_total", "Publishers, viewers and transfers that were refused because memory was short.",
		st.Refused)
}

func (c scrape) pool(p millrace.PoolStats) {
	c.gauge("pool_in_use_bytes", "Memory that the pool has lent.", p.InUse)
	c.gauge("pool_idle_bytes", "Memory that the pool keeps for the next loan.", p.Idle)
	c.gauge("pool_high_water_bytes",
		"Maximum memory lent by the pool: the sum of the size classes' peaks, which need "+
			"not coincide.", p.HighWater)
	c.counter("pool_taken_total", "Blocks lent.", int64(p.Taken))
	c.counter("pool_reused_total", "Lent blocks that had been lent before.", int64(p.Reused))
	c.counter("pool_oversize_total",
		"Lent blocks that are too large to be kept.", int64(p.Oversize))
}

func (c scrape) files(st store.FilesStats) {
	c.counterVec("files_requests_total",
		"Answered requests for files, by the first digit of the status.",
		"status", st.Requests)
	c.counterVec("files_bytes_total",
		"Bytes of files sent with sendfile, or copied through the server's memory.",
		"path", map[string]int64{"sendfile": st.Sent.Sendfile, "copied": st.Sent.Copied})
	c.gauge("files_downloads", "Current file downloads.", int64(st.Downloads))
	c.counter("files_refused_total", "Requests for files refused because of too many downloads.",
		st.Refused)
	c.counter("files_stalled_total",
		"Downloads cut because the client accepted nothing for the stall timeout.",
		st.Stalled)
}

func (c scrape) blobs(st store.BlobsStats) {
	c.counterVec("blobs_requests_total",
		"Answered requests for blobs, by the first digit of the status.",
		"status", st.Requests)
	c.counterVec("blobs_bytes_total",
		"Bytes of blobs sent with sendfile or splice, without passing through the "+
			"server's memory, or copied.", "path",
		map[string]int64{"sendfile": st.Sendfile, "splice": st.Splice, "copied": st.Copied})
	c.counter("blobs_bytes_in_total", "Bytes of blobs received.", st.Received)
	c.gauge("blobs_downloads", "Current downloads of blobs.", int64(st.Downloads))
	c.gauge("blobs_uploads", "Current requests that write blobs.", int64(st.Uploads))
	c.counterVec("blobs_refused_total", "Requests for blobs refused because of too many transfers.",
		"what", map[string]int64{"download": st.Refused, "upload": st.RefusedUploads})
	c.counter("blobs_stalled_total",
		"Downloads of blobs cut because the client accepted nothing for the stall "+
			"timeout.", st.Stalled)
	r := st.Redis
	if r == nil {
		return
	}
	c.gaugeVec("blobs_redis_connections", "Connections that carry blobs to and from Redis.", "state",
		map[string]int64{"in_use": int64(r.InUse), "idle": int64(r.Idle)})
	c.gauge("blobs_redis_waiting", "Calls that wait for one of these connections.",
		int64(r.Waiting))
	c.counter("blobs_redis_dials_failed_total", "Connections to Redis that could not be made.",
		r.DialsFailed)
	c.counter("blobs_redis_dropped_total",
		"Connections to Redis that were lost or closed early.", r.Dropped)
	c.counter("blobs_redis_retries_total",
		"Calls to Redis that were retried, or redirected to another server.",
		r.Retries)
}

func (c scrape) refusals(r *access.Refusals) {
	for of, n := range r.Counts() {
		c.counterOf("refused_total", "Refused clients, by what they wanted and why.", n,
			"client", string(of.Client), "reason", string(of.Cause))
	}
}

func (c scrape) addHook(h *hook.Client) {
	if h == nil {
		return
	}
	st := h.Stats()
	for of, n := range st.Requests {
		c.counterOf("hook_requests_total",
			"Requests to the hook, including ends, by event and result.", n,
			"event", string(of.Event), "result", of.Result)
	}
	c.counter("hook_attempts_total", "POSTs to the hook.", st.Attempts)
	c.send(prometheus.CounterValue, "hook_seconds_total",
		"Total time of these.", st.Spent.Seconds())
	c.counter("hook_cache_hits_total",
		"Players' requests that a stored answer decided.", st.Hits)
	c.counter("hook_ends_dropped_total", "Ends that the hook did not receive.", st.Dropped)
	c.gauge("hook_waiting", "Requests that wait for the hook.", int64(st.Waiting))
	c.gauge("hook_ends_queued", "Ends that wait for the hook.", int64(st.Queued))
	c.gauge("hook_plays", "Stored answers about players.", int64(st.Plays))
}

func (c scrape) connections(n *Connections, limited address.Stats) {
	c.gauge("connections",
		"Connections of the main listener, without HTTP/1 viewers.", n.Open.Load())
	c.counter("connections_evicted_total",
		"Idle ones of these, closed because of --max-connections.", n.Evicted.Load())
	c.counter("connections_shed_total",
		"Idle ones of these, closed because memory was short.", n.Shed.Load())
	c.gauge("addresses", "Addresses with a connection and a limit.", int64(limited.Held))
}

func (c scrape) addCluster(n *Cluster, streams live.Stats) {
	st := n.node.Stats()
	reachable := int64(0)
	if st.Reachable {
		reachable = 1
	}
	c.gauge("cluster_reachable", "1 if the Redis of the cluster answers, else 0.", reachable)
	c.gauge("cluster_nodes", "Nodes that are alive, including this one.", int64(st.Nodes))
	c.gauge("cluster_owned", "Streams that this node owns.", int64(st.Owned))
	c.gauge("cluster_pulled", "Streams that this node pulls from other nodes.", int64(st.Pulled))
	c.counter("cluster_claims_total", "Ownerships that this node got.", st.Claims)
	c.counter("cluster_refused_total",
		"Ownerships that this node did not get, because another node has the publisher.",
		st.Refused)
	c.counter("cluster_lost_total", "Ownerships that another node took from this one.", st.Lost)
	c.counter("cluster_renew_failures_total", "Ownerships that were not renewed in time.",
		st.Failures)
	c.counter("cluster_lookups_total", "Lookups of a stream's owner in Redis.", st.Lookups)
	c.counter("cluster_pulled_bytes_total",
		"Bytes of streams received from other nodes.", streams.Pulled)
	c.counter("cluster_sent_bytes_total", "Bytes of streams sent to other nodes.", streams.ToNodes)

	objects := n.objects.Stats()
	c.counter("cluster_objects_fetched_total", "Requests for HLS to other nodes, and to the store.",
		objects.Fetched)
	c.counter("cluster_objects_collapsed_total", "Players' requests that shared such a request.",
		objects.Collapsed)
	c.counter("cluster_objects_cached_total", "Players' requests answered from the cache.",
		objects.Hits)
	c.counter("cluster_objects_failed_total",
		"Failed requests for HLS to other nodes, and to the store.",
		objects.Failed)
	c.counter("cluster_objects_bytes_total",
		"Bytes of HLS received from other nodes, and from the store.",
		objects.BytesIn)
	c.gauge("cluster_cache_bytes",
		"Bytes of HLS of other nodes, in the cache or being fetched.", objects.Bytes)
	if n.segments != nil {
		st := n.segments.Stats()
		c.counter("cluster_segments_saved_total",
			"Segments of HLS that were saved where they outlive this node.", st.Saved)
		c.counter("cluster_segments_saved_bytes_total", "Bytes of these.", st.Bytes)
		c.counter("cluster_segments_lost_total",
			"Segments and playlists of HLS that could not be saved.", st.Lost)
		c.counter("cluster_segments_loaded_total",
			"Segments that were read from where they were saved.", st.Loaded)
	}
}

func (c scrape) records(st record.Stats) {
	c.gauge("recordings", "Streams that are being recorded.", int64(st.Recordings))
	c.gauge("recordings_bytes", "Bytes of all recordings.", st.Bytes)
	c.gauge("recordings_queued_bytes", "Bytes that wait for the disk.", st.Queued)
	c.counter("recordings_written_bytes_total", "Bytes of recordings that were written.",
		st.Written)
	c.counter("recordings_lost_total", "Fragments that are in no recording: the disk was too slow, or failed.", st.Lost)
	c.counter("recordings_hidden_frames_total",
		"Frames whose times are before the beginning of their recording, so that players do not see them.",
		st.Hidden)
	c.counter("recordings_refused_total", "Streams that are in no recording, although they should be.", st.Refused)
	c.counter("recordings_failures_total", "Errors of the disk.", st.Failures)
	c.counter("recordings_removed_total", "Recordings that were deleted because of --record-bytes.",
		st.Removed)
}
