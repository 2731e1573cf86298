package arena

import "fmt"

// Mode says where a Pool has placed a frame.
type Mode uint8

const (
	Back  Mode = iota // in the Pool's memory, behind all frames that are held
	Front             // in the Pool's memory, in front of a frame that is held
	Alloc             // on the heap

	modes // how many there are
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

	// SlotsInUse is how many Slices of the Pool's memory are held, of Slots that there can be.
	SlotsInUse, Slots int

	// LongestHeld is how many frames have been taken since the frame that is held longest, modulo
	// 2³². It is 0 if none is held.
	LongestHeld uint64
}
