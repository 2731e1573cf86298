package soakcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/sleep"
)

const keyInterval = 2 * time.Second

// A stream has one publisher at a time, and several viewers.
type stream struct {
	*run
	name   string
	number int

	mu       sync.Mutex
	sessions []session
	gaps     []gap
}

// A session is a connection of the publisher.
type session struct {
	began time.Time
	ended time.Time // zero while it lasts
	node  int       // the node, or -1 if nginx chose it
	tags  uint64    // number of tags, if the stream was ended properly; else 0
}

func newStream(r *run, number int) *stream {
	return &stream{run: r, number: number, name: fmt.Sprint("soak-", number)}
}

func (s *stream) synth() *load.Synth { return load.NewSynth(s.number, s.cfg.Rate, keyInterval) }

func (s *stream) random(which int) *rand.Rand {
	return rand.New(rand.NewPCG(s.cfg.Seed, uint64(s.number)<<16|uint64(which)))
}

func (s *stream) begin(node int) (index int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = append(s.sessions, session{began: time.Now(), node: node})
	return len(s.sessions) - 1
}

func (s *stream) end(index int, tags uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[index].ended, s.sessions[index].tags = time.Now(), tags
}

// sessionAt returns the session in which a tag was sent.
func (s *stream) sessionAt(sent time.Time) (index int, found session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.sessions) - 1; i >= 0; i-- {
		if !s.sessions[i].began.After(sent) {
			return i, s.sessions[i]
		}
	}
	return -1, session{}
}

// session returns a session, or the newest one if index is -1.
func (s *stream) session(index int) session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index < 0 {
		index = len(s.sessions) - 1
	}
	if index < 0 {
		return session{}
	}
	return s.sessions[index]
}

// publish publishes the stream until ctx ends. It connects again after a failure, to any node.
func (s *stream) publish(ctx context.Context) {
	r := s.random(0)
	sleep.For(ctx, time.Duration(r.Int64N(int64(5*time.Second))))
	for ctx.Err() == nil {
		node := r.IntN(numNodes)
		n := s.site.nodes[node]
		var p load.Protocol
		kind := "publishers of FLV"
		switch way := r.IntN(10); {
		case way < 4:
			p = flvPublisher{s.site, n.url()}
		case way < 6:
			p, node = flvPublisher{s.site, "http://" + s.site.front}, -1
		case way < 9:
			p, kind = &rtmp.Server{Addr: n.rtmp}, "publishers of RTMP"
		default:
			p, kind, node = &rtmp.Server{Addr: s.site.rtmp}, "publishers of RTMP", -1
		}
		lasts := 20*time.Second + time.Duration(r.Int64N(int64(2*time.Minute)))
		err := s.publishOnce(ctx, p, kind, node, lasts)
		if err == nil {
			sleep.For(ctx, 3*time.Second)
		} else {
			s.done.add(kind, "interrupted", 1)
			sleep.For(ctx, 300*time.Millisecond)
		}
	}
}

// publishOnce publishes the stream until it ends properly, after the time lasts or when ctx ends.
func (s *stream) publishOnce(ctx context.Context, p load.Protocol, kind string, node int,
	lasts time.Duration) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	connecting := time.AfterFunc(timeout, cancel)
	pub, err := p.Publish(hard, s.name)
	connecting.Stop()
	if err != nil {
		return err
	}
	s.done.add(kind, "connections", 1)
	index, tags := s.begin(node), uint64(0)
	synth := s.synth()
	for _, t := range synth.Headers(s.cfg.Rate) {
		if err == nil {
			err = pub.WriteTag(t)
		}
	}
	for began := time.Now(); err == nil && time.Since(began) < lasts && ctx.Err() == nil; {
		if sleep.For(ctx, synth.Due()-time.Since(began)) {
			tags++
			t := synth.Next(time.Now())
			err = pub.WriteTag(t)
			s.done.add(kind, "bytes", int64(len(t.Payload)))
		}
	}
	closing := time.AfterFunc(timeout, cancel)
	defer closing.Stop()
	err = errors.Join(err, pub.Close())
	if err != nil {
		tags = 0
	}
	s.end(index, tags)
	return err
}

