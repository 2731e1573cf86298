package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// Paths is a benchmark of what many threads pay for reading one large file at
// random, and of the page faults that they take.
type Paths struct {
	Dir     string // on a disk
	Size    int64  // of the file
	Block   int    // read at a time
	Threads int
	Rounds  int
	Turn    time.Duration
	Log     func(format string, args ...any)
}

// A path is a way to read that takes part.
type path struct {
	name   string
	shared bool // all threads have the same view
	open   func(f *os.File, size int64, block int) (view, error)
}

var paths = []path{
	{name: "mmap", shared: true, open: openMapped},
	{name: "mmap + madvise(RANDOM)", shared: true, open: openMapRandom},
	{name: "read", open: func(f *os.File, _ int64, block int) (view, error) {
		return readAt{f, make([]byte, block)}, nil
	}},
	{name: "read + fadvise(DONTNEED)", open: func(f *os.File, _ int64, block int) (view, error) {
		return dropping{readAt{f, make([]byte, block)}}, nil
	}},
	{name: "read + fadvise(SEQUENTIAL)", open: func(f *os.File, size int64, block int) (view, error) {
		return readAt{f, make([]byte, block)}, advise(f, 0, size, sequential)
	}},
}

// dropping gives each block back to the page cache when it has been read.
type dropping struct{ readAt }

func (v dropping) look(off int64) (uint64, error) {
	sum, err := v.readAt.look(off)
	if err == nil {
		err = advise(v.f, off, int64(len(v.buf)), dontNeed)
	}
	return sum, err
}

// A PathResult is one path, a value for each round.
type PathResult struct {
	Name     string
	Cold     bool           // the file was not in the page cache when the turn began
	Micros   measure.Series // that a read takes
	Major    measure.Series // page faults a second that waited for the disk
	Minor    measure.Series // that did not
	Bytes    measure.Series // a second
	Resident measure.Series // bytes of the file in the page cache at the end, -1 if the kernel does not say
}

// Run gives every path two turns in every round: one begins with the file in
// the page cache, and one without.
func (p Paths) Run(ctx context.Context) ([]PathResult, error) {
	if _, err := Disk(p.Dir); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(p.Dir, "bench-files-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "file.bin")
	if err := makeFile(name, p.Size); err != nil {
		return nil, err
	}
	// A thread that waits in a page fault keeps its P. With two of them, no more
	// than two threads would ever wait.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(p.Threads + 1))
	results := make([]PathResult, 2*len(paths))
	for i := range results {
		results[i].Name, results[i].Cold = paths[i%len(paths)].name, i >= len(paths)
	}
	for round := range p.Rounds {
		for _, i := range crossover.Order(len(results), round) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := p.turn(name, paths[i%len(paths)], &results[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", results[i].Name, err)
			}
		}
		p.Log("round %d of paths is over", round+1)
	}
	return results, nil
}

// turn adds a turn to r.
func (p Paths) turn(name string, way path, r *PathResult) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.Cold {
		err = chill(f, p.Size)
	} else {
		err = heat(f, p.Size)
	}
	if err != nil {
		return err
	}
	major, minor, err := faults()
	if err != nil {
		return err
	}
	began := time.Now()
	n, err := p.read(name, way)
	took := time.Since(began).Seconds()
	if err != nil {
		return err
	}
	majorNow, minorNow, err := faults()
	r.Micros = append(r.Micros, took*1e6*float64(p.Threads)/float64(n))
	r.Major = append(r.Major, float64(majorNow-major)/took)
	r.Minor = append(r.Minor, float64(minorNow-minor)/took)
	r.Bytes = append(r.Bytes, float64(n)*float64(p.Block)/took)
	r.Resident = append(r.Resident, float64(resident(f, p.Size)))
	return err
}

// read has the threads read, and returns how many blocks.
func (p Paths) read(name string, way path) (int64, error) {
	views := make([]view, p.Threads)
	for i := range views {
		if i > 0 && way.shared {
			views[i] = views[0]
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if views[i], err = way.open(f, p.Size, p.Block); err != nil {
			return 0, err
		}
		defer views[i].close()
	}
	var over atomic.Bool
	var n atomic.Int64
	errs := make([]error, p.Threads)
	var wg sync.WaitGroup
	for i, v := range views {
		wg.Go(func() {
			m, err := p.thread(v, rand.New(rand.NewPCG(rand.Uint64(), uint64(i))), &over)
			n.Add(m)
			errs[i] = err
		})
	}
	time.Sleep(p.Turn)
	over.Store(true)
	wg.Wait()
	return n.Load(), errors.Join(errs...)
}

// thread reads until it is over.
func (p Paths) thread(v view, random *rand.Rand, over *atomic.Bool) (n int64, err error) {
	for blocks := p.Size / int64(p.Block); !over.Load(); n++ {
		if _, err := v.look(random.Int64N(blocks) * int64(p.Block)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Write writes the table.
func (p Paths) Write(w io.Writer, results []PathResult) {
	t := measure.NewTable("path", "file at the start", "µs a read", "major faults/s", "minor faults/s", "MB/s",
		"MiB in the page cache at the end")
	for _, r := range results {
		state := "in the page cache"
		if r.Cold {
			state = "on the disk"
		}
		mega := make(measure.Series, len(r.Bytes))
		for i := range mega {
			mega[i] = r.Bytes[i] / 1e6
		}
		left := "?"
		if r.Resident.Min() >= 0 {
			left = fmt.Sprintf("%.0f", r.Resident.Median()/(1<<20))
		}
		t.Row(r.Name, state, r.Micros, r.Major, r.Minor, mega, left)
	}
	fmt.Fprintf(w, "\n*%d threads read %s at random from a file of %s, %d rounds of %v*\n\n", p.Threads,
		Size(int64(p.Block)), Size(p.Size), p.Rounds, p.Turn)
	t.WriteTo(w)
}
