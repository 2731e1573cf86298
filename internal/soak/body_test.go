package soak

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"

	"github.com/millrace-io/millrace/internal/load"
)

// A flip changes one bit of a body, not far from the beginning.
type flip struct {
	io.ReadCloser
	done bool
}

func (f *flip) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if n > 0 && !f.done {
		f.done = true
		p[n/2] ^= 4
	}
	return n, err
}

// A cutter takes a tag out of a film, or everything from one key frame to the next.
type cutter struct {
	io.ReadCloser
	r       *bufio.Reader
	group   bool
	tags    int
	kept    []byte // what goes if a key frame comes
	pending []byte
	begun   bool
	done    bool
}

// cutAt is the number of the tag, of those that a viewer gets, that is missing.
const cutAt = 8

func (c *cutter) Read(p []byte) (int, error) {
	for len(c.pending) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

func (c *cutter) next() error {
	size := len(flvHead)
	if c.begun {
		head, err := c.r.Peek(flvTagHead)
		if err != nil && len(c.kept) > 0 {
			c.pending, c.kept = c.kept, nil
			return nil
		}
		if err != nil {
			return err
		}
		size = flvTagHead + int(head[1])<<16 + int(head[2])<<8 + int(head[3]) + flvTagFoot
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return err
	}
	if !c.begun {
		c.begun, c.pending = true, b
		return nil
	}
	key := b[0] == load.Video && b[flvTagHead] == 0x17
	c.tags++
	switch {
	case c.done || c.tags < cutAt:
	case !c.group && !key:
		c.done = true
		return nil
	case c.group && !key:
		c.kept = append(c.kept, b...)
		return nil
	case c.group:
		c.done = len(c.kept) > 0
		c.kept = nil
	}
	c.pending = b
	return nil
}

// A shorter passes on all of a body but its last byte.
type shorter struct {
	io.ReadCloser
	last byte
	has  bool // last is to come yet
}

func (s *shorter) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if n == 0 {
		return 0, err
	}
	last := p[n-1]
	if s.has {
		copy(p[1:n], p[:n-1])
		p[0] = s.last
	} else {
		n--
	}
	s.last, s.has = last, true
	return n, err
}

// A breaker breaks off after so many bytes.
type breaker struct {
	io.ReadCloser
	left int
}

func (b *breaker) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// A mender makes a mistake in a movie: in its second fragment, in its last one, or in a whole group of pictures.
type mender struct {
	io.ReadCloser
	r       *bufio.Reader
	fault   string
	parts   int    // fragments so far
	head    []byte // the last moov
	held    []byte // the newest fragment, if the last one is not passed on; the rest of a group, which goes if a key frame comes
	pending []byte
}

func (m *mender) Read(p []byte) (int, error) {
	for len(m.pending) == 0 {
		if err := m.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, m.pending)
	m.pending = m.pending[n:]
	return n, nil
}

// next makes a header's box, or a fragment, of what comes.
func (m *mender) next() error {
	b, err := m.box(nil)
	if err == io.EOF && len(m.held) > 0 && m.fault == "MP4 group" {
		m.pending, m.held = m.held, nil
		return nil
	}
	if err != nil {
		return err
	}
	if string(b[4:8]) != "moof" {
		m.head, m.pending = b, b
		return nil
	}
	if b, err = m.box(b); err != nil {
		return err
	}
	m.parts++
	m.pending = m.spoil(b)
	return nil
}

// box appends the next box to b.
func (m *mender) box(b []byte) ([]byte, error) {
	head, err := m.r.Peek(boxHead)
	if err != nil {
		return b, err
	}
	at, size := len(b), int(binary.BigEndian.Uint32(head))
	b = append(b, make([]byte, size)...)
	_, err = io.ReadFull(m.r, b[at:])
	return b, err
}

// spoil returns what is passed on instead of fragment b.
func (m *mender) spoil(b []byte) []byte {
	if m.fault == "MP4 last" {
		b, m.held = m.held, b
		return b
	}
	if m.fault == "MP4 group" {
		return m.leap(b)
	}
	if m.parts != 2 {
		return b
	}
	switch m.fault {
	case "MP4 byte":
		b[len(b)-1] ^= 1
	case "MP4 fragment":
		return nil
	case "MP4 twice":
		return append(bytes.Clone(b), b...)
	case "MP4 header":
		return append(m.head, b...)
	case "MP4 late":
		moveTime(b, 500)
	case "MP4 early":
		moveTime(b, -30)
	case "MP4 box":
		b[bytes.Index(b, []byte("traf"))-1]++
	}
	return b
}

// leap leaves out fragments of a group from the fourth of all on.
func (m *mender) leap(b []byte) []byte {
	key := binary.BigEndian.Uint32(b[bytes.Index(b, []byte("trun"))+24:]) == keySample
	switch {
	case !key && (m.parts == 4 || len(m.held) > 0):
		m.held = append(m.held, b...)
		return nil
	case len(m.held) > 0:
		m.held = nil
		return withoutSound(b) // it came before the key frame
	}
	return b
}
