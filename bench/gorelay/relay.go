// Package gorelay has relays for live FLV streams over HTTP, for comparison with millrace serve.
// They use only the standard library.
//
// By default, a [Relay] sends each viewer a copy of each tag with Write and Flush. If [Relay.Share]
// is set, all viewers use the same memory, and the waiting tags of a viewer are written to a
// hijacked connection with one writev. A [Bare] shows the minimum cost of a relay, because it does
// almost nothing outside the kernel.
package gorelay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/bench/httpflv"
)

const (
	maxTag = 8 << 20 // in bytes; a keyframe at a high bit rate has about 2 MB
	// maxWait is the number of tags that may wait for a viewer, about seven seconds of a stream.
	// Further tags are dropped.
	maxWait = 512
	// maxGroup is the maximum number of tags that are kept for new viewers. It is less than
	// maxWait, so that a new viewer's queue has room for later tags.
	maxGroup = maxWait / 2

	tagHeader = 11
	tagFooter = 4
)

// A Relay receives streams at POST /live/NAME and serves them at GET /live/NAME. It has no
// authentication and no limits: it is for benchmarks on one machine only.
type Relay struct {
	// Share makes all viewers of a stream use the same memory. Otherwise, each viewer gets a copy
	// of each tag.
	Share bool

	mu      sync.Mutex
	streams map[string]*stream
}

func (r *Relay) stream(name string) *stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streams[name]
	if s == nil {
		if r.streams == nil {
			r.streams = make(map[string]*stream)
		}
		s = &stream{share: r.Share, viewers: make(map[*viewer]bool)}
		r.streams[name] = s
	}
	return s
}

// ServeHTTP implements http.Handler.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	name, ok := strings.CutPrefix(req.URL.Path, "/live/")
	switch {
	case !ok:
		http.NotFound(w, req)
	case req.Method == http.MethodPost || req.Method == http.MethodPut:
		if err := r.stream(name).publish(req.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	case r.Share:
		r.stream(name).watchShared(w)
	default:
		r.stream(name).watchCopies(w, req)
	}
}

type stream struct {
	share bool

	mu    sync.Mutex
	live  bool
	heads [3][]byte // metadata and sequence headers, for viewers that join later
	// The tags since the last keyframe, for viewers that join later; nil if there are more than
	// maxGroup.
	group   [][]byte
	viewers map[*viewer]bool
}

// A viewer receives tags of a stream, beginning with a keyframe.
type viewer struct {
	tags    chan []byte // closed when the stream ends
	started bool        // guarded by the stream's mu
}

func (s *stream) publish(body io.Reader) error {
	s.mu.Lock()
	taken := s.live
	s.live = true
	s.mu.Unlock()
	if taken {
		return errors.New("the stream has a publisher")
	}
	defer s.end()
	r := bufio.NewReader(body)
	if _, err := io.ReadFull(r, make([]byte, len(httpflv.Header))); err != nil {
		return err
	}
	for {
		head, err := r.Peek(tagHeader)
		if err == io.EOF && len(head) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		size := int(binary.BigEndian.Uint32(head) & 0xffffff)
		if size > maxTag {
			return fmt.Errorf("a tag of %d bytes: the limit is %d", size, maxTag)
		}
		tag := make([]byte, tagHeader+size+tagFooter)
		if _, err := io.ReadFull(r, tag); err != nil {
			return err
		}
		s.send(tag)
	}
}

func (s *stream) send(tag []byte) {
	at, key := classify(tag)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case at >= 0:
		s.heads[at] = tag
	case key:
		s.group = append(s.group[:0:0], tag)
	case len(s.group) == maxGroup:
		s.group = nil
	case len(s.group) > 0:
		s.group = append(s.group, tag)
	}
	for v := range s.viewers {
		switch {
		case v.started:
			v.give(tag, s.share)
		case key:
			s.start(v)
		}
	}
}

// start sends the headers and the tags since the last keyframe to v. The caller must hold s.mu.
func (s *stream) start(v *viewer) {
	v.started = true
	for _, h := range s.heads {
		if h != nil {
			v.give(h, s.share)
		}
	}
	for _, tag := range s.group {
		v.give(tag, s.share)
	}
}

func (v *viewer) give(tag []byte, share bool) {
	if !share {
		tag = append([]byte(nil), tag...)
	}
	select {
	case v.tags <- tag:
	default: // the tag is dropped, so that a slow viewer does not delay the others
	}
}

// classify returns the index at which stream.heads keeps the tag, or -1. It also reports whether
// the tag is a keyframe.
func classify(tag []byte) (head int, key bool) {
	payload := tag[tagHeader : len(tag)-tagFooter]
	if tag[0] == 18 {
		return 0, false
	}
	if len(payload) < 2 {
		return -1, false
	}
	switch {
	case tag[0] == 8 && payload[0]>>4 == 10 && payload[1] == 0:
		return 1, false
	case tag[0] == 9 && payload[0]&15 == 7 && payload[1] == 0:
		return 2, false
	}
	return -1, tag[0] == 9 && payload[0]>>4 == 1
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.viewers {
		close(v.tags)
	}
	clear(s.viewers)
	s.live, s.heads, s.group = false, [3][]byte{}, nil
}

func (s *stream) join() *viewer {
	v := &viewer{tags: make(chan []byte, maxWait)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.viewers[v] = true
	if len(s.group) > 0 {
		s.start(v)
	}
	return v
}

func (s *stream) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
}

func (s *stream) watchCopies(w http.ResponseWriter, req *http.Request) {
	v := s.join()
	defer s.leave(v)
	w.Header().Set("Content-Type", "video/x-flv")
	rc := http.NewResponseController(w)
	next := []byte(httpflv.Header)
	for {
		if _, err := w.Write(next); err != nil {
			return
		}
		if err := rc.Flush(); err != nil {
			return
		}
		var ok bool
		select {
		case next, ok = <-v.tags:
			if !ok {
				return
			}
		case <-req.Context().Done():
			return
		}
	}
}

const hijackedHead = "HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\nConnection: close\r\n\r\n" + httpflv.Header

func (s *stream) watchShared(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	v := s.join()
	defer s.leave(v)
	if _, err := io.WriteString(conn, hijackedHead); err != nil {
		return
	}
	pieces := make([][]byte, 0, maxWait)
	for tag := range v.tags {
		pieces = append(pieces[:0], tag)
		for len(v.tags) > 0 {
			pieces = append(pieces, <-v.tags)
		}
		bufs := net.Buffers(pieces)
		if _, err := bufs.WriteTo(conn); err != nil {
			return
		}
	}
}
