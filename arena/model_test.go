package arena_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// A lent is a held Slice with its expected contents.
type lent struct {
	slice  arena.Slice
	want   []byte
	at     int    // offset in the Pool's memory, or -1
	number uint64 // number of the frame
}

// A model is a Pool and its expected behaviour. It has copies of all held frames, and computes from
// them whether a frame has room in memory, and its mode. The place in memory is the Pool's choice.
// The model compares after each step, because no call may change another owner's frame.
type model struct {
	t        testing.TB
	pool     *arena.Pool
	capacity int
	slots    int
	fallback bool
	held     []lent // in the order of Take
	calls    []string
	written  byte // the last byte written

	frame  []byte
	start  int
	at     int // offset of the frame in memory, or -1
	onHeap bool
	mode   arena.Mode
	looks  int
	stats  arena.Stats
	taken  uint64
}

func newModel(t testing.TB, capacity, slots int, fallback bool) *model {
	return &model{
		t: t, pool: newPool(capacity, slots, fallback), capacity: capacity, slots: slots,
		fallback: fallback, at: -1,
		calls: []string{fmt.Sprintf("NewPool(%d, %d slots, fallback %t)", capacity, slots,
			fallback)},
	}
}

func newPool(capacity, slots int, fallback bool) *arena.Pool {
	if fallback {
		return arena.NewPool(capacity, arena.Slots(slots))
	}
	return arena.NewPool(capacity, arena.Slots(slots), arena.NoHeap())
}

func (m *model) note(format string, args ...any) {
	m.calls = append(m.calls, fmt.Sprintf(format, args...))
	if len(m.calls) > 60 {
		m.calls = append(m.calls[:1], m.calls[len(m.calls)-30:]...)
	}
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	if !m.t.Failed() {
		m.t.Errorf("%s\nafter: %s", fmt.Sprintf(format, args...), strings.Join(m.calls, ", "))
	}
}

// inMemory returns the held frames in the Pool's memory, sorted by offset.
func (m *model) inMemory() []lent {
	var in []lent
	for _, l := range m.held {
		if l.at >= 0 {
			in = append(in, l)
		}
	}
	slices.SortFunc(in, func(a, b lent) int { return a.at - b.at })
	return in
}

// gaps returns the offsets of the beginnings and ends of free memory.
func (m *model) gaps() (gaps [][2]int) {
	from := 0
	for _, l := range m.inMemory() {
		gaps = append(gaps, [2]int{from, l.at})
		from = l.at + len(l.want)
	}
	return append(gaps, [2]int{from, m.capacity})
}

// fits reports whether there is a slot and a gap for a frame of n bytes.
func (m *model) fits(n int) bool {
	gaps := m.gaps()
	return len(gaps) <= m.slots && slices.ContainsFunc(gaps,
		func(g [2]int) bool { return g[1]-g[0] >= n })
}

// hasRoom reports whether n bytes can be added to the frame.
func (m *model) hasRoom(n int) bool {
	return n == 0 || m.onHeap || m.fallback || m.fits(len(m.frame)+n)
}

// grown reads where the Pool has placed the frame for n more bytes, and checks that the place is
// allowed.
func (m *model) grown(n int) {
	if n == 0 || m.onHeap {
		return
	}
	size := len(m.frame) + n
	at, placed := arena.PlaceOf(m.pool)
	if !placed || at >= 0 != m.fits(size) {
		m.errorf("the frame of %d bytes is at %d, placed %t, and fits into memory: %t", size, at,
			placed, m.fits(size))
	}
	mode := arena.Alloc
	if at >= 0 {
		gaps := m.gaps()
		i := slices.IndexFunc(gaps, func(g [2]int) bool { return g[0] <= at && at+size <= g[1] })
		if i < 0 {
			m.errorf("the frame of %d bytes is at %d, and %v are free", size, at, gaps)
		}
		mode = arena.Front
		if i == len(gaps)-1 {
			mode = arena.Back
		}
		if at == m.at && m.pool.Mode() == m.mode {
			mode = m.mode // the frame was placed when more frames were held
		}
	} else if len(m.frame) > 0 {
		m.stats.Spills++
	}
	m.at, m.onHeap, m.mode = at, at < 0, mode
}

