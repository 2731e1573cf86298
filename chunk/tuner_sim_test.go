package chunk_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

const (
	// converged is the number of samples that the Tuner gets if there is little noise: a minute and
	// a half at the default interval.
	converged = 360

	// longRun is the number of samples of a long test: two hours.
	longRun = 30_000
)

// Speeds in MB/s, and the processor time per byte at such a speed.
const (
	mb       = 1e6
	hashing  = 1 / (1400 * mb)
	counting = 1 / (9000 * mb)
	zipping  = 1 / (60 * mb)
)

var plants = []struct {
	name string
	plant
	limit int64   // of memory, in bytes
	least float64 // required fraction of the best speed; 0 means the default
}{
	{name: "hash on 2", plant: plant{
		processors: 2, cost: hashing, perChunk: 5e-6,
	}},
	{name: "compress on 4, switching costs", plant: plant{
		processors: 4, cost: zipping, perChunk: 5e-6, switching: 0.02,
	}},
	{name: "count on 4, cache of 512 KiB", plant: plant{
		processors: 4, cost: counting, perChunk: 5e-6, cache: 512 << 10,
	}},
	{name: "workers wait for a peer", plant: plant{
		processors: 2, cost: counting, perChunk: 10e-6, latency: 5e-3,
	}},
	{name: "workers share a hard disk", plant: plant{
		processors: 4, cost: counting, perChunk: 10e-6, latency: 4e-3, shared: 150 * mb, heads: 12,
	}},
	{name: "source with latency", plant: plant{
		processors: 4, cost: counting, perChunk: 10e-6, sourceLatency: 1e-3, sourceSpeed: 1000 * mb,
	}},
	{name: "source with a speed", plant: plant{
		processors: 4, cost: hashing, perChunk: 5e-6, sourceSpeed: 500 * mb,
	}},
	{name: "source in bursts", plant: plant{
		processors: 4, cost: hashing, perChunk: 5e-6, latency: 5e-4, sourceSpeed: 2000 * mb,
		bursts: 2,
	}},
	{name: "quota of 1.5 on 8", plant: plant{
		processors: 8, quota: 1.5, cost: hashing, perChunk: 5e-6, switching: 0.02,
	}},
	{name: "memory is short", limit: 100e6, least: 0.55, plant: plant{
		processors: 2, cost: counting, perChunk: 10e-6, latency: 5e-3, memory: 100e6, heaps: 8,
	}},
	{name: "chunks are kept", plant: plant{
		processors: 4, cost: hashing, perChunk: 60e-6, keeping: 0.001,
	}},
	{name: "little to do", plant: plant{
		processors: 4, cost: hashing, perChunk: 5e-6, offered: 100 * mb,
	}},
}

func newSimulation(p plant, start chunk.Setting, limit int64, noise float64,
	seed uint64) *simulation {
	if limit == 0 {
		limit = math.MaxInt64
	}
	tuner := chunk.NewTuner(chunk.StartAt(start), chunk.Between(
		chunk.Setting{Workers: 1, ChunkSize: 4 << 10, Depth: 1},
		chunk.Setting{Workers: 16 * int(p.processors), ChunkSize: 1 << 20, Depth: 16}))
	tuner.SetMemoryLimit(limit)
	return &simulation{tuner: tuner, plant: p, noise: noise, rnd: rand.New(rand.NewPCG(seed, 1))}
}

// enough returns the fraction of the best fixed setting's speed that the Tuner must reach. Noise
// hides the last steps: with 0.2, an improvement of less than an eighth cannot be distinguished
// from chance. From an extreme setting, the Tuner may stop at a local maximum.
func enough(noise float64, corner bool) float64 {
	least := 0.90
	if corner {
		least = 0.80
	}
	if noise > 0.1 {
		least -= 0.15
	}
	return least
}

// convergedAt returns the number of samples that the Tuner gets. With a noisy load it observes five
// times as long before it decides.
func convergedAt(noise float64) int {
	if noise > 0.1 {
		return 4 * converged
	}
	return converged
}

// The Tuner reaches the speed, and respects the memory limit.
func TestTunerConverges(t *testing.T) {
	for _, test := range plants {
		most := test.mostSpeed(test.limit)
		for _, noise := range []float64{0, 0.05, 0.2} {
			for i, start := range test.starts() {
				for seed := range uint64(2) {
					least := enough(noise, i > 0)
					if test.least > 0 {
						least = min(least, test.least)
					}
					m := newSimulation(test.plant, start, test.limit, noise, seed)
					from := convergedAt(noise)
					m.run(from + 1000)
					// It needs a few samples to detect the limit.
					if m.over > 30 || i < 2 && m.over > 0 {
						t.Errorf("%s, noise %v, from %v: %d samples above the memory", test.name,
							noise, start, m.over)
					}
					if got := m.mean(from) / most; got < least {
						t.Errorf("%s, noise %v, from %v: %.2f of the best speed, want %.2f; at %v\n%v",
							test.name, noise, start, got, least, m.tuner.Setting(), m.log)
					}
				}
			}
		}
	}
}

// Under a constant load the Tuner comes to rest: it tries fewer and fewer changes, and reverts most
// of them.
func TestTunerNeverOscillates(t *testing.T) {
	for _, test := range plants {
		for _, noise := range []float64{0.02, 0.2} {
			t.Run(fmt.Sprintf("%s, noise %v", test.name, noise), func(t *testing.T) {
				m := newSimulation(test.plant, test.starts()[0], test.limit, noise, 7)
				m.run(longRun)
				if n := m.movesFrom(longRun / 2); n > 60 {
					t.Errorf("%d moves in the second half of %d samples\n%v", n, longRun, m.log)
				}
				early, late := m.movesFrom(0)-m.movesFrom(longRun/10), m.movesFrom(9*longRun/10)
				if late > early {
					t.Errorf("%d moves in the first tenth, %d in the last", early, late)
				}
			})
		}
	}
}

// The Tuner follows a load that steps up and down, and that changes its nature.
func TestTunerFollowsTheLoad(t *testing.T) {
	local := plant{processors: 4, cost: hashing, perChunk: 5e-6}
	remote := plant{processors: 4, cost: counting, perChunk: 10e-6, latency: 5e-3}
	small, costly := local, local
	small.offered = 100 * mb
	costly.cost *= 20
	m := newSimulation(local, local.starts()[0], 0, 0.05, 3)
	for i, p := range []plant{local, remote, small, local, costly, remote, local} {
		m.plant = p
		begun := len(m.speed)
		m.run(2 * converged)
		if got := m.mean(begun+converged) / p.mostSpeed(0); got < 0.80 {
			t.Errorf("phase %d: %.2f of the best speed at %v\n%v", i, got, m.tuner.Setting(), m.log)
		}
	}
}

// If a load alternates, and no change improves it, the Tuner tries fewer and fewer changes.
func TestTunerTiresOfChange(t *testing.T) {
	on := plant{processors: 4, cost: zipping, perChunk: 5e-6}
	off := on
	off.offered = 20 * mb
	m := newSimulation(on, chunk.Setting{Workers: 4, ChunkSize: 64 << 10, Depth: 3}, 0, 0.02, 4)
	for i := range longRun / 100 {
		m.plant = on
		if i%2 == 1 {
			m.plant = off
		}
		m.run(100)
	}
	early, late := m.movesFrom(0)-m.movesFrom(longRun/10), m.movesFrom(9*longRun/10)
	if late > early/2 {
		t.Errorf("%d moves in the first tenth, %d in the last", early, late)
	}
}
