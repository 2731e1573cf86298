// Package server is the HTTP and RTMP server of `millrace serve`: listeners, routes, limits and the
// page. Package access decides who may do what, and package answer limits the memory of requests.
// Package live has the streams at /live/, package store the files at /files/ and the blobs at
// /blobs/, package ops the metrics and the API.
//
//	main ─▶ proxy.Listener ─▶ withClientAddr ─▶ withAddressLimits ─▶ Gate.Protect ─┬▶ /live/NAME   web.Service
//	                                                                         ├▶ /files/NAME  store.Files
//	                                                                         ├▶ /blobs/KEY   Gate ─▶ store.Blobs
//	                                                                         └▶ /  /api/streams  /metrics  /healthz
//
//	RTMP  ─▶ proxy.Listener ─▶ rtmp.Service ─▶ Gate ─▶ live
//	admin ─▶ Gate.Protect ─▶ pages, profiles, /metrics, /api/...; what decides passes Gate.ProtectDecision, too
//
// A [Server] opens the parts and connects them: web.Service, store.Files, store.Blobs,
// adminService, ops.Observer and ops.Operator, rtmp.Service, demoService. None of them knows the
// Server. Each gets the parts that it needs of the gate (permissions), clients (addresses), budget
// (memory of requests and transfers) and refusals.
//
// An access.Gate knows the tokens and asks the hook. A client's address is that of its connection,
// or the one that a trusted proxy reports (proxies.go). All refusals are counted and logged by
// access.Refusals.
//
// A request of another node of a cluster shows the cluster's token instead, and passes
// withAddressLimits and Protect by (cluster.go).
package server