// writable adds n bytes, and writes to them.
func (m *model) writable(n int) {
	m.note("Writable(%d)", n)
	ok := m.hasRoom(n)
	p := m.pool.Writable(n)
	if (p != nil) != ok {
		m.errorf("Writable(%d) is nil: %t, want %t", n, p == nil, !ok)
		return
	}
	if ok {
		if len(p) != n || cap(p) != n {
			m.errorf("Writable(%d) has %d bytes and room for %d", n, len(p), cap(p))
			return
		}
		for i := range p {
			m.written++
			p[i] = m.written
		}
		m.grown(n)
		m.frame = append(m.frame, p...)
	}
	m.look()
}

// write adds n bytes with Write: new bytes, or some of the frame itself.
func (m *model) write(n int, own bool) {
	m.note("Write(%d), own %t", n, own)
	p := make([]byte, n)
	for i := range p {
		m.written++
		p[i] = m.written
	}
	from := p
	if own {
		n = min(n, len(m.frame))
		from = m.pool.Data(n)
		p = bytes.Clone(from)
	}
	ok := m.hasRoom(n)
	got, err := m.pool.Write(from)
	if ok && (got != n || err != nil) || !ok && (got != 0 || err != arena.ErrFull) {
		m.errorf("Write(%d bytes) = %d, %v, and there is room: %t", n, got, err, ok)
		return
	}
	if ok {
		m.grown(n)
		m.frame = append(m.frame, p...)
	}
	m.look()
}

func (m *model) truncate(n int) {
	m.note("Truncate(%d)", n)
	m.pool.Truncate(n)
	m.frame = m.frame[:n]
	m.start = min(m.start, n)
	if n == 0 {
		m.onHeap = false
	}
	m.look()
}

func (m *model) setStart(i int) {
	m.note("SetStart(%d)", i)
	m.pool.SetStart(i)
	m.start = i
	m.look()
}

// seal encrypts the frame with one of aeads. The frame is then opened, or forged and opened, or
// neither. The header stays with the frame.
func (m *model) seal(which, then int) {
	a := aeads[which%len(aeads)]
	m.note("Seal with %s", a.name)
	nonce, room := make([]byte, a.aead.NonceSize()), 0
	if a.aead.Overhead() > 0 {
		room = max(a.aead.Overhead(), 16) // Seal requires at least this
	}
	ok := m.hasRoom(room)
	if err := m.pool.Seal(a.aead, nonce, m.pool.Data(m.start)); (err == nil) != ok || err != nil &&
		err != arena.ErrFull {
		m.errorf("Seal: %v, and there is room: %t", err, ok)
		return
	}
	if !ok {
		m.look()
		return
	}
	m.grown(room)
	header, plain := m.frame[:m.start:m.start], m.frame[m.start:]
	sealed := bytes.Clone(m.pool.Data(m.pool.Len())[m.start:])
	if got, err := a.aead.Open(nil, nonce, sealed, header); err != nil || !bytes.Equal(got, plain) {
		m.errorf("the AEAD opens what was sealed to %x, %v, want %x", got, err, plain)
	}
	m.frame = append(header, sealed...)
	m.look()
	switch then % 3 {
	case 0:
		return
	case 1:
		if err := m.pool.Open(a.aead, nonce, m.pool.Data(m.start)); err != nil {
			m.errorf("Open: %v", err)
		}
		m.frame = append(header, plain...)
	case 2:
		if a.tag == 0 {
			return // each byte string is the ciphertext of another
		}
		m.note("Open of a forged one")
		m.pool.Data(m.pool.Len())[m.start+then%len(sealed)] ^= 1
		if err := m.pool.Open(a.aead, nonce, m.pool.Data(m.start)); err == nil {
			m.errorf("opened what was forged")
		}
		m.frame = header
	}
	m.look()
}

func (m *model) take() {
	m.note("Take of %d", len(m.frame))
	l := lent{slice: m.pool.Take(), want: m.frame, at: m.at, number: m.taken}
	if len(m.frame) > 0 {
		m.taken++
		m.stats.Modes[m.mode].Frames++
		m.stats.Modes[m.mode].Bytes += uint64(len(m.frame))
		m.held = append(m.held, l)
		if at := arena.PlaceOfSlice(m.pool, l.slice); at != l.at {
			m.errorf("the Slice is at %d, want %d", at, l.at)
		}
	} else if l.slice != (arena.Slice{}) {
		m.errorf("Take of an empty frame is not the zero Slice")
	}
	if p := l.slice.Bytes(); cap(p) != len(m.frame) {
		m.errorf("a Slice of %d bytes has room for %d", len(m.frame), cap(p))
	}
	m.frame, m.start, m.at, m.onHeap = nil, 0, -1, false
	m.look()
}

