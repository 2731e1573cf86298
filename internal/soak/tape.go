package soak

import (
	"encoding/binary"
	"io"
)

// tapeUnit is the length of the pieces that a tape consists of: the piece's number, and a number that follows from it.
// A viewer that joins in the middle of a unit knows where it is after two of them.
const tapeUnit = 16

// A tape says what each byte is of a stream that has no form.
type tape struct{ id uint64 }

// fill writes what the tape has from offset off on.
func (t tape) fill(p []byte, off int64) {
	var unit [tapeUnit]byte
	for len(p) > 0 {
		t.unit(&unit, uint64(off/tapeUnit))
		n := copy(p, unit[off%tapeUnit:])
		p, off = p[n:], off+int64(n)
	}
}

func (t tape) unit(p *[tapeUnit]byte, number uint64) {
	binary.BigEndian.PutUint64(p[:], number)
	binary.BigEndian.PutUint64(p[8:], mix(t.id+number))
}

// locate returns the offset at which p, of two units or more, is on the tape.
func (t tape) locate(p []byte) (off int64, ok bool) {
	for phase := range int64(tapeUnit) {
		var unit [tapeUnit]byte
		number := binary.BigEndian.Uint64(p[phase:])
		t.unit(&unit, number)
		if number > 0 && number < 1<<40 || phase == 0 && number == 0 {
			if string(p[phase:phase+tapeUnit]) == string(unit[:]) {
				return int64(number)*tapeUnit - phase, true
			}
		}
	}
	return 0, false
}

// A tapeVerifier reads what a viewer of a tape gets, and compares every byte with what was sent.
type tapeVerifier struct {
	name  string
	tapes func() []tape // that are being sent under the name, or were a moment ago

	tape  tape // valid once found
	found bool
	off   int64 // of the next byte
	read  int64
	buf   [32 << 10]byte
	have  int // buf[:have] has come and was not compared yet
}

// verify reads to the end. It returns nil for a proper one.
func (v *tapeVerifier) verify(body io.Reader) error {
	body = cutReader{body}
	for {
		n, err := body.Read(v.buf[v.have:])
		v.have += n
		v.read += int64(n)
		if bad := v.compare(); bad != nil {
			return bad
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// compare looks at what has come, and leaves what is too little to know where it belongs.
func (v *tapeVerifier) compare() error {
	var want [len(v.buf)]byte
	for v.have > 0 {
		good := 0
		if v.found {
			v.tape.fill(want[:v.have], v.off)
			good = firstDifference(v.buf[:v.have], want[:v.have])
			v.off += int64(good)
			v.have = copy(v.buf[:], v.buf[good:v.have])
		}
		if v.have < 2*tapeUnit {
			return nil
		}
		if err := v.relocate(); err != nil {
			return err
		}
	}
	return nil
}

// relocate finds where on a tape the viewer begins. Later nothing is passed over: nobody can tell where unknown bytes
// may be cut, and a viewer that is too far behind is disconnected.
func (v *tapeVerifier) relocate() error {
	p := v.buf[:v.have]
	if v.found {
		return wrong("%s: wrong bytes at offset %d: %x", v.name, v.off, p[:2*tapeUnit])
	}
	for _, t := range v.tapes() {
		if off, ok := t.locate(p); ok {
			v.tape, v.off, v.found = t, off, true
			return nil
		}
	}
	return wrong("%s: the stream begins with bytes that nobody sent here: %x", v.name, p[:2*tapeUnit])
}
