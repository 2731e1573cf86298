package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// ErrNotCounted says that the kernel does not count system calls for us.
var ErrNotCounted = errors.New("relay: system calls are counted on Linux, for root")

// They are as many each second, so a few seconds are enough.
const (
	countedSeconds = 3
	countedEvery   = 250 * time.Millisecond // the counter is read
)

// CountCalls gives each contender one turn more, in which the kernel counts the
// server's system calls. That costs each call something, so it is not done in
// the turns that are measured. It returns how many calls there are for a
// delivered megabyte, by the contender's name.
func (p Plan) CountCalls(ctx context.Context) (map[string]float64, error) {
	p.Seconds = min(p.Seconds, countedSeconds)
	perMB := make(map[string]float64)
	for _, c := range p.Contenders {
		var t tally
		err := p.serve(ctx, c, func(s *Server) error { return t.take(ctx, s, p.config(s)) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name(), err)
		}
		perMB[c.Name()] = t.perMB()
		p.Log("%s, %s: %.0f system calls a MB", p.Case, c.Name(), t.perMB())
	}
	return perMB, nil
}

// A tally is what was delivered and called up to the first look and up to the
// last one, both while the load was complete.
type tally struct {
	first, last struct {
		bytes int64
		calls uint64
	}
}

// take puts the load on a server.
func (t *tally) take(ctx context.Context, s *Server, cfg load.Config) error {
	counter, err := countCalls(s.PIDs)
	if err != nil {
		return err
	}
	defer counter.close()
	cfg.Interval = countedEvery
	var unread error
	_, err = load.Run(ctx, cfg, func(now load.Progress) {
		if !now.Measuring {
			return
		}
		calls, err := counter.read()
		unread = errors.Join(unread, err)
		t.last.bytes, t.last.calls = now.Bytes, calls
		if t.first.bytes == 0 {
			t.first = t.last
		}
	})
	return errors.Join(err, unread)
}

func (t *tally) perMB() float64 {
	return float64(t.last.calls-t.first.calls) / (float64(t.last.bytes-t.first.bytes) / 1e6)
}
