package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/internal/load"
)

const keyInterval = 2 * time.Second

// An encoder publishes a stream to one server. The stream begins with a keyframe.
type encoder struct {
	began time.Time          // time of the first attempt to connect
	live  chan struct{}      // closed when the server has accepted the encoder
	cut   context.CancelFunc // breaks the connection
	hang  chan struct{}      // once closed, the encoder sends nothing more
	done  chan error         // receives one value, the reason for the end

	admitted time.Time // when the server accepted the encoder; set before live is closed
}

// encode starts an encoder, which tries to connect until the server accepts it.
func encode(ctx context.Context, to *node, stream string) *encoder {
	e := &encoder{began: time.Now(), live: make(chan struct{}), hang: make(chan struct{}),
		done: make(chan error, 1)}
	ctx, e.cut = context.WithCancel(ctx)
	go func() { e.done <- e.run(ctx, to, stream) }()
	return e
}

const retryDelay = 100 * time.Millisecond

func (e *encoder) run(ctx context.Context, to *node, stream string) error {
	p, err := to.whole().Publish(ctx, stream)
	for err != nil {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryDelay):
			p, err = to.whole().Publish(ctx, stream)
		}
	}
	e.admitted = time.Now()
	close(e.live)
	synth := load.NewSynth(0, bitRate, keyInterval)
	for _, t := range synth.Headers(bitRate) {
		if err := p.WriteTag(t); err != nil {
			return err
		}
	}
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return p.(*httpflv.Publication).BreakOff(ctx.Err())
		case <-e.hang:
			<-ctx.Done()
			return ctx.Err()
		case <-time.After(synth.Due() - time.Since(began)):
		}
		if err := p.WriteTag(synth.Next(time.Now())); err != nil {
			return err
		}
	}
}

// stop breaks the connection and waits until the encoder has ended.
func (e *encoder) stop() {
	e.cut()
	e.done <- <-e.done
}

type frame struct {
	seq      uint64 // tag number, counted by the encoder
	sent, at time.Time
	picture  bool
}

// A watcher watches a stream until close is called. It checks that the received bytes are the bytes
// that the encoders have sent.
type watcher struct {
	frames chan frame // closed when watching ends
	err    error      // why watching ended; set before frames is closed
	stop   context.CancelFunc
}

const maxFrames = 1 << 15

func watch(ctx context.Context, from *node, stream string) *watcher {
	w := &watcher{frames: make(chan frame, maxFrames)}
	ctx, w.stop = context.WithCancel(ctx)
	go func() {
		defer close(w.frames)
		w.err = w.run(ctx, from, stream)
	}()
	return w
}

func (w *watcher) run(ctx context.Context, from *node, stream string) error {
	s, err := from.whole().Watch(ctx, stream)
	if err != nil {
		return err
	}
	defer s.Close()
	synth := load.NewSynth(0, bitRate, keyInterval)
	for {
		var a load.Arrival
		if err := s.Next(&a); err != nil {
			return err
		}
		seq, sent, err := synth.Verify(a.Kind, a.Head)
		if err != nil {
			return err
		}
		if seq == 0 { // a sequence header or metadata
			continue
		}
		select {
		case w.frames <- frame{seq, sent, a.At, a.Kind == load.Video}:
		default:
			return errors.New("the frames of a viewer are not looked at")
		}
	}
}

func (w *watcher) next() (frame, error) {
	f, ok := <-w.frames
	if !ok {
		return frame{}, fmt.Errorf("%w: %w", errEnded, w.err)
	}
	return f, nil
}

// pictureSince waits for the first video frame that was sent at time t or later.
func (w *watcher) pictureSince(t time.Time) (frame, error) {
	for {
		f, err := w.next()
		if err != nil || f.picture && !f.sent.Before(t) {
			return f, err
		}
	}
}

func (w *watcher) close() {
	w.stop()
	for range w.frames {
	}
}

const checkedFrames = 40

// trialTime is the time limit for checkDelivery, and for each trial.
const trialTime = time.Minute

// checkDelivery publishes a stream at origin and watches it at edge, which may be the same node. It
// returns an error unless the viewer receives the published frames, in order and unchanged.
func checkDelivery(ctx context.Context, origin, edge *node) error {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	e := encode(ctx, origin, "check")
	defer e.stop()
	w := watch(ctx, edge, "check")
	defer w.close()
	var last uint64
	for range checkedFrames {
		f, err := w.next()
		if err != nil {
			return err
		}
		if last > 0 && f.seq != last+1 {
			return fmt.Errorf("frame %d comes behind frame %d", f.seq, last)
		}
		last = f.seq
	}
	return nil
}
