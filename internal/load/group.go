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

// group is viewers that are counted together.
type group struct {
	viewers []*viewer
	gap     histogram // from one arrival to the next
	latency histogram // from the publisher's write to the viewer's last byte
	ends    endings
}

// received is what a viewer has counted. It is written by the viewer alone and
// read for reports.
type received struct {
	connected atomic.Bool
	watching  atomic.Bool
	bytes     atomic.Int64 // of payload
	tags      atomic.Int64
	numbered  atomic.Bool // some tag had a marker
	lost      atomic.Int64
	jumps     atomic.Int64
	repeated  atomic.Int64
}

// count is the sum of what all viewers of a group have received.
type count struct {
	connected, watching          int
	bytes, tags                  int64
	lost, jumps, repeated, ended int64
	numbered                     bool
}

func (g *group) count() count {
	var c count
	for _, v := range g.viewers {
		if v.got.connected.Load() {
			c.connected++
		}
		if v.got.watching.Load() {
			c.watching++
		}
		c.bytes += v.got.bytes.Load()
		c.tags += v.got.tags.Load()
		c.numbered = c.numbered || v.got.numbered.Load()
		c.lost += v.got.lost.Load()
		c.jumps += v.got.jumps.Load()
		c.repeated += v.got.repeated.Load()
	}
	c.ended = g.ends.total()
	return c
}

// endings counts why connections ended that we did not end.
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

// reason puts errors that differ only in addresses into one class.
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
