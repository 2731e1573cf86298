package relay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

const (
	checkedTags   = 100 // that a viewer must get
	checkBitRate  = 800_000
	checkDeadline = 30 * time.Second
)

// check starts a contender, publishes a stream through it, and fails unless a viewer gets tags with the payloads that were
// published, in their order and without a hole.
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

func (c contender) checkRunning(ctx context.Context, r *running) error {
	ctx, cancel := context.WithTimeout(ctx, checkDeadline)
	defer cancel()
	var sent sums
	if c.sends != nil {
		for _, t := range c.sends(checkBitRate) {
			sent.add(t.Kind, t.Payload)
		}
		got, err := watch(ctx, r)
		if err != nil {
			return err
		}
		return sent.contain(got, true)
	}
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- publish(publishing, r, &sent) }()
	got, err := watch(ctx, r)
	for err != nil && ctx.Err() == nil { // relays refuse viewers of a stream that they do not know yet
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
	return sent.contain(got, false)
}

// sums are the checksums of payloads in order, sound and pictures apart: RTMP does not promise an order between the two.
type sums struct {
	mu  sync.Mutex
	all map[byte][]uint32 // by the tag's kind
}

func (s *sums) add(kind byte, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[byte][]uint32)
	}
	s.all[kind] = append(s.all[kind], crc32.ChecksumIEEE(payload))
}

// contain fails unless got is a part of the sums without a hole. Where the stream repeats, the part may go over its end.
func (s *sums) contain(got *sums, repeats bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, part := range got.all {
		if !contains(s.all[kind], part, repeats) {
			return fmt.Errorf("%d tags of kind %d that the viewer got are not those that were published, in their order", len(part), kind)
		}
	}
	return nil
}

func contains(all, part []uint32, repeats bool) bool {
	for from := range all {
		n := 0
		for n < len(part) && (repeats || from+n < len(all)) && all[(from+n)%len(all)] == part[n] {
			n++
		}
		if n == len(part) {
			return true
		}
	}
	return false
}

// publish publishes in real time until ctx ends.
func publish(ctx context.Context, r *running, sent *sums) error {
	write, end, err := publication(ctx, r)
	if err != nil {
		return err
	}
	defer end()
	synth := load.NewSynth(0, checkBitRate, 500*time.Millisecond)
	for _, t := range synth.Headers(checkBitRate) {
		if err := write(t); err != nil {
			return err
		}
	}
	for began := time.Now(); ctx.Err() == nil; {
		time.Sleep(synth.Due() - time.Since(began))
		t := synth.Next(time.Now())
		sent.add(t.Kind, t.Payload)
		if err := write(t); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return ctx.Err()
}

// publication begins to publish the stream "check".
func publication(ctx context.Context, r *running) (write func(load.Tag) error, end func(), err error) {
	if r.config.Protocol != nil {
		p, err := r.config.Protocol.Publish(ctx, "check")
		if err != nil {
			return nil, nil, err
		}
		return p.WriteTag, func() { p.Close() }, nil
	}
	body, pipe := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.config.URL+"/live/check"+r.config.Ending, body)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "video/x-flv")
	done := make(chan struct{})
	go func() {
		defer close(done)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			body.CloseWithError(err)
			return
		}
		body.CloseWithError(fmt.Errorf("the publisher is answered %s", res.Status))
		res.Body.Close()
	}()
	if _, err := io.WriteString(pipe, "FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"); err != nil {
		return nil, nil, err
	}
	return func(t load.Tag) error { return writeTag(pipe, t) }, func() { pipe.Close(); <-done }, nil
}

func writeTag(w io.Writer, t load.Tag) error {
	n := len(t.Payload)
	b := []byte{t.Kind, byte(n >> 16), byte(n >> 8), byte(n), byte(t.Timestamp >> 16), byte(t.Timestamp >> 8), byte(t.Timestamp),
		byte(t.Timestamp >> 24), 0, 0, 0}
	b = append(b, t.Payload...)
	_, err := w.Write(binary.BigEndian.AppendUint32(b, uint32(n+11)))
	return err
}

// watch returns the checksums of the payloads that a viewer gets.
func watch(ctx context.Context, r *running) (*sums, error) {
	next, end, err := subscription(ctx, r)
	if err != nil {
		return nil, err
	}
	defer end()
	headers := load.NewSynth(0, checkBitRate, time.Second).Headers(checkBitRate)
	got := new(sums)
	for n := 0; n < checkedTags; {
		kind, payload, err := next()
		if err != nil {
			return nil, fmt.Errorf("the viewer got %d tags: %w", n, err)
		}
		header := kind == load.Script
		for _, h := range headers {
			header = header || bytes.Equal(payload, h.Payload)
		}
		if !header {
			got.add(kind, payload)
			n++
		}
	}
	return got, nil
}

// subscription begins to watch the stream "check". A payload is valid until the next call.
func subscription(ctx context.Context, r *running) (next func() (kind byte, payload []byte, err error), end func(), err error) {
	if proto, ok := r.config.Protocol.(*rtmp.Server); ok {
		whole := *proto
		whole.Whole = true
		s, err := whole.Watch(ctx, "check")
		if err != nil {
			return nil, nil, err
		}
		var a load.Arrival
		return func() (byte, []byte, error) {
			err := s.Next(&a)
			return a.Kind, a.Head, err
		}, func() { s.Close() }, nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.config.URL+"/live/check"+r.config.Ending, nil)
	if err != nil {
		return nil, nil, err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, nil, fmt.Errorf("the viewer is answered %s", res.Status)
	}
	in := bufio.NewReader(res.Body)
	if _, err := in.Discard(9 + 4); err != nil {
		res.Body.Close()
		return nil, nil, err
	}
	return func() (byte, []byte, error) {
		var head [11]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return 0, nil, err
		}
		tag := make([]byte, int(binary.BigEndian.Uint32(head[:])&0xffffff)+4)
		_, err := io.ReadFull(in, tag)
		return head[0], tag[:len(tag)-4], err
	}, func() { res.Body.Close() }, nil
}
