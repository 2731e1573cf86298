// Package sim runs a cluster of real servers in one process, on a simulated network and with a
// simulated Redis, and breaks it. It is for tests.
//
// A history is one run. It begins with a seed, which decides every fault, every delay and every
// step of the publishers and viewers. All goroutines of a history are in one bubble of
// testing/synctest, so that a minute takes about half a second.
//
//   - check.go checks the frames of viewers and the owners in Redis, throughout the history.
//   - history.go plays one history: the workload, the faults, the end.
//   - node.go runs a server, which can be killed, paused and upgraded.
//   - publisher.go, viewer.go and player.go are the clients, over FLV, RTMP and HLS.
//   - redis.go is the simulated Redis. It runs no Lua: scripts.go has the scripts in Go, and a test
//     compares them with the real Redis.
//   - network.go and conn.go are the network.
//
// Each of these files uses only the files below it. The sockets are not TCP sockets, so the servers
// write to each viewer from a separate goroutine, as they do over TLS. A paused node is one that
// neither sends nor receives; its timers run on.
package sim
