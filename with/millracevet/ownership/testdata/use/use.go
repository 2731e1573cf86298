package use

import (
	"bytes"
	"fmt"
	"io"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
)

type message struct {
	ref  millrace.Ref
	body millrace.Chain
}

func field(m *message) []byte {
	m.ref.Release()
	return m.ref.Bytes() // want `Bytes of it after its release at line 18`
}

func twice(c millrace.Chain) {
	c.Release()
	c.Release() // want `second release of c`
}

func copies(r millrace.Ref) {
	s := r
	r.Release()
	s.Release() // want `second release of s`
}

func usedCopy(p *millrace.Pool) {
	d := p.Get(1)
	r := d.Freeze(1)
	s := r
	s.Release()
	fmt.Println(r.Bytes()) // want `Bytes of r after its release`
}

func slice(p *millrace.Pool) {
	d := p.Get(1)
	r := d.Freeze(1)
	b := r.Bytes()
	r.Release()
	fmt.Println(b[0])      // want `valid only until the call at line`
	fmt.Println(string(b)) // want `valid only until the call at line`
}

func draft(p *millrace.Pool) millrace.Ref {
	d := p.Get(10)
	b := d.Bytes()
	r := d.Freeze(10)
	b[0] = 1 // want `valid only until the call at line`
	return r
}

func appended(r millrace.Ref, c *millrace.Chain) []byte {
	c.Append(&r)
	return r.Bytes() // want `Bytes of r, which is empty since the call at line`
}

func releaseAll(r *millrace.Ref) { r.Release() }

func byHelper(r millrace.Ref) []byte {
	releaseAll(&r)
	return r.Bytes() // want `Bytes of r after its release`
}

func toHelper(c millrace.Chain, w io.Writer) {
	c.Release()
	write(&c, w) // want `use of c after its release`
}

func write(c *millrace.Chain, w io.Writer) {
	for p := range c.All() {
		w.Write(p)
	}
}

func methodValue(c millrace.Chain, w io.Writer) {
	release := c.Release
	release()
	c.WriteTo(w) // want `WriteTo of c after its release`
}

func closure(r millrace.Ref) {
	func() { r.Release() }()
	fmt.Println(r.Bytes()) // want `Bytes of r after its release`
}

func nextRead(r *millrace.Reader) (string, error) {
	name, err := r.ReadSlice(' ')
	if err != nil {
		return "", err
	}
	value, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(name) + string(value), nil // want `valid only until the call at line`
}

func reader(c millrace.Chain) (byte, error) {
	v := c.Reader()
	c.Release()
	p := make([]byte, 1)
	_, err := v.Read(p) // want `valid only until the call at line`
	return p[0], err
}

func sent(out chan<- millrace.Ref, r millrace.Ref) {
	out <- r
	fmt.Println(r.Bytes()) // want `Bytes of r after it was sent`
	r.Release()            // want `release of r after it was sent`
}

func returned(r *millrace.Reader) ([]byte, error) {
	ref, err := r.ReadRef(10)
	if err != nil {
		return nil, err
	}
	defer ref.Release()
	return ref.Bytes(), nil // want `a slice of ref is returned, but the deferred Release ends its life`
}

func returnedRef(r *millrace.Reader) (millrace.Ref, error) {
	ref, err := r.ReadRef(10)
	if err != nil {
		return millrace.Ref{}, err
	}
	defer ref.Release()
	fmt.Println(ref.Len())
	return ref, nil // want `ref is returned, but the deferred Release ends its life`
}

func readerReleased(r *millrace.Reader) (byte, error) {
	r.Release()
	return r.ReadByte() // want `ReadByte of r after its release`
}

func arenaSlice(p *arena.Pool) {
	p.Write([]byte("text"))
	s := p.Take()
	b := s.Bytes()
	s.Release()
	fmt.Println(string(b)) // want `valid only until the call at line`
}

func arenaWritable(p *arena.Pool) millrace.Ref {
	head := p.Writable(4)
	p.Write([]byte("text"))
	head[0] = 4 // want `valid only until the call at line`
	return millrace.Ref{}
}

func loop(refs []millrace.Ref, w io.Writer) {
	for _, r := range refs {
		r.Release()
		w.Write(r.Bytes()) // want `Bytes of r after its release`
	}
}

func missingReturn(c millrace.Chain, w io.Writer) {
	if c.Len() > 100 {
		c.Release()
	}
	c.WriteTo(w) // want `WriteTo of c, which may have been released at line`
}

func takenInLoop(conns []*millrace.Writer, c millrace.Chain) {
	for _, w := range conns {
		w.WriteChain(&c) // want `WriteChain takes c in a loop, but it is empty after the first time`
	}
}

func discarded(c *millrace.Chain) {
	b := c.Bytes()
	c.Discard(10)
	fmt.Println(string(b)) // want `valid only until the call at line`
}

func promoted(s *arena.Slice) {
	b := s.Bytes()
	s.Promote()
	fmt.Println(string(b)) // want `valid only until the call at line`
}

func element(refs []millrace.Ref) []byte {
	refs[0].Release()
	return refs[0].Bytes() // want `Bytes of it after its release`
}

func sentInLoop(c millrace.Chain, ws []io.Writer) {
	for _, w := range ws {
		if _, err := c.WriteTo(w); err != nil { // want `WriteTo sends c in a loop, but it is empty after the first time`
			fmt.Println(err)
		}
	}
}

func partAfterRead(r *millrace.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	key, f := line[4:9], bytes.Fields(line)
	var c millrace.Chain
	defer c.Release()
	if err := r.ReadChain(&c, len(f[1])); err != nil {
		return "", err
	}
	return string(key) + // want `valid only until the call at line`
		string(f[0]), nil // want `valid only until the call at line`
}

type pair struct{ name, value []byte }

func parse(p []byte) *pair { return &pair{p[:2], p[2:]} }

func returnedPart(ref millrace.Ref) *pair {
	defer ref.Release()
	return parse(ref.Bytes()) // want `a slice of ref is returned, but the deferred Release ends its life`
}

func counted(c *millrace.Chain, w *millrace.Writer) (n int, err error) {
	err = w.WriteChain(c)
	return c.Len(), err // want `Len of c is 0 since the call at line`
}
