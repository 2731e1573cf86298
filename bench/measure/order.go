package measure

import (
	"context"
	"slices"
)

// Order returns the order in which the contenders run in the given round. Rounds and contenders are
// numbered from 0.
//
// A contender may pay for the garbage of the previous contender, or gain from warm caches. The
// order therefore changes from round to round. If the number n of contenders is even, then in n
// rounds each contender runs first once, and runs once directly after every other contender. If n
// is odd, 2n rounds are needed, and each of these cases occurs twice.
//
// The order is a row of a balanced Latin square: E. J. Williams, Experimental designs balanced for
// the estimation of residual effects of treatments, Australian Journal of Scientific Research A 2
// (1949).
func Order(contenders, round int) []int {
	order := make([]int, contenders)
	for k := range order {
		// The offsets are 0, 1, -1, 2, -2 and so on, so that each difference between neighbors
		// occurs once.
		step := (k + 1) / 2
		if k%2 == 0 {
			step = -step
		}
		order[k] = (step + round%contenders + contenders) % contenders
	}
	if contenders%2 == 1 && round/contenders%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// Rounds calls f for each contender in each round, in the order that Order returns. It stops at the
// first error, or when ctx ends.
func Rounds(ctx context.Context, contenders, rounds int,
	f func(round, contender int) error) error {
	for round := range rounds {
		for _, i := range Order(contenders, round) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(round, i); err != nil {
				return err
			}
		}
	}
	return nil
}