// An flvPublisher is a load.Protocol that uses a new HTTP client for each publication.
type flvPublisher struct {
	*site
	url string
}

func (p flvPublisher) Publish(ctx context.Context, name string) (load.Publication, error) {
	c := p.client(false)
	pub, err := httpflv.Publish(ctx, c, p.url+"/live/"+name)
	if err != nil {
		c.CloseIdleConnections()
		return nil, err
	}
	return closing{pub, c.CloseIdleConnections}, nil
}

func (p flvPublisher) Watch(context.Context, string) (load.Subscription, error) {
	return nil, errors.ErrUnsupported
}

func (p flvPublisher) String() string { return p.url }

type closing struct {
	load.Publication
	then func()
}

func (c closing) Close() error {
	defer c.then()
	return c.Publication.Close()
}

// errOrder means that frames arrived in the wrong order.
var errOrder = errors.New("wrong order")

var errSilent = errors.New("nothing has arrived for too long")

// A follower checks the tags that one connection of a viewer receives.
type follower struct {
	*stream
	kind  string
	node  int // the viewer's node, or -1 if nginx chose it
	synth *load.Synth

	index int // session of the last tag; -1 before the first tag
	last  [load.Video + 1]uint64
	end   [load.Video + 1]int64 // of MP4 samples
	any   uint64                // number of the last tag of any kind; for MP4 not in order
	inMP4 bool
	count uint64    // samples of this session in MP4
	seen  time.Time // arrival of the last tag
	first uint64
}

func newFollower(s *stream, kind string, node int) *follower {
	return &follower{stream: s, kind: kind, node: node, synth: s.synth(), index: -1}
}

// tag checks a tag.
func (f *follower) tag(kind byte, payload []byte) error {
	seq, sent, err := f.synth.Verify(kind, payload)
	if err != nil {
		return fmt.Errorf("after tag %d of session %d: %w", f.any, f.index, err)
	}
	f.done.add(f.kind, "bytes", int64(len(payload)))
	if seq == 0 {
		return nil
	}
	index, _ := f.sessionAt(sent)
	switch {
	case index < f.index:
		return fmt.Errorf("%w: tag %d of session %d after tag %d of session %d", errOrder, seq, index,
			f.any, f.index)
	case index > f.index:
		f.finish()
		f.index, f.any, f.last = index, seq-1, [load.Video + 1]uint64{}
		f.first, f.count = seq, 0
	}
	if seq <= f.last[kind] || !f.inMP4 && seq <= f.any {
		return fmt.Errorf("%w: tag %d after tag %d", errOrder, seq, max(f.last[kind], f.any))
	}
	if !f.inMP4 && seq > f.any+1 {
		f.lose(seq - f.any - 1)
	}
	f.seen = time.Now()
	f.last[kind], f.any, f.first = seq, max(f.any, seq), min(f.first, seq)
	f.count++
	return nil
}

// heldBack is the maximum number of missing samples of MP4 that do not count as a loss: a session
// may end after a fragment of one track.
const heldBack = 100

// finish records the samples of MP4 that are missing in the session of the last tag.
func (f *follower) finish() {
	if f.index < 0 {
		return
	}
	if got := f.first + f.count; f.inMP4 && f.any+1 > got+heldBack {
		f.lose(f.any + 1 - got)
	}
}

// ended is called when the server has ended the connection properly.
func (f *follower) ended() {
	if f.index < 0 {
		return
	}
	f.finish()
	if tags := f.session(f.index).tags; tags > f.any {
		f.lose(tags - f.any)
	}
}

func (f *follower) lose(n uint64) {
	s := f.session(f.index)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gaps = append(f.gaps, gap{since: f.seen, at: time.Now(), lost: n, of: f.kind, from: s.node,
		to: f.node})
}

// isCut reports whether an error means that the connection has failed.
func isCut(err error) bool { return err != nil && !errors.Is(err, io.EOF) }
