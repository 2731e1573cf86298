// Package panics has mistakes that panic in any build.
package panics

import (
	"io"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
)

func ref(p *millrace.Pool) millrace.Ref {
	d := p.Get(4)
	return d.Freeze(copy(d.Bytes(), "text"))
}

func refCopyUsed(p *millrace.Pool) []byte {
	r := ref(p)
	s := r
	r.Release()
	return s.Bytes() // want `Bytes of s after its release`
}

func refCopyReleased(p *millrace.Pool) {
	r := ref(p)
	s := r
	r.Release()
	s.Release() // want `second release of s`
}

func chainCopySent(p *millrace.Pool) {
	var c millrace.Chain
	c.AppendCopy([]byte("text"))
	d := c
	c.Release()
	d.WriteTo(io.Discard) // want `WriteTo of d after its release`
}

func chainCopyReleased(p *millrace.Pool) {
	var c millrace.Chain
	c.AppendCopy([]byte("text"))
	d := c
	c.Release()
	d.Release() // want `second release of d`
}

func draftReleased(p *millrace.Pool) millrace.Ref {
	d := p.Get(4)
	d.Release()
	return d.Freeze(1) // want `Freeze of d after its release`
}

func draftCopyUsed(p *millrace.Pool) []byte {
	d := p.Get(4)
	e := d
	d.Release()
	return e.Bytes() // want `Bytes of e after its release`
}

func arenaCopyReleased(p *arena.Pool) {
	p.Write([]byte("text"))
	s := p.Take()
	u := s
	s.Release()
	u.Release() // want `second release of u`
}
