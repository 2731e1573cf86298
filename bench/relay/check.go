package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

const (
	checkedTags   = 100 // number of tags that a viewer must receive
	checkBitRate  = 800_000
	checkDeadline = 30 * time.Second
)

// check starts a contender and publishes a stream through it. A viewer must receive the published
// payloads in order and without a gap.
func (c contender) check(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "bench-relay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := c.start(ctx, dir, load.Config{BitRate: checkBitRate})
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	defer r.Stop()
	if err := c.checkRunning(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

func (c contender) checkRunning(ctx context.Context, r *instance) error {
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	var sent sums
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- publish(publishing, r.protocol(), "check", checkBitRate,
			500*time.Millisecond, &sent)
	}()
	got, err := watch(ctx, r)
	// Retry, because relays refuse viewers until the stream exists.
	for err != nil && ctx.Err() == nil {
		select {
		case err := <-done:
			return fmt.Errorf("publishing: %w", err)
		case <-time.After(100 * time.Millisecond):
			got, err = watch(ctx, r)
		}
	}
	stop()
	if published := <-done; err == nil && !errors.Is(published, context.Canceled) {
		err = published
	}
	if err != nil {
		return err
	}
	return sent.checkPart(got)
}

// sums holds the checksums of payloads, in order. Audio and video are separate, because RTMP does
// not promise an order between them.
type sums struct {
	mu  sync.Mutex
	all map[byte][]uint32 // by tag kind
}

func (s *sums) add(kind byte, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[byte][]uint32)
	}
	s.all[kind] = append(s.all[kind], crc32.ChecksumIEEE(payload))
}

// checkPart returns an error if got is not a contiguous part of s. It checks each kind of tag
// separately.
func (s *sums) checkPart(got *sums) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, part := range got.all {
		if !contains(s.all[kind], part) {
			return fmt.Errorf(
				"%d tags of kind %d that the viewer got are not those that were published, in their order", len(part), kind)
		}
	}
	return nil
}

func contains(all, part []uint32) bool {
	for len(all) >= len(part) {
		if slices.Equal(all[:len(part)], part) {
			return true
		}
		all = all[1:]
	}
	return false
}

// protocol returns the relay's protocol. For HTTP-FLV, it uses the client of package httpflv, which
// receives complete payloads.
func (r *instance) protocol() load.Protocol {
	whole := httpflv.Server{URL: r.config.URL}
	switch p := r.config.Protocol.(type) {
	case nil:
		return whole
	case crossProtocol:
		return crossProtocol{p.Protocol, whole}
	default:
		return p
	}
}

// publish sends a synthetic stream in real time until ctx ends. It adds the checksum of each frame
// to sent.
func publish(ctx context.Context, proto load.Protocol, stream string, bitRate int,
	keyInterval time.Duration, sent *sums) error {
	p, err := proto.Publish(ctx, stream)
	if err != nil {
		return err
	}
	defer p.Close()
	synth := load.NewSynth(0, bitRate, keyInterval)
	for _, t := range synth.Headers(bitRate) {
		if err := p.WriteTag(t); err != nil {
			return err
		}
	}
	for began := time.Now(); ctx.Err() == nil; {
		time.Sleep(synth.Due() - time.Since(began))
		t := synth.Next(time.Now())
		sent.add(t.Kind, t.Payload)
		if err := p.WriteTag(t); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return ctx.Err()
}

// watch returns the checksums of the payloads that a viewer receives. It skips headers and
// metadata.
func watch(ctx context.Context, r *instance) (*sums, error) {
	p := r.protocol()
	if server, ok := p.(*rtmp.Server); ok {
		p = libraryProtocol{server}
	}
	s, err := p.Watch(ctx, "check")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	headers := load.NewSynth(0, checkBitRate, time.Second).Headers(checkBitRate)
	got := new(sums)
	for n := 0; n < checkedTags; {
		var a load.Arrival
		if err := s.Next(&a); err != nil {
			return nil, fmt.Errorf("the viewer got %d tags: %w", n, err)
		}
		header := a.Kind == load.Script
		for _, h := range headers {
			header = header || bytes.Equal(a.Head, h.Payload)
		}
		if !header {
			got.add(a.Kind, a.Head)
			n++
		}
	}
	return got, nil
}
