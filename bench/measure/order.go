package measure

import (
	"context"
	"slices"
)

// Order returns the order of the contenders' turns in a round. Rounds and contenders are numbered
// from 0. The order changes from round to round, because a contender that always follows the same
// neighbour always pays for that neighbour's garbage or gains from its warm caches. After as many
// rounds as there are contenders, each contender has followed each other contender equally often,
// and each has been first equally often. If the number of contenders is odd, that takes twice as
// many rounds.
//
// The order is a row of a balanced Latin square: E. J. Williams, Experimental designs balanced for
// the estimation of residual effects of treatments, Australian Journal of Scientific Research A 2
// (1949).
func Order(contenders, round int) []int {
	order := make([]int, contenders)
	for k := range order {
		// The offsets are 0, 1, -1, 2, -2 and so on, so that each difference between neighbours
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

// Rounds calls turn once for each contender in each round, in the sequence that Order returns,
// until ctx ends or a turn fails.
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
