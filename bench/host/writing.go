//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// Writing is the benchmark of vm.dirty_ratio and vm.dirty_background_ratio: writers that write blocks of 4 KiB at random
// places, each to a file of its own, as fast as the kernel takes them.
type Writing struct {
	Dir      string // on a disk
	Size     int64  // of all files together
	Writers  int
	Rounds   int
	Turn     time.Duration
	Settings []Setting // ratios are to the first
	Memory   int64     // that the settings are percentages of, by way of vm.dirty_bytes; 0 for that of the machine
	Keeper   *Keeper   // nil for the setting that is there, alone
	Log      func(format string, args ...any)
}

// A WritingResult is what came of a setting, a value for each round.
type WritingResult struct {
	Name    string
	limits  limits
	Writes  measure.Series // a second, while there were writers
	Landed  measure.Series // a second until all of it was on the disk
	Late    measure.Series // µs, what 99 % of the writes took at most
	Longest measure.Series // ms
	Stalled measure.Series // percent of the writers' time in writes of 10 ms and more
	Disk    measure.Series // MB/s that the kernel wrote meanwhile; NaN where it does not count
	Left    measure.Series // MiB that it wrote when that was asked for in the end
}

// Run does all rounds. The setting is left as it is in the end; the Keeper puts it back.
func (p Writing) Run(ctx context.Context) ([]WritingResult, error) {
	results, err := p.results()
	if err != nil {
		return nil, err
	}
	files, err := p.files(ctx)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	for round := range p.Rounds {
		for _, i := range crossover.Order(len(results), round) {
			if p.Keeper != nil {
				if err := p.Settings[i].set(p.Keeper, p.Memory); err != nil {
					return nil, err
				}
			}
			if err := p.turn(ctx, files, &results[i]); err != nil {
				return nil, err
			}
			r := &results[i]
			p.Log("round %d, %s: %.0f writes/s, %.0f until on the disk, the longest in %.0f ms", round+1, r.Name,
				r.Writes[round], r.Landed[round], r.Longest[round])
		}
	}
	return results, nil
}

// results are one for each setting, with nothing in it.
func (p Writing) results() ([]WritingResult, error) {
	memory, err := dirtyable()
	if err != nil {
		return nil, err
	}
	if p.Keeper == nil {
		l, name, err := present(directory(ProcSys), memory)
		return []WritingResult{{Name: name, limits: l}}, err
	}
	if p.Memory > 0 {
		memory = p.Memory
	}
	results := make([]WritingResult, len(p.Settings))
	for i, s := range p.Settings {
		results[i] = WritingResult{Name: s.String(), limits: s.of(memory)}
	}
	return results, nil
}

// files has a file for each writer. What it returns is to be closed, with an error too.
func (p Writing) files(ctx context.Context) (files []*os.File, err error) {
	for range p.Writers {
		f, err := scratch(ctx, p.Dir, p.each())
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
}

// each is the size of one writer's file.
func (p Writing) each() int64 { return p.Size / int64(p.Writers) / block * block }

// turn begins and ends with nothing that the disk does not have.
func (p Writing) turn(ctx context.Context, files []*os.File, r *WritingResult) error {
	disk, err := diskOf(files[0])
	if err != nil {
		return err
	}
	before, began := disk.written(), time.Now()
	l, err := p.write(ctx, files)
	if err != nil {
		return err
	}
	took, meanwhile := time.Since(began).Seconds(), disk.written()
	if err := flush(ctx, files); err != nil {
		return err
	}
	landed, after := time.Since(began).Seconds(), disk.written()
	r.Writes = append(r.Writes, float64(l.n)/took)
	r.Landed = append(r.Landed, float64(l.n)/landed)
	r.Late = append(r.Late, float64(l.quantile(0.99))/float64(time.Microsecond))
	r.Longest = append(r.Longest, milliseconds(l.longest))
	r.Stalled = append(r.Stalled, 100*l.stalled.Seconds()/took/float64(len(files)))
	r.Disk = append(r.Disk, (meanwhile-before)/1e6/took)
	r.Left = append(r.Left, (after-meanwhile)/(1<<20))
	return nil
}

// write has all writers write for a turn.
func (p Writing) write(ctx context.Context, files []*os.File) (*latency, error) {
	var over atomic.Bool
	var wg sync.WaitGroup
	all := make([]latency, len(files))
	errs := make([]error, len(files))
	for i, f := range files {
		wg.Go(func() { errs[i] = writer(f, p.each(), &all[i], &over) })
	}
	wait(ctx, p.Turn)
	over.Store(true)
	wg.Wait()
	for i := range all[1:] {
		all[0].merge(&all[i+1])
	}
	return &all[0], errors.Join(append(errs, ctx.Err())...)
}

// writer writes until it is over, at least once. A write is one system call, which returns when the bytes are in the page
// cache and the kernel lets the writer go on.
func writer(f *os.File, size int64, l *latency, over *atomic.Bool) error {
	b := make([]byte, block)
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for blocks := size / block; ; {
		at := random.Int64N(blocks) * block
		began := time.Now()
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		l.add(time.Since(began))
		if over.Load() {
			return nil
		}
	}
}

// flush has the files be on the disk.
func flush(ctx context.Context, files []*os.File) error {
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err // the files are about to be thrown away
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// wait returns after a while, or when the program is to end.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Caption says what a table was measured with.
func (p Writing) Caption(results []WritingResult) string {
	least := results[0].limits.slows()
	for _, r := range results {
		least = min(least, r.limits.slows())
	}
	s := fmt.Sprintf("%d writers, each 4 KiB at random in its file of %s MiB, which is in the page cache; %s of %v",
		p.Writers, mebibytes(p.each()), count(p.Rounds, "round"), p.Turn)
	switch {
	case p.Keeper == nil:
		s += fmt.Sprintf("; the setting as it is: the kernel slows writers down from about %s MiB on", mebibytes(least))
	case p.Memory > 0:
		s += fmt.Sprintf("; percentages of %s MiB, set as vm.dirty_bytes and vm.dirty_background_bytes", mebibytes(p.Memory))
	default:
		s += "; percentages of the machine's memory"
	}
	if p.Size <= least {
		s += "; with files of this size nobody is slowed down"
	}
	return s
}
