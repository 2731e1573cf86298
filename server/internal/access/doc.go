// Package access decides who may publish, watch, read and use the operator's actions. It decides by
// tokens, by the answers of the hook, and by the site of a player. It counts and logs refusals.
//
// A [Policy] knows the tokens of a listener (plain and signed), and decides what each client may
// do. A [Gate] applies the current policy, and then asks the hook, a program of the operator.
// [Origins] lists the other sites that may play streams. [Refusals] answers, counts and logs
// refusals. The error of a refusal is always a [refuse.Refusal].
//
// The package uses package streamname to find stream names in addresses, and knows no other route.
package access
