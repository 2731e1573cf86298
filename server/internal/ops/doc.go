// Package ops tells what a server does, and does what its operator decides: the metrics, /api/streams with what the
// other nodes of a cluster say, and the operator's requests about single streams and viewers.
//
// An [Observer] reads the parts of a server and changes none of them. An [Operator] ends streams and viewers.
package ops
