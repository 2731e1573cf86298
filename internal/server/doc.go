// Package server is the server of HTTP and RTMP behind `millrace serve`: listeners, routes, who may read and publish,
// limits, metrics, the page, files at /files/ and blobs at /blobs/. The streams at /live/ are package relay's, the
// values package blob's, the files package chunk's.
//
//	listener ─▶ limitBodies ─▶ protect (readAuth) ─┬▶ /live/NAME   publishAuth ─▶ relay
//	                                               ├▶ /files/NAME  Limiter ─▶ chunk.FileServer
//	                                               ├▶ /blobs/KEY   publishAuth, Limiter ─▶ blob.Store
//	                                               └▶ /  /api/streams  /metrics  /healthz
//
//	RTMP listener ─▶ rtmpService ─▶ publishAuth or readAuth ─▶ relay
//
// A request of another node of a cluster shows the cluster's token instead, and passes protect by (cluster.go). HLS that
// is not made here comes by a cluster.RemoteHLS from its owner or from a store, and goes out as that of relay does.
package server
