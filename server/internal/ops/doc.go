// Package ops reports the state of a server, and executes its operator's commands. It serves the
// metrics, /api/streams with the reports of the other cluster nodes, and the operator's requests
// about single streams and viewers.
//
// An [Observer] only reads the state of the server. An [Operator] ends streams and viewers.
package ops