// release releases the i-th held Slice.
func (m *model) release(i int) {
	m.note("Release %d of %d", i, len(m.held))
	m.held[i].slice.Release()
	if n := m.held[i].slice.Len(); n != 0 {
		m.errorf("Release left %d bytes", n)
	}
	m.held[i].slice.Release() // has no effect
	m.held = slices.Delete(m.held, i, i+1)
	m.look()
}

func (m *model) releaseAll() {
	for len(m.held) > 0 {
		m.release(len(m.held) / 2)
	}
}

func (m *model) promote(i int) {
	m.note("Promote %d of %d", i, len(m.held))
	l := &m.held[i]
	if moved := l.slice.Promote(); moved != (l.at >= 0) {
		m.errorf("Promote = %t of a Slice at %d", moved, l.at)
	}
	l.at = -1
	if at := arena.PlaceOfSlice(m.pool, l.slice); at >= 0 {
		m.errorf("the Slice is at %d after Promote", at)
	}
	m.look()
}

// scribble writes to a Slice, as its owner may.
func (m *model) scribble(i int) {
	m.note("scribble on %d of %d", i, len(m.held))
	l := &m.held[i]
	for j := range l.want {
		m.written++
		l.want[j] = m.written
	}
	copy(l.slice.Bytes(), l.want)
	m.look()
}

// look compares the Pool with the model.
func (m *model) look() {
	m.t.Helper()
	if err := arena.Broken(m.pool); err != nil {
		m.errorf("%v", err)
	}
	if m.pool.Len() != len(m.frame) || !bytes.Equal(m.pool.Data(len(m.frame)+1), m.frame) {
		m.errorf("the frame has %d bytes: %x, want %x", m.pool.Len(), m.pool.Data(m.capacity),
			m.frame)
	}
	if half := m.pool.Data(len(m.frame) / 2); !bytes.Equal(half, m.frame[:len(m.frame)/2]) ||
		cap(half) != len(half) {
		m.errorf("half of the frame has %d bytes and room for %d", len(half), cap(half))
	}
	for i := range m.held {
		l := &m.held[i]
		if p := l.slice.Bytes(); !bytes.Equal(p, l.want) || l.slice.Len() != len(l.want) {
			m.errorf("Slice %d of %d is %x, want %x", i, len(m.held), p, l.want)
		}
	}
	m.lookAtStats()
}

func (m *model) lookAtStats() {
	if got := m.pool.Mode(); got != m.mode {
		m.errorf("the mode is %v, want %v", got, m.mode)
	}
	want := m.stats
	want.Slots = m.slots
	for _, l := range m.held {
		if l.at >= 0 {
			want.SlotsInUse++
			want.LongestHeld = max(want.LongestHeld, m.taken-l.number-1)
		}
	}
	if got := m.pool.Droppable(); got != (want.SlotsInUse == 0) {
		m.errorf("Droppable is %t with %d slots in use", got, want.SlotsInUse)
	}
	if m.looks++; m.looks%9 > 0 {
		return // constant checks could hide faults of a Pool that is not checked
	}
	if got := m.pool.Stats(); got != want {
		m.errorf("Stats are %+v, want %+v", got, want)
	}
}

// finish releases everything. The next frame that fits must then start at the beginning of the
// memory.
func (m *model) finish() {
	m.truncate(0)
	m.take()
	m.releaseAll()
	if m.capacity == 0 || m.t.Failed() {
		return
	}
	for _, n := range []int{1, m.capacity - 1} { // in one step, then in two
		m.writable(n)
		m.writable(m.capacity - n)
		if at, _ := arena.PlaceOf(m.pool); at != 0 || m.pool.Mode() != arena.Back {
			m.errorf("nothing is held, and the frame is at %d, mode %v", at, m.pool.Mode())
		}
		m.take()
		m.releaseAll()
	}
}
