package record

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/server/internal/disk"
)

// Default values of Config.
const (
	DefaultQueueBytes = 16 << 20
	DefaultEvery      = time.Hour
)

// A Config configures an Archive.
type Config struct {
	Dir string // the directory of all recordings, which must exist
	// Maximum size of all recordings together, in bytes. If the recordings exceed this size, the
	// oldest files are deleted. 0 means no limit.
	MaxBytes   int64
	QueueBytes int64         // maximum size of a stream's queue; 0 means DefaultQueueBytes
	Every      time.Duration // files end at multiples of it, in UTC; 0 means DefaultEvery
	// This process replaces another one, which may still use Dir for a while.
	Successor bool
	Log       *slog.Logger // nil: nothing is logged

	// Admit decides whether a stream is recorded. While Admit runs, the stream's fragments wait in
	// the queue. If Admit returns a nil end, the stream is not recorded. Otherwise, end is called
	// when the recording ends, with the reason and the number of bytes that were written. If Admit
	// returns an error, Admit is called again later. If Admit is nil, all streams are recorded.
	Admit func(stream string) (end func(reason string, bytes int64), err error)

	now  func() time.Time                    // the clock; tests replace it
	open func(dir string) (disk.Root, error) // opens Dir; tests replace it
}

func (c *Config) setDefaults() error {
	c.QueueBytes = cmp.Or(c.QueueBytes, DefaultQueueBytes)
	c.Every = cmp.Or(c.Every, DefaultEvery)
	if c.MaxBytes < 0 || c.QueueBytes < 0 || c.Every < 0 {
		return errors.New("record: a limit is negative")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.open == nil {
		c.open = disk.Open
	}
	return nil
}
