package arena_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/arena"
)

// nowhere and onHeap are the places of a frame that is not in a Pool's memory.
const (
	nowhere = -1
	onHeap  = -2
)

// A lent is a Slice that is held, with what it ought to hold.
type lent struct {
	slice  arena.Slice
	want   []byte
	at     int    // where it is in the Pool's memory, or onHeap
	number uint64 // of the frame
}

// A model is a Pool and what it ought to do: what is held, as copies, in a list. It works out by looking at all of it
// where each frame has to be placed, in which mode, and what Stats say. It compares after each step, because what must
// not happen is that a call changes what somebody else holds.
type model struct {
	t        testing.TB
	pool     *arena.Pool
	capacity int
	slots    int
	fallback bool
	held     []lent // in the order in which they were taken
	calls    []string
	written  byte // the last byte that was

	frame     []byte
	start     int
	at, limit int // where the frame is, and how far it may grow there
	last      int // where the last frame was placed in memory
	mode      arena.Mode
	spilled   bool
	unsure    bool // the Pool may choose another gap
	looks     int
	stats     arena.Stats
	taken     uint64
}

func newModel(t testing.TB, capacity, slots int, fallback bool) *model {
	return &model{
		t: t, pool: arena.NewPool(capacity, arena.Slots(slots), arena.HeapFallback(fallback)),
		capacity: capacity, slots: slots, fallback: fallback, at: nowhere,
		calls: []string{fmt.Sprintf("NewPool(%d, %d slots, fallback %t)", capacity, slots, fallback)},
	}
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

// inMemory returns what is held of the Pool's memory, in the order of memory.
func (m *model) inMemory() []lent {
	var in []lent
	for _, l := range m.held {
		if l.at != onHeap {
			in = append(in, l)
		}
	}
	slices.SortFunc(in, func(a, b lent) int { return a.at - b.at })
	return in
}

// gaps returns the beginnings and ends of what is not held, one more than there are Slices in memory, and which of
// them is behind at or around it.
func (m *model) gaps(at int) (gaps [][2]int, around int) {
	from := 0
	for _, l := range m.inMemory() {
		if l.at <= at {
			around++
		}
		gaps = append(gaps, [2]int{from, l.at})
		from = l.at + len(l.want)
	}
	return append(gaps, [2]int{from, m.capacity}), around
}

// place says in which gap a frame of n bytes has to be placed, which may be none.
func (m *model) place(n, at int) (gaps [][2]int, which int, ok bool) {
	gaps, around := m.gaps(at)
	if len(gaps) > m.slots { // no slot is free
		return gaps, 0, false
	}
	order := []int{around, len(gaps) - 1, 0}
	for i := range gaps {
		order = append(order, (around+i)%len(gaps))
	}
	for _, i := range order {
		if gaps[i][1]-gaps[i][0] >= n {
			return gaps, i, true
		}
	}
	return gaps, 0, false
}

// settle notes that the frame, which is going to have n bytes, has to be in the gap.
func (m *model) settle(gaps [][2]int, i int) {
	m.at, m.limit = gaps[i][0], gaps[i][1]
	m.last = m.at
	m.mode = arena.Front
	if i == len(gaps)-1 {
		m.mode = arena.Back
	}
}

// grow works out what becomes of the frame if n bytes are added. It says whether they can be.
func (m *model) grow(n int) bool {
	size := len(m.frame) + n
	m.unsure = arena.AllLinked(m.pool)
	switch {
	case n == 0 || m.at == onHeap:
		return true
	case m.at == nowhere:
		if gaps, i, ok := m.place(size, m.last); ok {
			m.settle(gaps, i)
			return true
		}
	case m.at+size <= m.limit:
		return true
	default:
		if gaps, i := m.gaps(m.at); m.at+size <= gaps[i][1] {
			m.limit = gaps[i][1]
			return true
		}
		if gaps, i, ok := m.place(size, m.at); ok {
			m.settle(gaps, i)
			m.unsure = true
			return true
		}
	}
	if m.fallback {
		m.spilled = m.at != nowhere
		m.at, m.mode = onHeap, arena.Alloc
	}
	return m.fallback
}

// writable adds n bytes, and writes to them.
func (m *model) writable(n int) {
	m.note("Writable(%d)", n)
	ok := m.grow(n)
	p := m.pool.Writable(n)
	if n > 0 && (p != nil) != ok {
		m.errorf("Writable(%d) is nil: %t, want %t", n, p == nil, !ok)
		return
	}
	if !ok {
		m.look()
		return
	}
	if len(p) != n || cap(p) != n {
		m.errorf("Writable(%d) has %d bytes and room for %d", n, len(p), cap(p))
		return
	}
	for i := range p {
		m.written++
		p[i] = m.written
	}
	m.frame = append(m.frame, p...)
	m.adopt()
	m.look()
}

// adopt takes over where the Pool has placed the frame in the cases in which the model leaves it the choice: when it has
// to look for a slot first, it need not go on to look for the best gap; and when it moves a frame, it need not know that
// what was in front has been released.
func (m *model) adopt() {
	at, placed := arena.PlaceOf(m.pool)
	if !m.unsure || m.at < 0 || !placed || at < 0 || at == m.at {
		return
	}
	gaps, i := m.gaps(at)
	if at < gaps[i][0] || at+len(m.frame) > gaps[i][1] {
		m.errorf("the frame of %d bytes is at %d, and %v are free", len(m.frame), at, gaps)
	}
	m.settle(gaps, i)
	m.at, m.last = at, at
}

// write adds n bytes with Write.
func (m *model) write(n int) {
	m.note("Write(%d)", n)
	p := make([]byte, n)
	for i := range p {
		m.written++
		p[i] = m.written
	}
	ok := m.grow(n)
	got, err := m.pool.Write(p)
	if ok && (got != n || err != nil) || !ok && (got != 0 || err != arena.ErrFull) {
		m.errorf("Write(%d bytes) = %d, %v, and there is room: %t", n, got, err, ok)
		return
	}
	if ok {
		m.frame = append(m.frame, p...)
		m.adopt()
	}
	m.look()
}

func (m *model) truncate(n int) {
	m.note("Truncate(%d)", n)
	m.pool.Truncate(n)
	m.frame = m.frame[:n]
	m.start = min(m.start, n)
	if n == 0 && m.at == onHeap {
		m.at, m.spilled = nowhere, false
	}
	m.look()
}

func (m *model) setStart(i int) {
	m.note("SetStart(%d)", i)
	m.pool.SetStart(i)
	m.start = i
	m.look()
}

// seal encrypts the frame, and opens it again if that is asked for.
func (m *model) seal(open bool) {
	m.note("Seal, Open %t", open)
	aead := toy{overhead: 5}
	nonce, header := []byte("n"), m.frame[:m.start:m.start]
	ok := m.grow(16) // the room that Seal asks for behind a short tag
	if err := m.pool.Seal(aead, nonce, header); (err == nil) != ok || err != nil && err != arena.ErrFull {
		m.errorf("Seal: %v, and there is room: %t", err, ok)
		return
	}
	if ok {
		m.frame = aead.Seal(header, nonce, m.frame[m.start:], header)
		m.adopt()
	}
	m.look()
	if !ok || !open {
		return
	}
	if err := m.pool.Open(aead, nonce, header); err != nil {
		m.errorf("Open: %v", err)
	}
	m.frame, _ = aead.Open(header, nonce, m.frame[m.start:], header)
	m.look()
}

func (m *model) take() {
	m.note("Take of %d", len(m.frame))
	l := lent{slice: m.pool.Take(), want: m.frame, at: m.at, number: m.taken}
	if len(m.frame) > 0 {
		m.taken++
		m.stats.Modes[m.mode].Frames++
		m.stats.Modes[m.mode].Bytes += uint64(len(m.frame))
		if m.spilled {
			m.stats.Spills++
		}
		m.held = append(m.held, l)
		if _, at := arena.SlotOf(m.pool, l.slice); at != max(l.at, -1) {
			m.errorf("the Slice is at %d, want %d", at, l.at)
		}
	} else if l.slice != (arena.Slice{}) {
		m.errorf("Take of an empty frame is not the zero Slice")
	}
	if p := l.slice.Bytes(); cap(p) != len(m.frame) {
		m.errorf("a Slice of %d bytes has room for %d", len(m.frame), cap(p))
	}
	m.frame, m.start, m.at, m.spilled = nil, 0, nowhere, false
	m.look()
}

// release ends the life of the i-th Slice that is held.
func (m *model) release(i int) {
	m.note("Release %d of %d", i, len(m.held))
	m.held[i].slice.Release()
	if n := m.held[i].slice.Len(); n != 0 {
		m.errorf("Release left %d bytes", n)
	}
	m.held[i].slice.Release() // does nothing
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
	l.slice.Promote()
	l.at = onHeap
	if number, _ := arena.SlotOf(m.pool, l.slice); number >= 0 {
		m.errorf("the Slice is in slot %d after Promote", number)
	}
	m.look()
}

// scribble writes to a Slice, which is its owner's.
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
	if at, placed := arena.PlaceOf(m.pool); placed != (m.at != nowhere) || at != max(m.at, -1) {
		m.errorf("the frame is at %d, want %d", at, m.at)
	}
	if m.pool.Len() != len(m.frame) || !bytes.Equal(m.pool.Data(len(m.frame)+1), m.frame) {
		m.errorf("the frame has %d bytes: %x, want %x", m.pool.Len(), m.pool.Data(m.capacity), m.frame)
	}
	if half := m.pool.Data(len(m.frame) / 2); !bytes.Equal(half, m.frame[:len(m.frame)/2]) || cap(half) != len(half) {
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
		if l.at != onHeap {
			want.SlotsInUse++
			want.LongestHeld = max(want.LongestHeld, m.taken-l.number-1)
		}
	}
	if got := m.pool.Droppable(); got != (want.SlotsInUse == 0) {
		m.errorf("Droppable is %t with %d slots in use", got, want.SlotsInUse)
	}
	if m.looks++; m.looks%9 > 0 {
		return // a Pool that is looked at all the time might be right only for that
	}
	if got := m.pool.Stats(); got != want {
		m.errorf("Stats are %+v, want %+v", got, want)
	}
}

