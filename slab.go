package millrace

// slabBlock is the size of the blocks that a Slab fills, in bytes. A copy longer than a quarter of
// slabBlock gets its own block.
const slabBlock = 4 << 10

// A Slab copies small pieces of memory into shared blocks of 4 KiB. Use it to keep a few small
// messages of a stream: without a copy, each message keeps a block of up to 64 KiB in use.
//
// A block returns to its Pool when all copies in it are released. Use separate Slabs for copies
// with very different lifetimes.
//
// The zero Slab uses [DefaultPool]. Only one goroutine at a time may use a Slab. The Refs that it
// returns may be used on any goroutine.
type Slab struct {
	pool  *Pool
	draft Draft // the rest of the current block
}

// NewSlab returns a Slab that takes its blocks from p.
func (p *Pool) NewSlab() *Slab { return &Slab{pool: p} }

// Copy copies p, which it borrows, and returns a Ref that the caller owns.
func (s *Slab) Copy(p []byte) Ref {
	if len(p) == 0 {
		return Ref{}
	}
	pool := s.pool
	if pool == nil {
		pool = defaultPool
	}
	if len(p) > slabBlock/4 {
		d := pool.Get(len(p))
		return d.Freeze(copy(d.Bytes(), p))
	}
	if len(s.draft.Bytes()) < len(p) {
		s.draft.Release()
		s.draft = pool.Get(slabBlock)
	}
	return s.draft.Cut(copy(s.draft.Bytes(), p))
}

// Release gives up the block that the Slab fills. Refs that the Slab has returned stay valid. A
// Slab may be used again after Release.
func (s *Slab) Release() { s.draft.Release() }
