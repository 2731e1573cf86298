package chunk_test

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// A plant is a model of a machine, a source and workers, on which the tests run the Tuner. Times
// are in seconds, speeds in bytes per second.
type plant struct {
	processors float64 // number that the samples report
	quota      float64 // actual number; 0 means the same

	cost      float64 // processor time per byte
	perChunk  float64 // processor time per chunk
	switching float64 // fraction of its speed that every worker loses for each worker above two per processor
	// Bytes of chunks in use above which a byte costs half as much again; 0 means no limit.
	cache float64

	latency float64 // waiting time of a worker for each chunk
	shared  float64 // total speed of all workers, of a disk for example; 0 means no limit
	heads   int     // number of workers above which that speed falls, as with a disk that seeks

	sourceLatency float64 // of each read ahead from the source
	sourceSpeed   float64 // 0 means no limit
	bursts        float64 // chunks by which the source is early or late

	offered float64 // available work; 0 means unlimited

	memory float64 // bytes of memory before it swaps; 0 means no limit
	heaps  float64 // bytes of memory per byte of chunks
	// Fraction of each chunk above leanChunk that is never released, so that memory grows.
	keeping float64
}

const (
	leanChunk  = 64 << 10
	baseMemory = 50e6
)

// outcome is the performance of a plant with a setting.
type outcome struct {
	speed, share, memory, growth float64
	pressed, starved, stuffed    bool
}

// or returns v, or none if v is 0.
func or(v, none float64) float64 {
	if v == 0 {
		return none
	}
	return v
}

func (p *plant) run(s chunk.Setting) outcome {
	workers, size, depth := float64(s.Workers), float64(s.ChunkSize), float64(s.Depth)
	quota := or(p.quota, p.processors)
	cost := p.cost
	if p.cache > 0 && min(workers, quota)*size > p.cache {
		cost *= 1.5
	}
	busy := p.perChunk + cost*size
	busy *= 1 + p.switching*max(workers-2*quota, 0)
	able := min(workers*size/(p.latency+busy), quota*size/busy)
	if p.shared > 0 {
		seeks := 1.0
		if p.heads > 0 {
			seeks = 1 + 0.05*max(workers-float64(p.heads), 0)
		}
		able = min(able, p.shared/seeks)
	}
	given := math.Inf(1)
	if p.sourceLatency > 0 || p.sourceSpeed > 0 {
		given = size / (p.sourceLatency + size/or(p.sourceSpeed, math.Inf(1)))
	}
	given *= depth / (depth + p.bursts)
	able *= depth / (depth + p.bursts)
	o := outcome{speed: min(able, given), pressed: able <= given, starved: given < able}
	if p.bursts > 0 {
		o.starved, o.stuffed = true, true
	}
	if p.offered > 0 && p.offered <= o.speed {
		o = outcome{speed: p.offered, starved: true}
	}
	o.memory = baseMemory + or(p.heaps, 1)*size*(depth+workers)
	if p.memory > 0 && o.memory > p.memory {
		o.speed *= 0.2
	}
	o.share = o.speed / size * busy / p.processors
	o.growth = p.keeping * o.speed * max(size/leanChunk-1, 0)
	return o
}

// mostSpeed returns the speed of the best fixed setting, found by trying all. limit is the memory
// limit, of which a Tuner uses nine tenths, or 0.
func (p *plant) mostSpeed(limit int64) (most float64) {
	memory := 0.9 * or(float64(limit), math.Inf(1))
	for workers := 1; workers <= 16*int(p.processors); workers++ {
		for size := 4 << 10; size <= 1<<20; size *= 2 {
			for depth := 1; depth <= 16; depth++ {
				o := p.run(chunk.Setting{Workers: workers, ChunkSize: size, Depth: depth})
				if o.memory <= memory && o.growth <= 10*mb {
					most = max(most, o.speed)
				}
			}
		}
	}
	return most
}

// starts are the default setting and the extreme ones.
func (p *plant) starts() []chunk.Setting {
	n := int(p.processors)
	return []chunk.Setting{
		{Workers: 2 * n, ChunkSize: 64 << 10, Depth: 3},
		{Workers: 1, ChunkSize: 4 << 10, Depth: 1},
		{Workers: 16 * n, ChunkSize: 1 << 20, Depth: 16},
	}
}

const tick = 250 * time.Millisecond

// simulation is a Tuner in a plant.
type simulation struct {
	tuner  *chunk.Tuner
	plant  plant
	noise  float64 // standard deviation of the logarithm of the sampled speed
	rnd    *rand.Rand
	leaked float64

	moves []int        // samples after which the setting changed
	log   []chunk.Move // the changes
	speed []float64    // speed in each sample, without noise
	over  int          // number of samples above the plant's memory
}

func (m *simulation) sample() chunk.Sample {
	o := m.plant.run(m.tuner.Setting())
	m.leaked += o.growth * tick.Seconds()
	m.speed = append(m.speed, o.speed)
	if m.plant.memory > 0 && o.memory > m.plant.memory {
		m.over++
	}
	factor := math.Exp(m.noise*m.rnd.NormFloat64() - m.noise*m.noise/2)
	s := chunk.Sample{
		Elapsed:    tick,
		Processors: m.plant.processors,
		CPU:        time.Duration(min(o.share*factor, 1) * m.plant.processors * float64(tick)),
		Memory:     int64(o.memory + m.leaked),
		Moved:      int64(o.speed * factor * tick.Seconds()),
	}
	if o.pressed {
		s.Waited = 100
	}
	if o.starved {
		s.Starved = 100
	}
	if o.stuffed {
		s.Stuffed = 100
	}
	return s
}

func (m *simulation) run(samples int) {
	for range samples {
		move := m.tuner.Observe(m.sample())
		if move.From != move.To {
			m.moves = append(m.moves, len(m.speed))
			m.log = append(m.log, move)
		}
	}
}

// mean returns the mean speed of the samples, starting with from.
func (m *simulation) mean(from int) float64 {
	var sum float64
	for _, v := range m.speed[from:] {
		sum += v
	}
	return sum / float64(len(m.speed)-from)
}

// movesFrom returns the number of changes, starting with sample from.
func (m *simulation) movesFrom(from int) (n int) {
	for _, at := range m.moves {
		if at > from {
			n++
		}
	}
	return n
}