// finish releases everything; then the next frame that fits is in memory, from its beginning on.
func (m *model) finish() {
	m.truncate(0)
	m.take()
	m.releaseAll()
	if m.capacity == 0 || m.t.Failed() {
		return
	}
	for _, n := range []int{1, m.capacity - 1} { // in one step, and then in two
		m.writable(n)
		m.writable(m.capacity - n)
		if at, _ := arena.PlaceOf(m.pool); at != 0 || m.pool.Mode() != arena.Back {
			m.errorf("nothing is held, and the frame is at %d, mode %v", at, m.pool.Mode())
		}
		m.take()
		m.releaseAll()
	}
}

var errForged = errors.New("forged")

// A toy is an AEAD that hides nothing: as many bytes of check sum as it is told, of which it may use fewer.
type toy struct {
	overhead int
	unused   int
}

func (a toy) NonceSize() int { return 1 }
func (a toy) Overhead() int  { return a.overhead }

func (a toy) Seal(dst, nonce, plaintext, additionalData []byte) []byte {
	from := len(dst)
	dst = append(dst, plaintext...)
	for i := range dst[from:] {
		dst[from+i] ^= nonce[0] + byte(i)
	}
	return append(dst, a.tag(nonce, dst[from:], additionalData)...)
}

func (a toy) Open(dst, nonce, ciphertext, additionalData []byte) ([]byte, error) {
	n := len(ciphertext) - (a.overhead - a.unused)
	if n < 0 || !bytes.Equal(ciphertext[n:], a.tag(nonce, ciphertext[:n], additionalData)) {
		return nil, errForged
	}
	from := len(dst)
	dst = append(dst, ciphertext[:n]...)
	for i := range dst[from:] {
		dst[from+i] ^= nonce[0] + byte(i)
	}
	return dst, nil
}

func (a toy) tag(nonce, ciphertext, additionalData []byte) []byte {
	sum := uint64(len(ciphertext))
	for _, p := range [][]byte{nonce, additionalData, ciphertext} {
		for _, b := range p {
			sum = (sum ^ uint64(b)) * 1099511628211
		}
	}
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, sum), 1+a.overhead/8)[:a.overhead-a.unused]
}
