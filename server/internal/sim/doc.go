// Package sim runs a cluster of real servers in one process, on a simulated network and with a
// simulated Redis, and breaks it. It is for tests.
//
// A history is one run. It begins with a seed, which decides every fault, every delay and every
// step of the publishers and viewers. All goroutines of a history are in one bubble of
// testing/synctest, so that a minute takes about half a second. The tests play each history in a
// separate process.
//
//   - history.go plays one history: the clients, the two phases of faults, and the end. fault.go
//     has the kinds of faults.
//   - publisher.go, viewer.go and player.go are the clients, over HTTP, RTMP (rtmp.go) and HLS.
//   - check.go checks the frames of viewers and the owners in Redis, throughout the history, and
//     sessions.go the publishers. Each frame says which publisher has sent it (media.go).
//   - node.go runs a server, which can be killed, suspended and upgraded.
//   - redis.go is the simulated Redis. It runs no Lua: scripts.go has the scripts in Go, and a test
//     compares them with a real Redis.
//   - network.go and conn.go are the network.
//
// The sockets are not TCP sockets, so the servers write to each viewer from a separate goroutine,
// as they do over TLS. A suspended node neither sends nor receives, but its timers continue.
package sim
