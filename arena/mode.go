package arena

import "fmt"

// Mode is the place of a Pool's frame.
type Mode uint8

const (
	Back  Mode = iota // in the Pool's memory, after all frames that are held
	Front             // in the Pool's memory, before a frame that is held
	Alloc             // on the heap

	modes // number of modes
)

// String returns "back", "front" or "alloc".
func (m Mode) String() string {
	if m < modes {
		return [modes]string{"back", "front", "alloc"}[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Stats describes a Pool and counts its frames.
type Stats struct {
	// Modes counts the frames that were taken, and their bytes, by Mode.
	Modes [modes]struct{ Frames, Bytes uint64 }

	// Spills counts the frames that were begun in the Pool's memory and moved to the heap because
	// they outgrew it.
	Spills uint64

	// SlotsInUse is the number of slots with a held Slice; Slots is the number of slots. Each held
	// Slice of the Pool's memory uses one.
	SlotsInUse, Slots int

	// LongestHeld is the number of frames taken since the frame that is held longest, modulo 2³².
	// It is 0 if none is held.
	LongestHeld uint64
}
