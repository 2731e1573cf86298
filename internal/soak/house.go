package soak

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A house is a server with all that is put on it, and what it was seen to hold.
type house struct {
	*server
	streams   []*stream
	registers []*register
	rules     []rule
	life      *life
	lives     []*life // life is the last of them
}

func newHouse(s *server, redis bool) *house {
	h := &house{server: s, rules: rules(redis), registers: newRegisters(s.name, s.cfg.Seed)}
	for i := range s.cfg.Streams {
		h.streams = append(h.streams, newStream(i, s.cfg.Streams, s.cfg.Rate))
	}
	return h
}

// clients starts everybody who works in a cycle.
func (h *house) clients(s *shift, l *losses) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, st := range h.streams {
		all.Go(func() { s.publish(st) })
		for i := range h.cfg.Viewers {
			all.Go(func() { s.watch(st, i, l) })
		}
	}
	for i := range fileClients {
		all.Go(func() { s.download(i) })
	}
	for i := range blobWriters {
		all.Go(func() { s.write(h.registers, i) })
	}
	for i := range blobReaders {
		all.Go(func() { s.read(h.registers, i) })
	}
	all.Go(func() { s.expire(0) })
	return &all
}

// work is one cycle, with a restart in the middle if sig is not 0. It returns when all clients have hung up. The error says
// that the server could not be started again.
func (h *house) work(ctx context.Context, number int, sig syscall.Signal) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	hard, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	s := &shift{server: h.server, working: working, hard: hard, length: h.cfg.Cycle, number: number}
	var lost losses
	all := h.clients(s, &lost)
	var err error
	if sig == 0 {
		pause(ctx, h.cfg.Cycle)
	} else {
		pause(ctx, h.cfg.Cycle/2)
		if err = h.restart(context.WithoutCancel(ctx), sig); err == nil {
			if bad := s.inspect(h.registers); bad != nil {
				h.faults.add("server %s, cycle %d: after a restart: %v", h.name, number, bad)
			}
			pause(ctx, h.cfg.Cycle/2)
		}
	}
	stop()
	late := time.AfterFunc(endPatience, giveUp)
	defer late.Stop()
	all.Wait()
	if err == nil {
		if bad := s.inspect(h.registers); bad != nil {
			h.faults.add("server %s, cycle %d: %v", h.name, number, bad)
		}
	}
	h.hangUp()
	for _, st := range h.streams {
		st.forget()
	}
	h.tally.Skips.Add(lost.skipped.Load())
	h.tally.Cuts.Add(lost.cut.Load())
	if h.life != nil && sig == 0 {
		h.life.losses = &lost
	}
	return err
}

// quiet is the quiet point behind a cycle.
func (h *house) quiet(ctx context.Context, at time.Duration) {
	c, admin, epoch := h.server.life()
	if h.life == nil || h.life.epoch != epoch {
		h.life = &life{epoch: epoch, watcher: newWatcher(admin, c.pid()), hangUp: h.hangUp}
		h.lives = append(h.lives, h.life)
	}
	l := h.life
	before := l.since
	reached, err := l.quiet(ctx, h.rules, h.cfg.Settle, at)
	if err != nil {
		if dead := c.silent(); dead != nil {
			h.faults.lead("server %s: %v\n%s", h.name, dead, c.tail())
			return
		}
		h.faults.add("server %s: %v", h.name, err)
		return
	}
	for _, text := range c.complaints() {
		h.faults.add("server %s: its log says: %s", h.name, text)
	}
	h.account(l.losses, reached.lost-before.lost, reached.dropped-before.dropped)
	l.losses = nil
	for _, r := range h.rules {
		if !r.trend() {
			for _, reason := range r.judge(l.points) {
				h.faults.add("server %s: %s", h.name, reason)
			}
		}
	}
}

// account compares what viewers have lost with what the server says that it took from them. That may be more: a viewer
// that was moved forward learns of it when it reads on, and may have left before.
func (h *house) account(l *losses, skipped, dropped int64) {
	if l == nil {
		return
	}
	if n := l.skipped.Load(); n > skipped {
		h.faults.add("server %s: viewers missed %d tags, and the server says it moved them past %d", h.name, n, skipped)
	}
	if n := l.cut.Load(); n > dropped {
		h.faults.add("server %s: %d viewers of plain bytes and MP4 were disconnected, and the server says %d", h.name, n, dropped)
	}
}

// finish ends the process as an operator does.
func (h *house) finish() {
	c, _, _ := h.server.life()
	if _, err := c.terminate(drainTimeout + stopPatience); err != nil {
		h.faults.add("server %s: at the end: %v", h.name, err)
	}
	for _, text := range c.complaints() {
		h.faults.add("server %s: its log says: %s", h.name, text)
	}
}

// clear deletes what was put, from a store that is not ours.
func (h *house) clear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	s := &shift{server: h.server, working: ctx, hard: ctx}
	url, _, err := h.where(ctx)
	for _, reg := range h.registers {
		if err == nil {
			err = s.remove(reg, url)
		}
	}
	if err != nil {
		h.faults.add("server %s: deleting what was put: %v", h.name, err)
	}
	h.hangUp()
}

// keep leaves the log, and what the goroutines do, for whoever looks for the reason.
func (h *house) keep(ctx context.Context, dir string) error {
	err := h.keepLog(dir)
	c, admin, _ := h.server.life()
	if c == nil || c.alive() != nil {
		return err
	}
	stacks := newWatcher(admin, c.pid()).ask(ctx, "/debug/pprof/goroutine?debug=2", func(r io.Reader) error {
		f, err := os.Create(filepath.Join(dir, h.name+"-goroutines.txt"))
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	})
	return errors.Join(err, stacks)
}
