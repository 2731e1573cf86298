package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// outageCase is the load during an outage. Each node has publishers, and viewers of all streams.
var outageCase = testCase{streams: 6, viewers: 9}

// outageBitRate is the bit rate of each stream, in bits per second. A low bit rate is enough,
// because the frames are only counted.
const outageBitRate = 500_000

func (b *bench) outage(ctx context.Context) error {
	t := measure.NewTable("cluster-outage",
		fmt.Sprintf(
			"Redis is away for %v: three nodes, %d streams with %d viewers each",
			options.outage, outageCase.streams, outageCase.viewers),
		"what happens to Redis", "frames at viewers", "frames lost", "frames that came twice",
		"viewers disconnected",
		"longest gap at a viewer ms", "all owners are known again after ms")
	t.Note = "Each stream is published at one node and watched at all three. Frames are those of all viewers, by " +
		"their numbers. The last column is from the moment when Redis answers again."
	for _, o := range outages {
		r, recovery, err := b.runOutage(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		b.Logf("cluster: Redis %s for %v: lost %v, ended %v", o.name, options.outage,
			r.Viewers.Lost, r.Viewers.Ended)
		ended := 0
		for _, n := range r.Viewers.Ended {
			ended += n
		}
		t.Row(o.name, fmt.Sprint(r.Viewers.Tags), int(r.Viewers.Lost), int(r.Viewers.Repeated),
			ended, milliseconds(r.Viewers.Gap.Max), milliseconds(recovery))
	}
	return b.Add(t)
}

// An outage is a way in which Redis can fail. The function go_ starts the outage. The function end
// makes Redis available again, with its old data or empty.
type outage struct {
	name     string
	go_, end func(ctx context.Context, s *site) error
}

var outages = []outage{
	{"stopped (SIGSTOP), continued",
		func(_ context.Context, s *site) error { return signal(s.redis, syscall.SIGSTOP) },
		func(_ context.Context, s *site) error { return signal(s.redis, syscall.SIGCONT) }},
	{"killed, started again empty",
		func(_ context.Context, s *site) error {
			old := s.redis
			s.redis = nil
			return kill(old)
		},
		func(ctx context.Context, s *site) error { return s.startRedis(ctx) }},
}

// runOutage runs a load test during an outage of Redis. recovery is the result of interruptRedis.
func (b *bench) runOutage(ctx context.Context, o outage) (r load.Report, recovery time.Duration,
	err error) {
	s, err := b.nodes(ctx, 3, false)
	if err != nil {
		return r, 0, err
	}
	defer s.close()
	cfg := load.Config{
		Names: outageCase.names(), Viewers: outageCase.viewers, BitRate: outageBitRate,
		Protocol: newSpread(outageCase.names(), s.nodes, s.nodes),
		// errPassed usually ends the load earlier.
		Ramp: time.Second, Settle: 3 * time.Second, Duration: 2*options.outage + trialTime,
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	measuring, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-measuring:
		case <-ctx.Done():
			return
		}
		var err error
		if recovery, err = s.interruptRedis(ctx, o); err == nil {
			err = errPassed
		}
		cancel(err)
	}()
	begin := sync.OnceFunc(func() { close(measuring) })
	r, err = load.Run(ctx, cfg, func(p load.Progress) {
		if p.Measuring {
			begin()
		}
	})
	switch cause := context.Cause(ctx); {
	case err == nil && cause == nil:
		err = errors.New("the load has ended before Redis was back")
	case err == nil && cause != errPassed:
		err = cause
	}
	cancel(nil)
	<-done
	return r, recovery, err
}

// errPassed stops the load test after the outage. It is not a failure.
var errPassed = errors.New("the outage has passed")

// interruptRedis makes Redis unavailable for options.outage. The result recovery is the time from
// the end of the outage until Redis knows the owner of every stream again.
func (s *site) interruptRedis(ctx context.Context, o outage) (recovery time.Duration, err error) {
	d, err := s.startDirectory(ctx)
	if err != nil {
		return 0, err
	}
	defer d.close()
	if err := o.go_(ctx, s); err != nil {
		return 0, err
	}
	if err := pause(ctx, options.outage); err != nil {
		return 0, err
	}
	if err := o.end(ctx, s); err != nil {
		return 0, err
	}
	began := time.Now()
	for _, name := range outageCase.names() {
		if err := d.do("await " + name); err != nil {
			return 0, err
		}
	}
	recovery = time.Since(began)
	return recovery, pause(ctx, options.outage/6) // wait for late effects of the outage
}

// pause waits for the duration d. If ctx ends first, pause returns context.Cause(ctx).
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
