package files

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// A Pattern is how a file is read.
type Pattern struct {
	Size   int64 // of the file
	Block  int   // read at a time
	Random bool  // in an order that is random and never returns; else from its start to its end
	Cold   bool  // it is not in the page cache, and read once at most
}

// A way is a view of a file that takes part.
type way struct {
	name    string
	forward bool // it cannot go about at random
	roaming bool // it is meant for nothing else
	open    func(f *os.File, size int64, block int) (view, error)
}

// ways are all that take part.
var ways = []way{
	{name: "os.File.ReadAt", open: func(f *os.File, _ int64, block int) (view, error) {
		return readAt{f, make([]byte, block)}, nil
	}},
	{name: "chunk.Reader", forward: true, open: func(f *os.File, size int64, block int) (view, error) {
		return &chunks{f: f, size: size, block: block}, nil
	}},
	{name: "mmap", open: openMapped},
	{name: "mmap + madvise(RANDOM)", roaming: true, open: openMapRandom},
}

// does reports whether w takes part in a pattern.
func (w way) does(p Pattern) bool {
	if p.Random {
		return !w.forward
	}
	return !w.roaming
}

// Patterns is a benchmark of ways to read files.
type Patterns struct {
	Dir    string // on a disk
	Sizes  []int64
	Blocks []int
	Rounds int
	Turn   time.Duration
	Log    func(format string, args ...any)
}

// A PatternResult is what the ways have achieved in a pattern: blocks a second
// for each round. Ways that cannot do it have none.
type PatternResult struct {
	Pattern Pattern
	PerWay  []measure.Series
}

// patterns are all of them for a file, those that need it in the page cache
// first.
func (p Patterns) patterns(size int64) (all []Pattern) {
	for _, cold := range []bool{false, true} {
		for _, block := range p.Blocks {
			for _, random := range []bool{false, true} {
				all = append(all, Pattern{size, block, random, cold})
			}
		}
	}
	return all
}

// Run gives every way a turn at every pattern in every round.
func (p Patterns) Run(ctx context.Context) ([]PatternResult, error) {
	if _, err := Disk(p.Dir); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(p.Dir, "bench-files-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var results []PatternResult
	for _, size := range p.Sizes {
		part, err := p.runSize(ctx, filepath.Join(dir, fmt.Sprintf("%d.bin", size)), size)
		if err != nil {
			return nil, err
		}
		results = append(results, part...)
	}
	return results, nil
}

func (p Patterns) runSize(ctx context.Context, name string, size int64) ([]PatternResult, error) {
	if err := makeFile(name, size); err != nil {
		return nil, err
	}
	defer os.Remove(name)
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var results []PatternResult
	for _, pat := range p.patterns(size) {
		results = append(results, PatternResult{pat, make([]measure.Series, len(ways))})
	}
	for round := range p.Rounds {
		if err := heat(f, size); err != nil {
			return nil, err
		}
		for _, r := range results {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := p.round(f, r, round); err != nil {
				return nil, err
			}
		}
		p.Log("round %d of %s is over", round+1, Size(size))
	}
	return results, nil
}

// round gives every way its turn.
func (p Patterns) round(f *os.File, r PatternResult, round int) error {
	var offsets []int64
	for off := int64(0); off+int64(r.Pattern.Block) <= r.Pattern.Size; off += int64(r.Pattern.Block) {
		offsets = append(offsets, off)
	}
	if r.Pattern.Random {
		shuffle := rand.New(rand.NewPCG(uint64(round), 0))
		shuffle.Shuffle(len(offsets), func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
	}
	for _, i := range crossover.Order(len(ways), round) {
		if !ways[i].does(r.Pattern) {
			continue
		}
		rate, err := p.turn(f, ways[i], r.Pattern, offsets)
		if err != nil {
			return fmt.Errorf("%s: %w", ways[i].name, err)
		}
		r.PerWay[i] = append(r.PerWay[i], rate)
	}
	return nil
}

// clockBlocks is how many blocks are looked at between two looks at the clock.
const clockBlocks = 64

// turn returns how many blocks a second w gives. A mapping is made before the
// clock starts, and its page faults are part of the turn.
func (p Patterns) turn(f *os.File, w way, pat Pattern, offsets []int64) (float64, error) {
	if pat.Cold {
		if err := chill(f, pat.Size); err != nil {
			return 0, err
		}
	}
	v, err := w.open(f, pat.Size, pat.Block)
	if err != nil {
		return 0, err
	}
	defer v.close()
	began, n := time.Now(), 0
	for time.Since(began) < p.Turn {
		for _, off := range offsets {
			if _, err := v.look(off); err != nil {
				return 0, err
			}
			if n++; n%clockBlocks == 0 && time.Since(began) >= p.Turn {
				break
			}
		}
		if pat.Cold {
			break // the next time it would be in the page cache
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// heat has all of a file in the page cache.
func heat(f *os.File, size int64) error {
	_, err := io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.NewSectionReader(f, 0, size)})
	return err
}

// Write writes one table for files in the page cache and one for files that
// are not. The last columns are what it costs to read at random.
func (p Patterns) Write(w io.Writer, results []PatternResult) {
	fmt.Fprintf(w, "\n*Files in the page cache: thousands of reads a second, %d rounds of %v*\n\n", p.Rounds, p.Turn)
	writeState(w, results, false)
	fmt.Fprintf(w, "\n*Files on the disk: thousands of reads a second, %d rounds of %v at most*\n\n", p.Rounds, p.Turn)
	writeState(w, results, true)
}

func writeState(w io.Writer, results []PatternResult, cold bool) {
	head := []string{"file", "read"}
	var both []int // the ways that read in order and at random
	for i, way := range ways {
		head = append(head, way.name)
		if !way.forward && !way.roaming {
			both = append(both, i)
		}
	}
	for _, i := range both {
		head = append(head, ways[i].name+": random/in order")
	}
	t := measure.NewTable(head...)
	for i, r := range results {
		if r.Pattern.Cold != cold {
			continue
		}
		order := " in order"
		if r.Pattern.Random {
			order = " at random"
		}
		row := []any{Size(r.Pattern.Size), Size(int64(r.Pattern.Block)) + order}
		for _, s := range r.PerWay {
			row = append(row, thousands(s))
		}
		if r.Pattern.Random {
			ordered := results[i-1] // see patterns
			for _, k := range both {
				row = append(row, r.PerWay[k].Over(ordered.PerWay[k]))
			}
		}
		t.Row(row...)
	}
	t.WriteTo(w)
}

func thousands(s measure.Series) measure.Series {
	k := make(measure.Series, len(s))
	for i := range s {
		k[i] = s[i] / 1000
	}
	return k
}
