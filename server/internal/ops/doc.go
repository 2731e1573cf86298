// Package ops reports what a server does, and carries out its operator's decisions: the metrics,
// /api/streams with the reports of other cluster nodes, and the operator's requests about single
// streams and viewers.
//
// An [Observer] only reads the parts of a server. An [Operator] ends streams and viewers.
package ops
