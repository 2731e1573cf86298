package chunk

const (
	defaultSize  = 64 << 10 // see Size
	defaultDepth = 3        // see Depth

	// mostBytes is the largest value of MaxRecord and similar options. Doubling a smaller value
	// does not overflow a 32-bit int.
	mostBytes = 1 << 30

	// The limits of a Tuner.
	startWorkers = 2 // per processor: one worker computes while the other waits
	// mostWorkers is the maximum number of workers per processor.
	mostWorkers = 16
	leastChunk  = 4 << 10
	mostChunk   = 1 << 20 // the largest block that a Pool keeps for reuse; see Size
	mostDepth   = 16
)

// A Setting holds the three values that a [Tuner] adjusts.
type Setting struct {
	Workers   int // maximum number of workers that work at the same time
	ChunkSize int // size of a chunk in bytes, as set by Size
	Depth     int // chunks that each Reader reads ahead, as set by Depth
}

// memory returns the maximum number of bytes in the chunks of one Reader and its workers.
func (s Setting) memory() int64 { return int64(s.ChunkSize) * int64(s.Depth+s.Workers) }

func (s Setting) clamp(least, most Setting) Setting {
	return Setting{
		min(max(s.Workers, least.Workers), most.Workers),
		min(max(s.ChunkSize, least.ChunkSize), most.ChunkSize),
		min(max(s.Depth, least.Depth), most.Depth),
	}
}
