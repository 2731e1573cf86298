package chunk

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

// A Crowd is numbers of goroutines that work on the pieces of a file, and numbers of places in the channel that they take
// them from.
type Crowd struct {
	Key        string // of the command line
	What       string
	Shows      string // the sentence below the table
	Size       int    // bytes of the file
	Goroutines []int
	Places     []int
}

// Workers is the one that there is: the numbers are those that are tried where pools of workers are tuned by hand.
var Workers = Crowd{
	Key:  "workers",
	What: "a file in the page cache, SHA-256 of each 64 KiB by goroutines that take them from a channel",
	Shows: "What more goroutines than processors, and a longer channel, are worth to work that never waits: a piece is held " +
		"longer, and so is its memory.",
	Size: FileSize, Goroutines: []int{4, 16, 64}, Places: []int{16, 128, 512},
}

// A shift is a contender at work on the file, and what it came to.
type shift struct {
	name string
	file *os.File
	work func(s *shift) error // on all pieces

	took []time.Duration // of each piece in the last run, from when it was read to when it was done
	sum  atomic.Uint64   // of the pieces' digests, in any order
	held int             // buffers that were in use at a time, at most

	P99  measure.Series // milliseconds a piece
	Held measure.Series // MiB
}

// A task is a piece of the file that somebody works on.
type task struct {
	number int
	piece  []byte
	read   time.Time
}

func (s *shift) done(t task) {
	s.sum.Add(digest(t.piece))
	s.took[t.number] = time.Since(t.read)
}

func digest(p []byte) uint64 {
	sum := sha256.Sum256(p)
	return binary.LittleEndian.Uint64(sum[:])
}

// way is s among others, whose digests must come to want.
func (s *shift) way(want uint64) way {
	return way{
		name: s.name,
		run: func() error {
			s.sum.Store(0)
			if _, err := s.file.Seek(0, io.SeekStart); err != nil {
				return err
			}
			err := s.work(s)
			if err == nil && s.sum.Load() != want {
				err = errOtherBytes
			}
			return err
		},
		begin: func() { s.held = 0 },
		end: func() {
			slices.Sort(s.took)
			s.P99 = append(s.P99, float64(s.took[len(s.took)*99/100])/1e6)
			s.Held = append(s.Held, float64(s.held*blockSize)/mib)
		},
	}
}

// alone works with no goroutine but its own.
func alone(s *shift) error {
	b := make([]byte, blockSize)
	s.held = 1
	for i := range s.took {
		if _, err := io.ReadFull(s.file, b); err != nil {
			return err
		}
		s.done(task{i, b, time.Now()})
	}
	return nil
}

// crew has so many goroutines take pieces from a channel with so many places. Buffers are used again.
func crew(goroutines, places int) func(s *shift) error {
	return func(s *shift) error {
		tasks := make(chan task, places)
		free := make(chan []byte, goroutines+places+1) // all that are ever out
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() {
				for t := range tasks {
					s.done(t)
					free <- t.piece
				}
			})
		}
		defer all.Wait()
		defer close(tasks)
		made := 0
		for i := range s.took {
			var b []byte
			select {
			case b = <-free:
			default:
				b = make([]byte, blockSize)
				made++
			}
			if _, err := io.ReadFull(s.file, b); err != nil {
				return err
			}
			tasks <- task{i, b, time.Now()}
		}
		s.held = max(s.held, made)
		return nil
	}
}

// readers has a goroutine on each processor work on what a chunk.Reader gives, which waits until one of them takes it.
func readers(s *shift) error {
	r := chunk.NewReader(s.file)
	defer r.Close()
	type lent struct {
		task
		ref millrace.Ref
	}
	tasks := make(chan lent)
	var all sync.WaitGroup
	var out atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for t := range tasks {
				s.done(t.task)
				t.ref.Release()
				out.Add(-1)
			}
		})
	}
	defer all.Wait()
	defer close(tasks)
	for i := 0; ; i++ {
		ref, err := r.Next(context.Background())
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if i == len(s.took) {
			ref.Release()
			return errOtherBytes
		}
		s.held = max(s.held, int(out.Add(1)))
		tasks <- lent{task{i, ref.Bytes(), time.Now()}, ref}
	}
}

// shifts are all contenders.
func (c Crowd) shifts(f *os.File) (all []*shift) {
	all = append(all, &shift{name: "one loop, no channel", work: alone})
	for _, g := range c.Goroutines {
		for _, n := range c.Places {
			all = append(all, &shift{name: fmt.Sprintf("%d goroutines, %d places", g, n), work: crew(g, n)})
		}
	}
	all = append(all, &shift{name: "chunk.Reader, a goroutine on each processor, no places", work: readers})
	for _, s := range all {
		s.file, s.took = f, make([]time.Duration, c.Size/blockSize)
	}
	return all
}

// checksum is what the digests must come to.
func (c Crowd) checksum(f *os.File) (sum uint64, err error) {
	b := make([]byte, blockSize)
	for off := 0; off < c.Size; off += blockSize {
		if _, err := f.ReadAt(b, int64(off)); err != nil {
			return 0, err
		}
		sum += digest(b)
	}
	return sum, nil
}

// Caption says what the table is about.
func (c Crowd) Caption() string { return fmt.Sprintf("%d MiB, %s", c.Size>>20, c.What) }

// Write measures, and writes the table.
func (c Crowd) Write(w io.Writer, site *Site, rounds int, d time.Duration) error {
	want, err := c.checksum(site.file)
	if err != nil {
		return err
	}
	all := c.shifts(site.file)
	var ways []way
	for _, s := range all {
		ways = append(ways, s.way(want))
	}
	results, err := take(ways, rounds, d)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Key, err)
	}
	first, us := results[0].Nanos, ours(results).Nanos
	t := measure.NewTable("contender", "MB/s", "x the loop", "CPU s/GB", "p99 ms a piece", "MiB held", "time, x ours")
	for i, r := range results {
		t.Row(r.Name, rate(c.Size, r.Nanos), first.Over(r.Nanos), r.CPU.Times(1/float64(c.Size)), all[i].P99, all[i].Held,
			r.Nanos.Over(us))
	}
	return writeShowing(w, t, c.Shows)
}
