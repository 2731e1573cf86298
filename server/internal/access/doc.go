// Package access decides who may publish, watch and read, and who may use the operator's actions.
// It considers tokens, the answers of the hook, and the site of a player. It counts and logs
// refusals.
//
// A [Policy] has the plain and signed tokens of a listener, and decides what each client may do. A
// [Gate] applies the current policy, and then asks the hook, which is a program of the operator.
// [Origins] lists the other sites that may play streams. [Refusals] answers, counts and logs
// refusals. The error of a refusal is always a [refuse.Refusal].
//
// The package finds stream names in URL paths with package streamname. It does not depend on other
// routes.
package access
