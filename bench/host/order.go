//go:build linux

package host

import "slices"

// order is in which order n contenders have their turns: each round begins with another one, and after two rounds one way
// there are two the other way, so that nobody always follows the same neighbour. In four rounds two contenders are both
// first as often as second.
func order(n, round int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = (i + round) % n
	}
	if round/2%2 == 1 {
		slices.Reverse(all)
	}
	return all
}
