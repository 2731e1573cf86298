package hls

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/load"
)

type sentTags struct {
	bitRate int

	mu       sync.Mutex
	at       []time.Time     // times of sending; tag n has index n-1
	pictures []uint64        // tag numbers of the video frames
	late     []time.Duration // delays of the tags behind schedule
}

// keyInterval is the time between keyframes of the stream, and the length of the segments.
const keyInterval = 2 * time.Second

// synth returns a new source of the stream. All sources return the same bytes.
func (s *sentTags) synth() *load.Synth { return load.NewSynth(0, s.bitRate, keyInterval) }

// publish sends the stream to a server in real time until ctx ends.
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

func (s *sentTags) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// newest returns the time at which the newest tag of a part was sent.
func (s *sentTags) newest(c contents) time.Time { return s.at[c.newest-1] }

// completing returns the time at which the last tag for a part was sent. A part needs the tags in c
// and the next video frame, because this frame determines the duration of the part's last frame. If
// the stream ended before this frame, ok is false.
func (s *sentTags) completing(c contents) (t time.Time, ok bool) {
	i, found := slices.BinarySearch(s.pictures, c.picture)
	if !found || i+1 == len(s.pictures) {
		return time.Time{}, false
	}
	return s.at[max(s.pictures[i+1], c.newest)-1], true
}
