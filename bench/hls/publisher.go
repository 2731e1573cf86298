package hls

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

// sentTags are the tags that were published.
type sentTags struct {
	bitRate int

	mu       sync.Mutex
	at       []time.Time     // by number - 1
	pictures []uint64        // their numbers
	late     []time.Duration // behind the clock
}

// keyInterval is that of the streams, and the length of their segments.
const keyInterval = 2 * time.Second

// synth returns the source of the stream. Two of them make the same bytes.
func (s *sentTags) synth() *load.Synth { return load.NewSynth(0, s.bitRate, keyInterval) }

// publish publishes in real time until ctx ends.
func (s *sentTags) publish(ctx context.Context, to load.Protocol, stream string) error {
	p, err := to.Publish(ctx, stream)
	if err != nil {
		return err
	}
	defer p.Close()
	synth := s.synth()
	for _, t := range synth.Headers(s.bitRate) {
		if err := p.WriteTag(t); err != nil {
			return err
		}
	}
	for began := time.Now(); ctx.Err() == nil; {
		time.Sleep(synth.Due() - time.Since(began))
		now := time.Now()
		late := now.Sub(began) - synth.Due()
		t := synth.Next(now)
		s.mu.Lock()
		s.at = append(s.at, now)
		s.late = append(s.late, late)
		if t.Kind == load.Video {
			s.pictures = append(s.pictures, uint64(len(s.at)))
		}
		s.mu.Unlock()
		if err := p.WriteTag(t); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return ctx.Err()
}

// count returns how many tags were sent.
func (s *sentTags) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// newest returns when the newest tag of a part was sent.
func (s *sentTags) newest(c contents) time.Time { return s.at[c.newest-1] }

// completing returns when the tag that completes a part was sent: the next video frame, which
// determines the last frame's duration, or the newest tag of the part if that came later. ok is
// false if the stream ended before.
func (s *sentTags) completing(c contents) (at time.Time, ok bool) {
	i, found := slices.BinarySearch(s.pictures, c.picture)
	if !found || i+1 == len(s.pictures) {
		return time.Time{}, false
	}
	return s.at[max(s.pictures[i+1], c.newest)-1], true
}
