package measure

import (
	"context"
	"slices"
)

// Order returns the order of the contenders' turns in a round, numbered from 0. No contender always
// follows the same neighbour, and pays for that neighbour's garbage or gains from its warm caches:
// in as many rounds as there are contenders, or twice as many if that is odd, each has followed
// each other equally often, and each has been first equally often.
//
// The order is a row of a balanced square: E. J. Williams, Experimental designs balanced for the
// estimation of residual effects of treatments, Australian Journal of Scientific Research A 2
// (1949).
func Order(contenders, round int) []int {
	order := make([]int, contenders)
	for k := range order {
		// 0, 1, -1, 2, -2 and so on: each difference to the one before occurs once.
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

// Rounds calls turn once a round for each contender, in the rounds' orders, until ctx ends or a
// turn fails.
func Rounds(ctx context.Context, contenders, rounds int,
	turn func(round, contender int) error) error {
	for round := range rounds {
		for _, i := range Order(contenders, round) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := turn(round, i); err != nil {
				return err
			}
		}
	}
	return nil
}
