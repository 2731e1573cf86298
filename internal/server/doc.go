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
package server
