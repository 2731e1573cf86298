// Package access decides who may publish, watch and read, and who may end streams, disconnect
// viewers and stop the server. It counts and logs refusals.
//
// A [Policy] contains the rules and tokens of a listener. A [Gate] applies the current Policy, and
// then asks the hook, which is a program that the operator provides. [Origins] lists the other web
// sites that may play streams. [Refusals] sends errors to refused clients, and counts and logs the
// refusals.
//
// If a client is refused, the error is always a [refuse.Refusal].
//
// The package finds stream names in URL paths with package streamname. It knows no other URL paths
// of the server.
package access
