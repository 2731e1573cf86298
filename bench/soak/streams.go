package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/internal/load"
)

const (
	namePrefix  = "soak-"
	keyInterval = 500 * time.Millisecond
)

func (c *cycle) runStreams(url string, up context.Context, r *rand.Rand) error {
	publishing, over := context.WithCancel(c.hard)
	defer over()
	following, giveUp := context.WithCancel(c.hard)
	defer giveUp()
	s := &session{cycle: c, url: url, up: up,
		watchURL:  strings.Replace(url, c.cfg.Hosts.Others, c.cfg.Hosts.Viewers, 1),
		published: publishing, following: following,
		giveUp: giveUp, began: time.Now(), breaks: r.IntN(3) == 0, ends: make(map[string]uint64)}
	cfg := load.Config{
		Protocol: s, Viewers: c.cfg.Viewers, Stalled: c.cfg.Streams * c.cfg.Viewers / 4,
		BitRate: c.cfg.Rate, KeyInterval: keyInterval,
		Ramp: 100 * time.Millisecond, Settle: time.Millisecond,
		Duration: c.cfg.Cycle/4 + time.Duration(r.Int64N(int64(c.cfg.Cycle))),
	}
	cfg.StallFor = cfg.Duration / 2
	for i := range c.cfg.Streams {
		cfg.Names = append(cfg.Names, namePrefix+strconv.Itoa(i))
	}
	ctx, cancel := context.WithCancel(c.working)
	defer cancel()
	defer context.AfterFunc(up, cancel)()

	var followers sync.WaitGroup
	for _, name := range cfg.Names {
		for range 4 { // one of each kind of viewer
			followers.Go(func() { s.followStream(name) })
		}
	}
	rep, err := load.Run(ctx, cfg, nil)
	over()
	if rep.Viewers.Tags == 0 && len(rep.Publishers.Ended) == 0 &&
		rep.Publishers.Connected == len(cfg.Names) {
		// On a busy machine a load may be over before a viewer connects. This is not a fault, but a
		// run without any viewer is not judged.
		err = nil
	}
	late := time.AfterFunc(c.cfg.Settle, s.giveUp)
	defer late.Stop()
	followers.Wait()
	c.lost.Add(rep.Viewers.Lost + rep.Stalled.Lost)
	for _, ended := range []map[string]int{rep.Viewers.Ended, rep.Stalled.Ended} {
		for why, n := range ended {
			if why != errBehind.Error() {
				s.recordFault(fmt.Errorf("%d viewers ended early: %s", n, why))
			}
		}
	}
	return errors.Join(err, s.err)
}

// A session is a load.Protocol that checks every byte that viewers receive.
type session struct {
	*cycle
	url       string
	watchURL  string          // the server's address for viewers
	up        context.Context // ends when the server is being stopped
	published context.Context // ends with the publishers
	following context.Context // ends some time after published
	giveUp    context.CancelFunc
	began     time.Time
	breaks    bool         // whether publishers break off in the middle of a tag
	watches   atomic.Int64 // number of viewers so far

	mu   sync.Mutex
	ends map[string]uint64 // number of the last tag of each stream that has ended properly
	err  error             // the first wrongError, or else the first error
}

// recordFault records the first error of a viewer. A wrongError replaces an earlier error of
// another type, because only a wrongError is a fault during a restart.
func (s *session) recordFault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bad := (*wrongError)(nil); s.err == nil || errors.As(err, &bad) && !errors.As(s.err, &bad) {
		s.err = err
	}
}

func (s *session) String() string { return s.url }

func (s *session) synth(name string) *load.Synth {
	number, _ := strconv.Atoi(strings.TrimPrefix(name, namePrefix))
	return load.NewSynth(number, s.cfg.Rate, keyInterval)
}

type publication struct {
	*httpflv.Publication
	session *session
	name    string
	tags    int64
	seq     uint64 // number of the last tag
}

var errBreakOff = errors.New("the publisher breaks off")

// Publish implements load.Protocol. The request is not bound to ctx, so that the stream can be
// ended properly after ctx has ended.
func (s *session) Publish(_ context.Context, name string) (load.Publication, error) {
	p, err := httpflv.Publish(s.hard, s.requests, s.url+"/live/"+name)
	if err != nil {
		return nil, err
	}
	s.done.add(published, 1)
	return &publication{Publication: p, session: s, name: name}, nil
}

func (p *publication) WriteTag(t load.Tag) error {
	if p.tags++; p.tags > headers {
		p.seq++
	}
	return p.Publication.WriteTag(t)
}

// headers is the number of tags that the Headers method of load.Synth returns.
const headers = 3

