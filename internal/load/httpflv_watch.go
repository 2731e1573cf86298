package load

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/millrace-io/millrace"
)

// flvSubscription reads tags and passes over what is in them.
type flvSubscription struct {
	release func() error
	raw     *millrace.Reader // of the connection
	body    *millrace.Reader // raw, or raw without chunks
	flv     bool             // the FLV header has been read
	head    [HeadLen]byte
}

// Watch implements Protocol.
func (h *httpFLV) Watch(ctx context.Context, name string) (Subscription, error) {
	conn, release, err := h.open(ctx, h.watch, h.head("GET", name, "Accept: */*\r\n"), func(c net.Conn) { c.Close() })
	if err != nil {
		return nil, err
	}
	r := millrace.NewReader(conn)
	header, err := readHead(r)
	if err != nil {
		r.Release()
		release()
		return nil, err
	}
	return &flvSubscription{release: release, raw: r, body: body(r, header)}, nil
}

const (
	flvHeader    = 9 + 4 // and the size of the tag before the first
	flvTagHeader = 11
	flvTagFooter = 4
)

func (s *flvSubscription) Next(a *Arrival) error {
	if !s.flv {
		if err := s.readHeader(); err != nil {
			return err
		}
	}
	r := s.body
	have := r.Buffered()
	hdr, err := r.Peek(flvTagHeader)
	if err != nil {
		if err == io.EOF && r.Buffered() > 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	a.Kind = hdr[0]
	a.Size = int(hdr[1])<<16 | int(hdr[2])<<8 | int(hdr[3])
	a.Timestamp = uint32(hdr[7])<<24 | uint32(hdr[4])<<16 | uint32(hdr[5])<<8 | uint32(hdr[6])
	n := min(a.Size, HeadLen)
	p, err := r.Peek(flvTagHeader + n)
	if err != nil {
		return inside(err)
	}
	a.Head = s.head[:copy(s.head[:], p[flvTagHeader:])]
	total := flvTagHeader + a.Size + flvTagFooter
	if err := r.Skip(total); err != nil {
		return inside(err)
	}
	a.Waited = have < total
	if a.Waited {
		a.At = time.Now()
	}
	return nil
}

func (s *flvSubscription) readHeader() error {
	p, err := s.body.Peek(flvHeader)
	if err != nil {
		return err
	}
	if string(p[:3]) != "FLV" {
		return errNotFLV
	}
	s.flv = true
	return s.body.Skip(flvHeader)
}

// inside is the end of a stream in the middle of a tag.
func inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *flvSubscription) Close() error {
	err := s.release()
	if s.body != s.raw {
		s.body.Release()
	}
	s.raw.Release()
	return err
}
