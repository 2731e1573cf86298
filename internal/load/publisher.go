package load

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

type publisher struct {
	load  *run
	index int
	name  string
}

type sentTally struct {
	connected   atomic.Int64 // number of publishers that the server accepted
	tags, bytes atomic.Int64
	late        histogram // time from when a tag is due until it is sent
	ends        endings
}

func (p *publisher) run(ctx context.Context) {
	cfg := &p.load.cfg
	// The publishers start one by one during the time between two keyframes (Config.KeyInterval),
	// because real publishers do not send their keyframes at the same time. If Config.Ramp is
	// shorter, they start during that time instead.
	n := len(p.load.publishers)
	if !sleep.For(ctx, time.Duration(p.index)*min(cfg.KeyInterval, cfg.Ramp)/time.Duration(n)) {
		return
	}
	pub, err := persist(ctx, func() (Publication,
		error) {
		return p.load.proto.Publish(ctx, p.name)
	})
	if err != nil {
		if passing(err) {
			ctx = context.Background() // count err even if the load has ended
		}
		p.load.sent.ends.add(ctx, err)
		return
	}
	p.load.sent.connected.Add(1)
	err = p.send(ctx, pub)
	if cerr := pub.Close(); err == nil {
		err = cerr
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			// Count an error of the server, although ctx has ended as planned.
			ctx = context.Background()
		}
	}
	p.load.sent.ends.add(ctx, err)
}

func (p *publisher) send(ctx context.Context, pub Publication) error {
	cfg := &p.load.cfg
	synth := NewSynth(p.index, cfg.BitRate, cfg.KeyInterval)
	for _, t := range synth.Headers(cfg.BitRate) {
		if err := pub.WriteTag(t); err != nil {
			return err
		}
	}
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due := synth.Due()
		if wait := due - time.Since(began); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
		} else if ctx.Err() != nil {
			return nil
		}
		now := time.Now()
		t := synth.Next(now)
		if err := pub.WriteTag(t); err != nil {
			return err
		}
		p.load.sent.tags.Add(1)
		p.load.sent.bytes.Add(int64(len(t.Payload)))
		if p.load.measuring.Load() {
			p.load.sent.late.add(now.Sub(began) - due)
		}
	}
}
