package rendition

import (
	"log/slog"
	"sync/atomic"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// A base is the state that the renditions of a stream share.
type base struct {
	cfg    *Config
	log    *slog.Logger
	memory *millrace.Pool // an account of the blocks of the stream's bytes
	facts  *flvstream.Facts

	publisher atomic.Pointer[publisher]
	lost      atomic.Int64 // see Lost

	mu    lock.Mutex
	begun bool // a frame was published that a viewer cannot start after
}

// A publisher is the source of the frames, and the warnings that were logged about it.
type publisher struct {
	address  string
	oddVideo atomic.Bool   // see report.LeftOut
	refused  atomic.Uint32 // flags of an FLV header; see report.Refused
}

// SetPublisher names the source of the next frames in the log.
func (b *base) SetPublisher(address string) { b.publisher.Store(&publisher{address: address}) }

// Facts returns the facts about the stream. The publisher's goroutine writes them.
func (b *base) Facts() *flvstream.Facts { return b.facts }

// NoteLost counts frames that viewers were moved past.
func (b *base) NoteLost(m broadcast.Missed) {
	b.lost.Add(int64(m.Frames))
	b.cfg.Counters.Lost[m.Why].Add(int64(m.Frames))
}

// Lost returns how many frames viewers were moved past.
func (b *base) Lost() int64 { return b.lost.Load() }
