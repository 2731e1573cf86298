package arena

import (
	"math/rand/v2"
	"testing"
)

// The sets of slots against a loop over all of them.
func TestSlotSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, members := range []int{0, 1, 2, 8, 100, 500, maxSlots} {
		var set slotSet
		var is [maxSlots]bool
		for _, i := range rng.Perm(maxSlots)[:members] {
			set.add(int32(i))
			is[i] = true
		}
		for _, i := range rng.Perm(maxSlots)[:members/3] {
			set.remove(int32(i))
			is[i] = false
		}
		below := int32(none)
		for i := range int32(maxSlots) {
			if got := set.below(i); got != below {
				t.Fatalf("%d members: below(%d) = %d, want %d", members, i, got, below)
			}
			if is[i] {
				below = i
			}
		}
		if got := set.below(maxSlots); got != below {
			t.Fatalf("%d members: below all = %d, want %d", members, got, below)
		}
		above := int32(none)
		if got := set.above(maxSlots); got != none {
			t.Fatalf("%d members: above all = %d, want none", members, got)
		}
		for i := int32(maxSlots - 1); i >= 0; i-- {
			if is[i] {
				above = i
			}
			if got := set.above(i); got != above {
				t.Fatalf("%d members: above(%d) = %d, want %d", members, i, got, above)
			}
		}
	}
}
