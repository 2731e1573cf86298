package arena

import "sync"

// mapped keeps buffers in a map by their number, and the numbers of those that
// came back in a list with a lock. It is the reference structure of buffer_sv2's
// benchmark as somebody would write it who wanted to use it: it looks a buffer
// up once for each frame rather than for each write, uses the one first that
// came back last, which is still in the processor's caches, and makes another
// when it has none.
type mapped struct {
	size    int
	buffers map[uint16][]byte
	current uint16
	frame   []byte // has no capacity between frames

	mu   sync.Mutex
	free []uint16
}

func openMapped(s Shape) *mapped {
	return &mapped{size: s.Frame, buffers: make(map[uint16][]byte)}
}

func (m *mapped) Writable(n int) []byte {
	from := len(m.frame)
	if from+n > cap(m.frame) {
		m.next(n)
	}
	m.frame = m.frame[:from+n]
	return m.frame[from:]
}

func (m *mapped) next(n int) {
	if m.frame != nil || n > m.size {
		panic("a frame is longer than was said")
	}
	m.mu.Lock()
	last := len(m.free) - 1
	if last >= 0 {
		m.current = m.free[last]
		m.free = m.free[:last]
	}
	m.mu.Unlock()
	if last < 0 {
		m.current = uint16(len(m.buffers))
		m.buffers[m.current] = make([]byte, 0, m.size)
	}
	m.frame = m.buffers[m.current]
}

func (m *mapped) Take() mappedSlice {
	s := mappedSlice{m, m.current, m.frame}
	m.frame = nil
	return s
}

type mappedSlice struct {
	of    *mapped
	index uint16
	frame []byte
}

func (s *mappedSlice) Bytes() []byte { return s.frame }

func (s *mappedSlice) Release() {
	s.of.mu.Lock()
	s.of.free = append(s.of.free, s.index)
	s.of.mu.Unlock()
}
