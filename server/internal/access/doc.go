// Package access decides who may publish, watch, read and decide: by tokens, by the hook, and by the site of a player.
// It counts and logs those who may not.
//
// [Rules] know the tokens of a listener, plain and signed, and say who may do what. A [Gate] has the rules in force, and
// asks the hook, a program of the operator, after them. [Origins] are the sites whose pages may play streams. [Refusals]
// answers, counts and logs who is refused; the error is a [refuse.Refusal] in all cases.
//
// The package knows where streams are in addresses, by package streamname, and no other route.
package access
