// Package ops reports the state of a server, and executes commands of its operator. It serves the
// metrics, /api/streams of all nodes, and the operator's requests about single streams and viewers.
//
// An [Observer] only reads the state of the server. An [Operator] ends streams and disconnects
// viewers.
//
// A third of the code describes the metrics: metrics.go.
package ops
