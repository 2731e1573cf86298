package chunk

const (
	defaultSize  = 64 << 10 // see Size
	defaultDepth = 3        // see Depth

	// mostBytes limits sizes, so that they can be doubled and fit into a block.
	mostBytes = 1 << 30

	// The limits of a Tuner.
	startWorkers = 2 // per processor: the first works while the second waits
	// Per processor. If more workers than this wait for a disk or a peer, then more workers would
	// not help, because the disk or the peer is the bottleneck.
	mostWorkers = 16
	leastChunk  = 4 << 10
	mostChunk   = 1 << 20 // the largest block that a Pool keeps
	mostDepth   = 16
)

// A Setting is the set of values that a [Tuner] adjusts.
type Setting struct {
	Workers   int // number of workers at work at a time
	ChunkSize int // bytes, as Size
	Depth     int // chunks that each Reader reads ahead, as Depth
}

// memory returns the number of bytes of chunks that a setting may hold, with one Reader.
func (s Setting) memory() int64 { return int64(s.ChunkSize) * int64(s.Depth+s.Workers) }

// within returns s with each field moved into the limits.
func (s Setting) within(least, most Setting) Setting {
	return Setting{
		min(max(s.Workers, least.Workers), most.Workers),
		min(max(s.ChunkSize, least.ChunkSize), most.ChunkSize),
		min(max(s.Depth, least.Depth), most.Depth),
	}
}
