package arena

import "fmt"

// Mode says where a Pool places its frames.
type Mode uint8

const (
	Back  Mode = iota // behind the last frame that is held
	Front             // in front of frames that are held
	Alloc             // on the heap

	modes // how many there are
)

var modeNames = [modes]string{"back", "front", "alloc"}

// String returns "back", "front" or "alloc".
func (m Mode) String() string {
	if m < modes {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Stats says what a Pool has done and holds.
type Stats struct {
	Modes [modes]Count // the frames that were taken, by the Mode in which they were placed

	// Spills counts the frames among those of Alloc mode that were begun in the Pool's memory and moved to the heap
	// because they outgrew it.
	Spills uint64

	// SlotsInUse is how many Slices of the Pool's memory are held, of Slots that there can be.
	SlotsInUse, Slots int

	// LongestHeld says how many frames have been taken since the one that is held longest. It is 0 if none is held. Each
	// frame's count begins again after 2³².
	LongestHeld uint64
}

// Count counts frames.
type Count struct {
	Frames uint64
	Bytes  uint64
}
