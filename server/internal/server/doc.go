// Package server is the HTTP and RTMP server of `millrace serve`: listeners, routes, limits and the
// page. Package access decides who may do what, and package answer limits the memory of requests.
// Package live serves the streams at /live/, package store the files at /files/ and the blobs at
// /blobs/, and package ops the metrics and the API.
//
//	main ─▶ proxy.Listener ─▶ withClientAddr ─▶ withAddressLimits ─▶ Gate.Protect ─┬▶ /live/NAME   web.Service
//	                                                                         ├▶ /files/NAME  store.Files
//	                                                                         ├▶ /blobs/KEY   Gate ─▶ store.Blobs
//	                                                                         └▶ /  /api/streams  /metrics  /healthz
//
//	RTMP  ─▶ proxy.Listener ─▶ rtmp.Service ─▶ Gate ─▶ live
//	admin ─▶ Gate.Protect ─▶ pages, profiles, /metrics, /api/...; what decides passes Gate.ProtectDecision, too
//
// A [Server] creates the services and connects them: web.Service, store.Files, store.Blobs,
// adminService, ops.Observer, ops.Operator, rtmp.Service and demoService. None of them knows the
// Server. Each gets only those of the following parts that it needs: the gate (permissions), the
// clients (addresses), the budget (memory of requests and transfers) and the refusals.
//
// An access.Gate knows the tokens and calls the hook. A client's address is that of its connection,
// or the one that a trusted proxy reports (proxies.go). access.Refusals counts and logs all
// refusals.
//
// Another node of a cluster needs no token of the gate. Its requests prove that it knows the
// cluster's token. Such a request bypasses withAddressLimits and Protect (cluster.go).
package server
