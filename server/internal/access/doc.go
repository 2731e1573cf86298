// Package access decides who may publish, watch, read and decide: by tokens, by the hook, and by the site of a player.
// It counts and logs refusals.
//
// A [Policy] knows the tokens of a listener, plain and signed, and says who may do what. A [Gate] has the policy in force, and
// then asks the hook, a program of the operator. [Origins] are the sites whose pages may play streams. [Refusals] answers,
// counts and logs refusals; the error is a [refuse.Refusal] in all cases.
//
// The package knows where streams are in addresses, by package streamname, and no other route.
package access
