// Package server is the HTTP and RTMP server of `millrace serve`. It opens the listeners, routes
// the requests and applies the limits. Other packages do the rest:
//
//   - access decides which clients may publish, watch and read.
//   - answer limits the memory of requests.
//   - web and rtmp serve the live streams of package live.
//   - store serves the files at /files/ and the blobs at /blobs/.
//   - ops serves the metrics, the API and the web page.
//
// A request takes one of these paths:
//
//	main ─▶ proxy.Listener ─▶ withClientAddr ─▶ withAddressLimits ─▶ Gate.Protect ─┬▶ /live/NAME   web.Service
//	                                                                         ├▶ /files/NAME  store.Files
//	                                                                         ├▶ /blobs/KEY   Gate ─▶ store.Blobs
//	                                                                         └▶ /  /api/streams  /metrics  /healthz
//
//	RTMP  ─▶ proxy.Listener ─▶ rtmp.Service ─▶ Gate ─▶ live
//	admin ─▶ Gate.Protect ─▶ pages, profiles, /metrics, /api/...; decisions also pass Gate.ProtectDecision
//
// A [Server] creates the services and connects them: web.Service, store.Files, store.Blobs,
// adminService, ops.Observer, ops.Operator, rtmp.Service and demoService. A service has no
// reference to the Server. It gets only what it needs: the gate (permissions), the clients
// (addresses), the budget (memory of requests and transfers) and the refusals (counters and log).
//
// An access.Gate holds the tokens and calls the hook. A client's address is the remote address of
// its connection, or the address that a trusted proxy reports (proxies.go).
//
// Another node of the cluster needs no token of the gate. It proves with each request that it knows
// the cluster's token, and bypasses withAddressLimits and Protect (cluster.go).
package server
