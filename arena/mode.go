package arena

import "fmt"

// Mode says where a Pool keeps a frame.
type Mode uint8

const (
	Back  Mode = iota // in the Pool's memory, after all unreleased frames
	Front             // in the Pool's memory, before an unreleased frame
	Alloc             // on the heap

	modes // number of modes
)

// String returns the name of the mode: "back", "front" or "alloc".
func (m Mode) String() string {
	if m < modes {
		return [modes]string{"back", "front", "alloc"}[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Stats holds the statistics of a Pool.
type Stats struct {
	// Modes counts the frames that Take returned, and their bytes, by Mode.
	Modes [modes]struct{ Frames, Bytes uint64 }

	// Spills counts the frames that outgrew the Pool's memory and were moved to the heap.
	Spills uint64

	// Slots is the number of slots of the Pool (see the option Slots). SlotsInUse is the number of
	// Slices in the Pool's memory that have not been released. Each of these Slices uses one slot.
	SlotsInUse, Slots int

	// LongestHeld is the age of the oldest unreleased frame in the Pool's memory: the number of
	// frames that Take has returned after it, modulo 2³². If all frames have been released, it is
	// 0.
	LongestHeld uint64
}
