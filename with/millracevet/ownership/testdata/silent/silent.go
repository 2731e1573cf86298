// Package silent has the mistakes that no build without tags reports.
package silent

import (
	"net"
	"sync"

	"github.com/millrace-io/millrace"
)

// 1. A forgotten Release.
func forgotten(p *millrace.Pool, conn net.Conn) error {
	d := p.Get(64)
	n := copy(d.Bytes(), "hello")
	r := d.Freeze(n) // want `r is not released on the path that ends at line `
	_, err := conn.Write(r.Bytes())
	return err
}

// 2. Use of the released variable.
func used(p *millrace.Pool, conn net.Conn) {
	d := p.Get(64)
	r := d.Freeze(copy(d.Bytes(), "hello"))
	r.Release()
	conn.Write(r.Bytes()) // want `Bytes of r after its release at line `
}

// 3. A Chain after its Release.
func chain(conn net.Conn) error {
	var c millrace.Chain
	c.AppendCopy([]byte("hello"))
	c.Release()
	_, err := c.WriteTo(conn) // want `WriteTo of c after its release at line `
	return err
}

// 4. A slice kept from ReadRange.
func kept(r *millrace.Reader) (all [][]byte, err error) {
	err = r.ReadRange(100, func(p []byte) {
		all = append(all, p) // want `a slice that is valid only during this call is stored outside of it`
	})
	return all, err
}

// 5. A slice kept from Peek.
type header struct{ magic []byte }

func peeked(r *millrace.Reader, h *header) error {
	p, err := r.Peek(4)
	if err != nil {
		return err
	}
	h.magic = p // want `a slice that is valid only until the next read is stored in a field`
	return r.Skip(4)
}

// 6. A slice kept from Ref.Bytes.
func refs(r *millrace.Reader, byKey map[string][]byte) error {
	ref, err := r.ReadRef(10)
	if err != nil {
		return err
	}
	defer ref.Release()
	byKey["key"] = ref.Bytes() // want `a slice of ref, which this function releases, is stored in a map`
	return nil
}

// 7. A Reader that is dropped.
func dropped(conn net.Conn) (byte, error) {
	r := millrace.NewReader(conn) // want `the millrace.Reader is not released on the path that ends at line `
	return r.ReadByte()
}

// 8. Two goroutines at one Chain.
func two(c *millrace.Chain, w [2]net.Conn) {
	var wg sync.WaitGroup
	for _, conn := range w {
		wg.Go(func() { c.WriteTo(conn) }) // want `two goroutines use c at the same time`
	}
	wg.Wait()
}
