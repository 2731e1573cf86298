package server

import "strconv"

var (
	descBlobs        = desc("blobs_requests_total", "Requests for blobs that were answered, by the first digit of the status.", "status")
	descBlobsIn      = desc("blobs_bytes_in_total", "Bytes of blobs that were received.")
	descBlobsOut     = desc("blobs_bytes_total", "Bytes of blobs that were sent: by sendfile or splice, which is not through the server's memory, or copied.", "path")
	descBlobsDown    = desc("blobs_downloads", "Requests for blobs that are being answered.")
	descBlobsUp      = desc("blobs_uploads", "Requests that write blobs and are being answered.")
	descBlobsRefused = desc("blobs_refused_total", "Requests for blobs that were refused because there were too many at a time.", "what")
	descBlobsStalled = desc("blobs_stalled_total", "Downloads of blobs that were cut because the client took nothing for the stall timeout.")
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
}