// Close implements load.Publication. If session.breaks is set, Close breaks off in the middle of a
// tag.
func (p *publication) Close() error {
	s := p.session
	if s.breaks {
		s.done.add(brokenOff, 1)
		if err := p.BreakOff(errBreakOff); !errors.Is(err, errBreakOff) && s.up.Err() == nil {
			return fmt.Errorf("%s broke off, and the server answers: %w", p.name, err)
		}
		return nil
	}
	s.mu.Lock()
	s.ends[p.name] = p.seq
	s.mu.Unlock()
	if err := p.Publication.Close(); err != nil {
		return err
	}
	var got struct{ Frames int64 }
	if err := json.Unmarshal(p.Answer, &got); err != nil {
		return fmt.Errorf("the summary of %s: %w", p.name, err)
	}
	if got.Frames != p.tags {
		err := wrong("%s: the server got %d tags, want %d", p.name, got.Frames, p.tags)
		s.recordFault(err)
		return err
	}
	return nil
}

type watcher interface {
	load.Subscription
	lastTag() uint64 // returns the highest tag number so far
}

// Watch implements load.Protocol. It cycles through four kinds of viewers: FLV and MP4, each over
// HTTP/1.1 and HTTP/2.
func (s *session) Watch(ctx context.Context, name string) (load.Subscription, error) {
	return s.watch(ctx, name)
}

func (s *session) watch(ctx context.Context, name string) (watcher, error) {
	number := s.watches.Add(1)
	client, path := s.http1, "/live/"+name
	asMP4 := number&1 != 0
	if asMP4 {
		path += ".mp4"
	}
	if number&2 != 0 {
		client = s.http2
	}
	sub, err := httpflv.Watch(ctx, client, s.watchURL+path)
	if err != nil {
		return nil, err
	}
	s.done.add(viewers, 1)
	v := view{Subscription: sub, session: s, ctx: ctx, name: strings.TrimPrefix(path, "/live/"),
		synth: s.synth(name)}
	if number&2 != 0 {
		s.done.add(viewersHTTP2, 1)
	}
	if asMP4 {
		s.done.add(viewersMP4, 1)
		return &mp4View{view: v}, nil
	}
	return &flvView{view: v}, nil
}

// followStream watches a stream to its end. It records a fault if the stream does not end in time,
// or ends before the publisher's last tag.
func (s *session) followStream(name string) {
	ctx, cancel := context.WithCancel(s.following)
	defer cancel()
	late := context.AfterFunc(s.published, cancel) // no viewer may wait for a stream that has ended
	v, err := s.watch(ctx, name)
	if !late() {
		if err == nil {
			_ = v.Close()
		}
		return
	}
	if err != nil {
		s.recordFault(fmt.Errorf("a viewer of %s: %w", name, err))
		return
	}
	defer v.Close()
	var a load.Arrival
	for err == nil {
		err = v.Next(&a)
	}
	if ctx.Err() != nil {
		s.recordFault(fmt.Errorf("a viewer of %s: no end %v after that of the stream", name,
			s.cfg.Settle))
		return
	}
	s.mu.Lock()
	end, proper := s.ends[name]
	s.mu.Unlock()
	switch {
	case err == io.EOF && proper && v.lastTag() != 0 && v.lastTag() != end && s.up.Err() == nil:
		s.recordFault(wrong("%s ended properly after tag %d, and was sent to %d", name, v.lastTag(), end))
	case err == io.EOF && proper:
		s.done.add(toTheEnd, 1)
	}
}

func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		err != nil && strings.Contains(err.Error(), "INTERNAL_ERROR")
}

type view struct {
	*httpflv.Subscription
	session *session
	ctx     context.Context // ends when the viewer disconnects
	name    string
	synth   *load.Synth
	last    uint64 // highest tag number so far
}

func (v *view) lastTag() uint64 { return v.last }

func (v *view) wrong(format string, args ...any) error {
	err := wrong("%s: %s", v.name, fmt.Sprintf(format, args...))
	v.session.recordFault(err)
	return err
}

// verify checks that a tag's payload is correct and from this session. It returns the tag's number.
func (v *view) verify(kind byte, payload []byte) (seq uint64, err error) {
	seq, sent, err := v.synth.Verify(kind, payload)
	switch {
	case err != nil:
		return 0, v.wrong("after tag %d: %v", v.last, err)
	case seq > 0 && sent.Before(v.session.began):
		return 0, v.wrong("tag %d is of an earlier publisher", seq)
	}
	return seq, nil
}

// An flvView watches a stream as FLV. Package internal/load counts its lost tags.
type flvView struct {
	view
	at uint32 // timestamp of the last tag
}

func (v *flvView) Next(a *load.Arrival) error {
	err := v.Subscription.Next(a)
	if errors.Is(err, httpflv.ErrFormat) {
		return v.wrong("%v, after tag %d", err, v.last)
	}
	if err != nil {
		return err
	}
	v.session.done.add(checked, int64(a.Size))
	seq, err := v.verify(a.Kind, a.Head)
	switch {
	case err != nil:
		return err
	case seq > 0 && a.Timestamp < v.at:
		return v.wrong("tag %d is at %d ms, after %d ms", seq, a.Timestamp, v.at)
	case seq > 0 && seq <= v.last:
		return v.wrong("tag %d after tag %d", seq, v.last)
	}
	if seq > 0 {
		v.last, v.at = seq, a.Timestamp
	}
	a.Head = a.Head[:min(a.Size, load.HeadLen)]
	return nil
}
