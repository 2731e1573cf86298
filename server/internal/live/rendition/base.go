package rendition

import (
	"log/slog"
	"sync/atomic"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// A base holds the data that all renditions of a stream share.
type base struct {
	cfg    *Config
	log    *slog.Logger
	memory *millrace.Pool // counts the memory of the stream
	facts  *flvstream.Facts

	publisher atomic.Pointer[publisher]
	lost      atomic.Int64 // see Lost

	mu    lock.Mutex
	begun bool // a frame was published
}

// A publisher contains data about a stream's publisher for the log: the address, and which warnings
// were already logged.
type publisher struct {
	address  string
	oddVideo atomic.Bool   // damaged video was logged; see report.LeftOut
	refused  atomic.Uint32 // tag types that were logged, as FLV header flags; see report.Refused
}

// SetPublisher sets the publisher's address for the log. It is called before the first frame of
// each publisher.
func (b *base) SetPublisher(address string) { b.publisher.Store(&publisher{address: address}) }

// Facts returns the Facts of the stream. Only the publisher's goroutine may change them.
func (b *base) Facts() *flvstream.Facts { return b.facts }

// NoteLost counts the frames that a viewer has lost.
func (b *base) NoteLost(m broadcast.Missed) {
	b.lost.Add(int64(m.Frames))
	b.cfg.Counters.Lost[m.Why].Add(int64(m.Frames))
}

// Lost returns the number of frames that viewers have lost.
func (b *base) Lost() int64 { return b.lost.Load() }
