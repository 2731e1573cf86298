package arena

// ceiling looks after nothing: it writes once round its memory, and whoever
// still holds what was there sees it change. Nobody who is correct does less.
type ceiling struct {
	memory     []byte
	begin, end int
	last       int // where the last frame can begin
}

func openCeiling(s Shape) *ceiling {
	return &ceiling{memory: make([]byte, s.Capacity), last: s.Capacity - s.Frame}
}

func (c *ceiling) Writable(n int) []byte {
	from := c.end
	c.end = from + n
	return c.memory[from:c.end]
}

func (c *ceiling) Take() ceilingSlice {
	s := ceilingSlice{c.memory[c.begin:c.end]}
	if c.end > c.last {
		c.end = 0
	}
	c.begin = c.end
	return s
}

type ceilingSlice struct{ frame []byte }

func (s *ceilingSlice) Bytes() []byte { return s.frame }
func (s *ceilingSlice) Release()      {}

// copyAlone copies each message to the same place: what every contender that is
// written in Go does at least.
func copyAlone(s Shape) Work {
	memory := make([]byte, s.Frame)
	return Work{func(n int) {
		for i := range n {
			n, src := message(i)
			copy(memory[:n], src[:n])
		}
	}, nil}
}
