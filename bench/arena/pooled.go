package arena

import (
	"slices"
	"sync"
)

// pooled takes buffers, which hold any frame, from a sync.Pool.
type pooled struct {
	pool  sync.Pool
	buf   *[]byte // nil between frames
	frame []byte
}

func openPooled(s Shape) *pooled {
	return &pooled{pool: sync.Pool{New: func() any {
		b := make([]byte, 0, s.Frame)
		return &b
	}}}
}

func (p *pooled) Writable(n int) []byte {
	from := len(p.frame)
	if from+n > cap(p.frame) {
		p.grow(n)
	}
	p.frame = p.frame[:from+n]
	return p.frame[from:]
}

func (p *pooled) grow(n int) {
	if p.buf == nil {
		p.buf = p.pool.Get().(*[]byte)
		p.frame = (*p.buf)[:0]
	}
	p.frame = slices.Grow(p.frame, n)
}

func (p *pooled) Take() pooledSlice {
	*p.buf = p.frame
	s := pooledSlice{&p.pool, p.buf}
	p.buf, p.frame = nil, nil
	return s
}

type pooledSlice struct {
	pool *sync.Pool
	buf  *[]byte
}

func (s *pooledSlice) Bytes() []byte { return *s.buf }
func (s *pooledSlice) Release()      { s.pool.Put(s.buf) }
