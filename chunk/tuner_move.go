package chunk

import "fmt"

// A Setting is what a [Tuner] moves.
type Setting struct {
	Workers   int // at work at a time
	ChunkSize int // bytes, as Size
	Depth     int // chunks that each Reader reads ahead, as Depth
}

// String returns what a log should say, such as "8 workers, 64 KiB, depth 3".
func (s Setting) String() string {
	size := fmt.Sprintf("%d bytes", s.ChunkSize)
	if s.ChunkSize%(1<<10) == 0 {
		size = fmt.Sprintf("%d KiB", s.ChunkSize>>10)
	}
	return fmt.Sprintf("%d workers, %s, depth %d", s.Workers, size, s.Depth)
}

// footprint is how many bytes of chunks a setting may hold, with one Reader.
func (s Setting) footprint() int64 { return int64(s.ChunkSize) * int64(s.Depth+s.Workers) }

// A Move is what a sample made a [Tuner] do. From and To are the same if it did nothing.
type Move struct {
	From, To Setting
	Why      MoveReason
}

// String returns what a log should say.
func (m Move) String() string {
	if m.From == m.To {
		return fmt.Sprintf("%v: %v", m.To, m.Why)
	}
	return fmt.Sprintf("%v -> %v: %v", m.From, m.To, m.Why)
}

// A MoveReason is why a [Tuner] moved.
type MoveReason uint8

const (
	// Stay moves nothing.
	Stay MoveReason = iota

	// ProcessorsBusy tries fewer workers.
	ProcessorsBusy

	// ProcessorsFree tries more workers.
	ProcessorsFree

	// FewerMayDo tries fewer workers, because more did not pay.
	FewerMayDo

	// SourceInBursts tries to read further ahead.
	SourceInBursts

	// LargerMayPay tries larger chunks.
	LargerMayPay

	// SmallerMayPay tries smaller chunks.
	SmallerMayPay

	// NotPaid takes back what was tried.
	NotPaid

	// LoadGone takes back what was tried, because nothing has been done since.
	LoadGone

	// MemoryGrows tries smaller chunks, or takes back larger ones.
	MemoryGrows

	// MemoryFull shrinks whatever can be shrunk.
	MemoryFull

	moveReasons = iota
)

var moveReasonTexts = [moveReasons]string{
	Stay:           "nothing to move",
	ProcessorsBusy: "processors busy, try fewer workers",
	ProcessorsFree: "processors free and work waiting, try more workers",
	FewerMayDo:     "work waiting that more workers don't speed up, try fewer",
	SourceInBursts: "source and workers wait for each other, try to read further ahead",
	LargerMayPay:   "work or workers waiting, try larger chunks",
	SmallerMayPay:  "work or workers waiting, try smaller chunks",
	NotPaid:        "the last step did not pay, take it back",
	LoadGone:       "no load to judge the last step by, take it back",
	MemoryGrows:    "memory grows too fast",
	MemoryFull:     "memory is close to its limit",
}

// String returns what a log should say.
func (r MoveReason) String() string {
	if r < moveReasons {
		return moveReasonTexts[r]
	}
	return fmt.Sprintf("MoveReason(%d)", uint8(r))
}

var moveReasonLabels = [moveReasons]string{
	Stay:           "stay",
	ProcessorsBusy: "processors_busy",
	ProcessorsFree: "processors_free",
	FewerMayDo:     "fewer_may_do",
	SourceInBursts: "source_in_bursts",
	LargerMayPay:   "larger_may_pay",
	SmallerMayPay:  "smaller_may_pay",
	NotPaid:        "not_paid",
	LoadGone:       "load_gone",
	MemoryGrows:    "memory_grows",
	MemoryFull:     "memory_full",
}

// Label returns a name for metrics, such as "processors_busy".
func (r MoveReason) Label() string {
	if r < moveReasons {
		return moveReasonLabels[r]
	}
	return "unknown"
}
