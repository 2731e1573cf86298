package record

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"
)

// Defaults of Config.
const (
	DefaultQueueBytes = 16 << 20
	DefaultEvery      = time.Hour
)

// A Config says where recordings are, and how much there may be.
type Config struct {
	Dir string // of all recordings; it exists
	// Of all recordings; the oldest files are deleted beyond it. 0 is no limit.
	MaxBytes   int64
	QueueBytes int64         // of one stream, that may wait for the disk. 0 is DefaultQueueBytes
	Every      time.Duration // a file ends at whole multiples of it, in UTC. 0 is DefaultEvery
	// This process replaces another one, which may have the directory for a while.
	Successor bool
	Log       *slog.Logger // nil discards

	// Admit decides whether a stream is recorded; its fragments wait in the queue meanwhile. end is
	// called when an admitted recording ends. A nil end means that the stream is not recorded.
	// After an error Admit is called again. A nil Admit admits all.
	Admit func(stream string) (end func(reason string, bytes int64), err error)

	now  func() time.Time         // of tests
	disk func(*os.File) io.Writer // for tests: wraps the media files
}

// setDefaults sets the fields that are zero, and refuses negative limits.
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
	return nil
}
