package arena

// made allocates each frame, and doubles it while its length is not known: what
// append does.
type made struct{ frame []byte }

func openMade(Shape) *made { return new(made) }

func (m *made) Writable(n int) []byte {
	from := len(m.frame)
	if from+n > cap(m.frame) {
		m.grow(n)
	}
	m.frame = m.frame[:from+n]
	return m.frame[from:]
}

func (m *made) grow(n int) {
	if m.frame == nil {
		m.frame = make([]byte, 0, n)
		return
	}
	m.frame = append(m.frame, make([]byte, n)...)[:len(m.frame)]
}

func (m *made) Take() madeSlice {
	s := madeSlice{m.frame}
	m.frame = nil
	return s
}

type madeSlice struct{ frame []byte }

func (s *madeSlice) Bytes() []byte { return s.frame }
func (s *madeSlice) Release()      { s.frame = nil }
