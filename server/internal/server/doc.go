// Package server is the server of HTTP and RTMP behind `millrace serve`: listeners, routes, who may read, publish and
// decide, limits, metrics, the page, files at /files/ and blobs at /blobs/. The streams at /live/ are package relay's, the
// values package blob's, the files package chunk's.
//
//	main ─▶ proxy.Listener ─▶ nameClients ─▶ limitAddresses ─▶ protect ─┬▶ /live/NAME   auth, hook ─▶ relay
//	                                                                    ├▶ /files/NAME  Limiter ─▶ chunk.FileServer
//	                                                                    ├▶ /blobs/KEY   auth, Limiter ─▶ blob.Store
//	                                                                    └▶ /  /api/streams  /metrics  /healthz
//
//	RTMP  ─▶ proxy.Listener ─▶ rtmpService ─▶ auth, admitAddress, hook ─▶ relay
//	admin ─▶ protect ─▶ pages, profiles, /metrics, /api/...; what decides passes auth a second time
//
// A [Server] opens the parts and puts them together: liveService and hlsService, fileService, blobService, adminService,
// rtmpService, demoService. None of them knows the Server; each is given what it needs of access (who may), clients (who
// they are), budget (what requests and transfers may hold) and refusals.
//
// An auth knows the tokens, plain and signed, and says who may do what (auth.go). The hook, a program of the operator,
// is asked after it (hook.go). A client's address is that of its connection, or what a trusted proxy says that it is
// (proxies.go). All refusals are counted and logged in refusals.go.
//
// A request of another node of a cluster shows the cluster's token instead, and passes limitAddresses and protect by
// (cluster.go). HLS that is not made here comes by a cluster.RemoteHLS from its owner or from a store, and goes out as
// that of relay does.
package server
