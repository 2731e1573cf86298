// Package ops reports the state of a server, and executes commands of its operator. It serves the
// metrics and /api/streams, which includes the reports of the other nodes of the cluster. It also
// serves the operator's requests about single streams and viewers.
//
// An [Observer] only reads the state of the server. An [Operator] ends streams and disconnects
// viewers.
package ops
