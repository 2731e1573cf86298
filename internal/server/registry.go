package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/broadcast"
)

var (
	errTaken    = errors.New("this name has a publisher already")
	errDraining = errors.New("the server is shutting down")
	errAbsent   = errors.New("nobody publishes under this name")
	errEnded    = errors.New("the stream has just ended")
)

// A registry knows the streams by their names, and who waits for one that does not exist yet. A name belongs to the
// publisher from claim to free; viewers find the stream from announce on, when its format is known.
type registry struct {
	max int

	mu      sync.Mutex
	streams map[string]*stream
	waiting map[string]*wait
	busy    int // publishers that are being served, or answered
	closed  bool
	idle    chan struct{} // closed when the registry is closed and nobody is being served
}

// A wait is what all viewers that wait for one name share.
type wait struct {
	viewers int           // how many
	muxed   int           // of these, how many want MP4
	found   chan struct{} // closed when stream is set, or when the registry closes
	stream  *stream

	// A cursor for each, so that they get the stream from its first byte on.
	first, firstMuxed []*broadcast.Cursor
}

// add counts n viewers more.
func (w *wait) add(n int, ext string) {
	w.viewers += n
	if ext == extMP4 {
		w.muxed += n
	}
}

// take returns one of the cursors, or nil if there are none.
func (w *wait) take(ext string) *broadcast.Cursor {
	list := &w.first
	if ext == extMP4 {
		list = &w.firstMuxed
	}
	n := len(*list)
	if n == 0 {
		return nil
	}
	c := (*list)[n-1]
	*list = (*list)[:n-1]
	return c
}

func newRegistry(maxStreams int) *registry {
	return &registry{max: maxStreams, streams: make(map[string]*stream), waiting: make(map[string]*wait), idle: make(chan struct{})}
}

// A name is 1 to maxName of nameBytes.
const (
	maxName   = 64
	nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// checkName refuses a name that does not have the form of names, or that could not be watched because its end names a
// format.
func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.Trim(name, nameBytes) != "" {
		return fmt.Errorf("bad stream name %.80q: want 1 to 64 of A-Z a-z 0-9 . _ -", name)
	}
	if strings.Trim(name, ".") == "" {
		return fmt.Errorf("bad stream name %q: dots alone mean a directory", name)
	}
	if strings.HasSuffix(name, extFLV) || strings.HasSuffix(name, extMP4) {
		return fmt.Errorf("bad stream name %q: an ending of .flv or .mp4 asks for a format", name)
	}
	return nil
}

// claim reserves s.name for s. The caller calls free when the stream has ended, and leave when its publisher has been answered.
func (r *registry) claim(s *stream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errDraining
	}
	if r.streams[s.name] != nil {
		return errTaken
	}
	if len(r.streams) >= r.max {
		return fmt.Errorf("the server has %d streams, as many as --max-streams allows", r.max)
	}
	r.streams[s.name] = s
	r.busy++
	return nil
}

// leave notes that a publisher has been served.
func (r *registry) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	r.settle()
}

func (r *registry) settle() {
	if r.closed && r.busy == 0 {
		close(r.idle)
	}
}

// announce lets viewers find s.
func (r *registry) announce(s *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.announced = true
	if w := r.waiting[s.name]; w != nil {
		w.stream = s
		s.await(w.viewers)
		for range w.viewers - w.muxed {
			w.first = append(w.first, s.cursor(s.live))
		}
		for range w.muxed {
			w.firstMuxed = append(w.firstMuxed, s.source())
		}
		close(w.found)
		delete(r.waiting, s.name)
	}
}

// free gives up the name of s.
func (r *registry) free(s *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[s.name] == s {
		delete(r.streams, s.name)
	}
}

// find returns the stream that viewers see under name, or nil.
func (r *registry) find(name string) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.visible(name)
}

func (r *registry) visible(name string) *stream {
	if s := r.streams[name]; s != nil && s.announced {
		return s
	}
	return nil
}

// await returns the stream, and waits for it until ctx is done: then it returns errAbsent. A caller that has waited
// also gets a cursor at the stream's start, which is the caller's to close, and calls the stream's arrived.
func (r *registry) await(ctx context.Context, name, ext string) (*stream, *broadcast.Cursor, error) {
	r.mu.Lock()
	if s := r.visible(name); s != nil || r.closed {
		r.mu.Unlock()
		if s == nil {
			return nil, nil, errDraining
		}
		return s, nil, nil
	}
	w := r.waiting[name]
	if w == nil {
		w = &wait{found: make(chan struct{})}
		r.waiting[name] = w
	}
	w.add(1, ext)
	r.mu.Unlock()

	select {
	case <-w.found:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := w.take(ext); c != nil { // even when the time was over at the same moment
		return w.stream, c, nil
	}
	if r.waiting[name] != w {
		return nil, nil, errDraining
	}
	if w.add(-1, ext); w.viewers == 0 {
		delete(r.waiting, name)
	}
	return nil, nil, errAbsent
}

// close refuses new streams from now on, and sends away those that wait for one. It returns a channel that is closed
// when the last publisher has been served.
func (r *registry) close() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.idle
	}
	r.closed = true
	r.settle()
	for name, w := range r.waiting {
		close(w.found)
		delete(r.waiting, name)
	}
	return r.idle
}

// all returns the streams that viewers see, by name.
func (r *registry) all() []*stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*stream, 0, len(r.streams))
	for _, s := range r.streams {
		if s.announced {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *stream) int { return strings.Compare(a.name, b.name) })
	return list
}
