package server

import (
	"strconv"

	"github.com/millrace-io/millrace/internal/blob"
)

var (
	descBlobs        = desc("blobs_requests_total", "Requests for blobs that were answered, by the first digit of the status.", "status")
	descBlobsIn      = desc("blobs_bytes_in_total", "Bytes of blobs that were received.")
	descBlobsOut     = desc("blobs_bytes_total", "Bytes of blobs that were sent: by sendfile or splice, which is not through the server's memory, or copied.", "path")
	descBlobsDown    = desc("blobs_downloads", "Requests for blobs that are being answered.")
	descBlobsUp      = desc("blobs_uploads", "Requests that write blobs and are being answered.")
	descBlobsRefused = desc("blobs_refused_total", "Requests for blobs that were refused because there were too many at a time.", "what")
	descBlobsStalled = desc("blobs_stalled_total", "Downloads of blobs that were cut because the client took nothing for the stall timeout.")

	descRedisConns   = desc("blobs_redis_connections", "Connections that carry blobs to and from Redis.", "state")
	descRedisWaiting = desc("blobs_redis_waiting", "Calls that wait for one of these, because there are as many as there may be.")
	descRedisFailed  = desc("blobs_redis_dials_failed_total", "Such connections that could not be made.")
	descRedisDropped = desc("blobs_redis_dropped_total", "Such connections that were lost, or given up because of how a call ended.")
	descRedisRetries = desc("blobs_redis_retries_total", "Times that a call on such a connection was to be tried again, or sent on to another server.")
)

// collect tells about blobs.
func (v *vault) collect(gauge gaugeFunc, counter counterFunc) {
	for class := 1; class < statusClasses; class++ {
		counter(descBlobs, v.answered[class].Load(), strconv.Itoa(class)+"xx")
	}
	sent := v.store.Sent()
	counter(descBlobsOut, sent.Sendfile, "sendfile")
	counter(descBlobsOut, sent.Splice, "splice")
	counter(descBlobsOut, sent.Copied, "copied")
	counter(descBlobsIn, v.received.Load())
	gauge(descBlobsDown, float64(v.downloads.count()))
	gauge(descBlobsUp, float64(v.uploads.count()))
	counter(descBlobsRefused, v.downloads.refused.Load(), "download")
	counter(descBlobsRefused, v.uploads.refused.Load(), "upload")
	counter(descBlobsStalled, v.stalled.Load())
	if r, ok := v.store.(*blob.Redis); ok {
		collectRedis(r, gauge, counter)
	}
}

// collectRedis tells about the connections of a store in Redis.
func collectRedis(r *blob.Redis, gauge gaugeFunc, counter counterFunc) {
	stats := r.Stats()
	gauge(descRedisConns, float64(stats.InUse), "in_use")
	gauge(descRedisConns, float64(stats.Idle), "idle")
	gauge(descRedisWaiting, float64(stats.Waiting))
	counter(descRedisFailed, stats.DialsFailed)
	counter(descRedisDropped, stats.Dropped)
	counter(descRedisRetries, stats.Retries)
}
