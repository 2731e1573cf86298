package chunk

const (
	defaultSize  = 64 << 10 // see Size
	defaultDepth = 3        // see Depth

	// mostBytes bounds sizes, so that they can be doubled and fit into a block.
	mostBytes = 1 << 30

	// The bounds of a Tuner.
	startWorkers = 2 // per processor: the first works while the second waits
	// Per processor: if more of them wait for a disk or a peer, that one is the bottleneck.
	mostWorkers = 16
	leastChunk  = 4 << 10
	mostChunk   = 1 << 20 // the largest block that a Pool keeps
	mostDepth   = 16
)

// A Setting is what a [Tuner] moves.
type Setting struct {
	Workers   int // at work at a time
	ChunkSize int // bytes, as Size
	Depth     int // chunks that each Reader reads ahead, as Depth
}

// memory is how many bytes of chunks a setting may hold, with one Reader.
func (s Setting) memory() int64 { return int64(s.ChunkSize) * int64(s.Depth+s.Workers) }

// within returns s with each part moved into the bounds.
func (s Setting) within(least, most Setting) Setting {
	return Setting{
		min(max(s.Workers, least.Workers), most.Workers),
		min(max(s.ChunkSize, least.ChunkSize), most.ChunkSize),
		min(max(s.Depth, least.Depth), most.Depth),
	}
}
