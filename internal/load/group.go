package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// A group counts the connections of a set of viewers, and the tags (stream messages) that the
// viewers receive.
type group struct {
	wanted    int
	connected atomic.Int64
	watching  atomic.Int64
	bytes     atomic.Int64 // bytes of payload
	tags      atomic.Int64
	numbered  atomic.Bool // at least one tag had a marker
	lost      atomic.Int64
	jumps     atomic.Int64
	repeated  atomic.Int64
	gap       histogram // time between arrivals
	latency   histogram // time from the publisher's write to the viewer's last byte
	ends      endings
}

func (g *group) report() Viewers {
	return Viewers{
		Wanted: g.wanted, Connected: int(g.connected.Load()), Bytes: g.bytes.Load(),
		Tags:     g.tags.Load(),
		Numbered: g.numbered.Load(), Lost: g.lost.Load(), Jumps: g.jumps.Load(),
		Repeated: g.repeated.Load(),
		Gap:      g.gap.spread(), Latency: g.latency.spread(), Ended: g.ends.snapshot(),
	}
}

type endings struct {
	mu  sync.Mutex
	why map[string]int
}

func (e *endings) add(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.why == nil {
		e.why = make(map[string]int)
	}
	e.why[reason(err)]++
}

func (e *endings) total() (n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.why {
		n += int64(c)
	}
	return n
}

func (e *endings) snapshot() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.why)
}

const refusedPrefix = "refused: "

// reason returns the text of an error without addresses, so that equal errors are counted together.
func reason(err error) string {
	var refused *RefusedError
	var netErr net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &refused):
		return refusedPrefix + refused.Status
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "closed inside a tag"
	case errors.Is(err, io.EOF):
		return "closed by the server"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset by the server"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.As(err, &op):
		return fmt.Sprintf("%s: %v", op.Op, op.Err)
	}
	return err.Error()
}
