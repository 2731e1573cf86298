package redisbuf

import "github.com/millrace-io/millrace"

// recordLen is how much one TLS record carries at most. Pieces that fit into one together are sent together, because each
// Write makes a record, and a packet.
const recordLen = 16 << 10

// writePieces sends what was pushed by the connection's own Write.
func (w *wire) writePieces() error {
	if len(w.out) == 1 {
		return w.write(w.out[0])
	}
	d := millrace.DefaultPool.Get(recordLen)
	defer d.Release()
	buf := d.Bytes()[:recordLen]
	n := 0
	for _, p := range w.out {
		for len(p) > 0 {
			if n == 0 && len(p) >= recordLen {
				whole := len(p) / recordLen * recordLen
				if err := w.write(p[:whole]); err != nil {
					return err
				}
				p = p[whole:]
				continue
			}
			m := copy(buf[n:], p)
			p = p[m:]
			if n += m; n == recordLen {
				if err := w.write(buf); err != nil {
					return err
				}
				n = 0
			}
		}
	}
	if n == 0 {
		return nil
	}
	return w.write(buf[:n])
}
