// Package server is the server of HTTP and RTMP behind `millrace serve`: listeners, routes, limits and the page. Who may
// do what is said by package access, and what requests may hold by package answer. The streams at /live/ are package
// live's, the files at /files/ and the blobs at /blobs/ package store's, the metrics and the API package ops's.
//
//	main ─▶ proxy.Listener ─▶ nameClients ─▶ limitAddresses ─▶ Gate.Protect ─┬▶ /live/NAME   web.Service
//	                                                                         ├▶ /files/NAME  store.Files
//	                                                                         ├▶ /blobs/KEY   Gate ─▶ store.Blobs
//	                                                                         └▶ /  /api/streams  /metrics  /healthz
//
//	RTMP  ─▶ proxy.Listener ─▶ rtmp.Service ─▶ Gate ─▶ live
//	admin ─▶ Gate.Protect ─▶ pages, profiles, /metrics, /api/...; what decides passes Gate.ProtectDecision, too
//
// A [Server] opens the parts and puts them together: web.Service, store.Files, store.Blobs, adminService,
// ops.Observer and ops.Operator, rtmp.Service, demoService. None of them knows the Server; each is given what it needs of
// the gate (who may), clients (who they are), budget (what requests and transfers may hold) and refusals.
//
// An access.Gate knows the tokens and asks the hook. A client's address is that of its connection, or what a trusted
// proxy says that it is (proxies.go). All refusals are counted and logged by access.Refusals.
//
// A request of another node of a cluster shows the cluster's token instead, and passes limitAddresses and Protect by
// (cluster.go).
package server
