package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// tick is how often a publisher sends.
const tick = 40 * time.Millisecond

var errBreakOff = errors.New("the publisher breaks off")

// A camera is the body of a publisher's request: a tick's worth at a time, in real time. One goroutine reads it.
type camera struct {
	stream  *stream
	show    *show
	until   context.Context // when it ends, or breaks off
	breaks  bool
	gone    context.Context // nobody reads it any more
	began   time.Time
	ticks   int64
	seq     uint64 // tags so far
	off     int64  // bytes so far, of a tape
	pending []byte
	buf     []byte
}

// Read implements io.Reader.
func (c *camera) Read(p []byte) (int, error) {
	if len(c.pending) == 0 {
		if err := c.more(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

// more waits for the next tick and makes what is sent then.
func (c *camera) more() error {
	due := time.Until(c.began.Add(time.Duration(c.ticks) * tick))
	if due > 0 {
		t := time.NewTimer(due)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.gone.Done():
			return c.gone.Err()
		}
	}
	if c.gone.Err() != nil {
		return c.gone.Err()
	}
	ending := c.until.Err() != nil && c.ticks > 0 // a body without a byte is refused
	if ending && !c.breaks {
		last := int64(c.seq)
		if c.stream.plain {
			last = c.off
		}
		c.stream.end(c.show, last)
		return io.EOF
	}
	if ending && c.ticks%2 == 0 {
		return errBreakOff // between two tags, or, below, in one
	}
	c.shoot()
	if ending {
		c.pending = c.pending[:len(c.pending)/2] // the next tick, which is an even one, breaks off
	}
	return nil
}

// shoot makes what is sent in a tick.
func (c *camera) shoot() {
	c.buf = c.buf[:0]
	switch {
	case c.stream.plain:
		c.buf = append(c.buf, make([]byte, c.stream.size)...)
		c.show.tape.fill(c.buf, c.off)
		c.off += int64(len(c.buf))
	default:
		if c.ticks == 0 {
			c.buf = append(c.buf, flvHead...)
			for _, h := range filmHeads() {
				c.buf = append(c.buf, h...)
			}
		}
		for range tagsATick {
			c.seq++
			c.buf = c.show.film.appendTo(c.buf, c.seq)
		}
	}
	c.ticks++
	c.pending = c.buf
}

// publish sends one show after the other.
func (s *shift) publish(st *stream) {
	r := s.random(kindPublisher, st.number)
	shows := uint64(0)
	taken := patience{status: http.StatusConflict} // by the publisher before, which has broken off a moment ago
	s.work("publishing "+st.name, func(url string) error {
		shows++
		id := mix(s.cfg.Seed^keyNumber(s.name)) ^ mix(uint64(s.number)<<40|uint64(st.number)<<24|shows)
		until, cancel := context.WithTimeout(s.working, s.length/4+some(r, s.length))
		defer cancel()
		gone, stop := context.WithCancel(s.hard)
		defer stop()
		c := &camera{stream: st, show: st.begin(id), until: until, gone: gone, breaks: r.IntN(3) == 0, began: time.Now()}
		return taken.with(s.send(c, url))
	})
}

// send is one request of a publisher. The camera's end is the body's.
func (s *shift) send(c *camera, url string) error {
	ctx, cancel := context.WithCancel(c.gone)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/live/"+c.stream.name, io.NopCloser(c))
	if err != nil {
		return err
	}
	res, err := s.fast.Do(req)
	if errors.Is(err, errBreakOff) {
		s.tally.Streams.Add(1)
		s.tally.Broken.Add(1)
		return nil
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return &statusError{"the answer to a publisher", res.StatusCode, string(text)}
	}
	s.tally.Streams.Add(1)
	return s.checkSummary(c, text)
}

// maxAnswer is how much of an answer in words is read.
const maxAnswer = 4 << 10

// checkSummary compares what the server says that it got with what was sent.
func (s *shift) checkSummary(c *camera, text []byte) error {
	var got struct{ Bytes, Frames int64 }
	if err := json.Unmarshal(text, &got); err != nil {
		return fmt.Errorf("the summary of a stream: %w", err)
	}
	last, whole := c.stream.endOf(c.show.film.id)
	switch {
	case !whole:
		return wrong("the server has the whole stream, which has not ended")
	case c.stream.plain && got.Bytes != last:
		return wrong("the server got %d bytes, want %d", got.Bytes, last)
	case !c.stream.plain && got.Frames != last+int64(len(filmHeads())):
		return wrong("the server got %d tags, want %d", got.Frames, last+int64(len(filmHeads())))
	}
	s.tally.Sent.Add(got.Bytes)
	return nil
}
