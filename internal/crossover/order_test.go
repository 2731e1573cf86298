package crossover_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/internal/crossover"
)

func ExampleOrder() {
	for round := range 4 {
		fmt.Println(crossover.Order(4, round))
	}
	// Output:
	// [0 1 3 2]
	// [1 2 0 3]
	// [2 3 1 0]
	// [3 0 2 1]
}

// Everybody has a turn in each round, is first as often as anybody else, and follows each other one equally often.
func TestOrderIsBalanced(t *testing.T) {
	for n := range 25 {
		cycle := n * (1 + n%2)
		first := make([]int, n)
		follows := make(map[[2]int]int)
		for round := range 3 * cycle {
			order := crossover.Order(n, round)
			sorted := slices.Sorted(slices.Values(order))
			for i := range n {
				if sorted[i] != i {
					t.Fatalf("%d contenders, round %d: %v", n, round, order)
				}
			}
			first[order[0]]++
			for k := range n - 1 {
				follows[[2]int{order[k], order[k+1]}]++
			}
		}
		for i := range n {
			if want := 3 * cycle / n; first[i] != want {
				t.Errorf("of %d contenders %d is first %d times, want %d", n, i, first[i], want)
			}
			for j := range n {
				if got, want := follows[[2]int{i, j}], 3*cycle/n; i != j && got != want {
					t.Errorf("of %d contenders %d follows %d %d times, want %d", n, j, i, got, want)
				}
			}
		}
	}
}
