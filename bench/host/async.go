//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// Async is the benchmark of fs.aio-max-nr: writers that each set up a queue of asynchronous requests, and write blocks of
// 4 KiB at random places past the page cache. Whoever gets no queue writes nothing.
type Async struct {
	Dir      string // on a disk
	Size     int64  // of the file
	Contexts []int  // how many queues are asked for; a case each
	Requests int    // that each has room for
	Depth    int    // how many of them are on their way at a time
	Limits   []int  // values of fs.aio-max-nr; ratios are to the first
	Rounds   int
	Turn     time.Duration
	Keeper   *Keeper // nil for the limit that is there, alone
	Log      func(format string, args ...any)
}

// An AsyncResult is what came of a number of queues under a limit, a value for each round.
type AsyncResult struct {
	Asked, Limit int
	Got          measure.Series // queues
	Refused      measure.Series // EAGAIN of io_setup
	Writes       measure.Series // a second
	Late         measure.Series // ms, what 99 % of the writes took at most
}

// Run does all rounds. The limit is left as it is in the end; the Keeper puts it back.
func (p Async) Run(ctx context.Context) ([]AsyncResult, error) {
	results, err := p.results()
	if err != nil {
		return nil, err
	}
	cached, err := scratch(ctx, p.Dir, p.Size)
	if err != nil {
		return nil, err
	}
	defer cached.Close()
	if err := unix.Fadvise(int(cached.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return nil, os.NewSyscallError("fadvise", err)
	}
	f, err := direct(cached)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for round := range p.Rounds {
		for _, i := range crossover.Order(len(results), round) {
			r := &results[i]
			if p.Keeper != nil {
				if err := p.Keeper.Set("fs.aio-max-nr", strconv.Itoa(r.Limit)); err != nil {
					return nil, err
				}
			}
			if err := p.turn(ctx, f, r); err != nil {
				return nil, err
			}
			p.Log("round %d, %d queues of %d, fs.aio-max-nr=%d: %.0f EAGAIN, %.0f writes/s", round+1, r.Asked, p.Requests,
				r.Limit, r.Refused[round], r.Writes[round])
		}
	}
	return results, nil
}

// results are one for each case and limit, with nothing in it.
func (p Async) results() (results []AsyncResult, err error) {
	all := p.Limits
	if p.Keeper == nil {
		n, err := number(directory(ProcSys), "fs.aio-max-nr")
		if err != nil {
			return nil, err
		}
		all = []int{int(n)}
	}
	for _, asked := range p.Contexts {
		for _, limit := range all {
			results = append(results, AsyncResult{Asked: asked, Limit: limit})
		}
	}
	return results, nil
}

func (p Async) turn(ctx context.Context, f *os.File, r *AsyncResult) (err error) {
	// One block does for all: nobody writes to it, and it is not the collector's, which knows nothing of who reads it.
	buf, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	defer unix.Munmap(buf)
	queues, refused, err := open(r.Asked, p.Requests, setUp, queue.destroy)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, destroyAll(queues, queue.destroy)) }()
	var over atomic.Bool
	var wg sync.WaitGroup
	all := make([]latency, len(queues)+1)
	errs := make([]error, len(queues))
	began := time.Now()
	for i, q := range queues {
		w := &asyncWriter{queue: q, fd: int(f.Fd()), buf: buf, blocks: p.Size / block, latency: &all[i], over: &over}
		wg.Go(func() { errs[i] = w.write(p.Depth) })
	}
	wait(ctx, p.Turn)
	over.Store(true)
	wg.Wait()
	took := time.Since(began).Seconds()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	for i := range all[1:] {
		all[0].merge(&all[i+1])
	}
	r.Got = append(r.Got, float64(len(queues)))
	r.Refused = append(r.Refused, float64(refused))
	r.Writes = append(r.Writes, float64(all[0].n)/took)
	r.Late = append(r.Late, milliseconds(all[0].quantile(0.99)))
	return nil
}

// open asks for queues. It counts those that the limit refuses; any other error is one, and nothing stays set up then.
func open(asked, requests int, setUp func(int) (queue, error), destroy func(queue) error) (all []queue, refused int,
	err error) {
	for range asked {
		switch q, err := setUp(requests); {
		case err == nil:
			all = append(all, q)
		case errors.Is(err, unix.EAGAIN):
			refused++
		default:
			return nil, 0, errors.Join(err, destroyAll(all, destroy))
		}
	}
	return all, refused, nil
}

// destroyAll does so at once: each waits until all processors have let go of the queue, which takes tens of milliseconds.
func destroyAll(all []queue, destroy func(queue) error) error {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, q := range all {
		wg.Go(func() { errs[i] = destroy(q) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// An asyncWriter keeps a number of requests on their way in its queue.
type asyncWriter struct {
	queue   queue
	fd      int
	buf     []byte
	blocks  int64
	latency *latency
	over    *atomic.Bool

	requests []iocb
	began    []time.Time
}

// write returns when it is over, and nothing is on its way.
func (w *asyncWriter) write(depth int) error {
	w.requests, w.began = make([]iocb, depth), make([]time.Time, depth)
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	next, events := make([]*iocb, 0, depth), make([]event, depth)
	for i := range w.requests {
		next = append(next, w.request(i, random))
	}
	for away := 0; ; {
		if err := w.queue.submit(next); err != nil {
			return err
		}
		away += len(next)
		if next = next[:0]; away == 0 {
			return nil
		}
		n, err := w.queue.collect(events)
		if err != nil {
			return err
		}
		now := time.Now()
		for _, e := range events[:n] {
			away--
			if e.result != block {
				return failed(e)
			}
			w.latency.add(now.Sub(w.began[e.data]))
			if !w.over.Load() {
				next = append(next, w.request(int(e.data), random))
			}
		}
	}
}

// request fills a request that is not on its way.
func (w *asyncWriter) request(i int, random *rand.Rand) *iocb {
	w.requests[i] = iocb{
		data: uint64(i), opcode: opWrite, fd: uint32(w.fd), nbytes: block,
		buf: uint64(uintptr(unsafe.Pointer(&w.buf[0]))), offset: random.Int64N(w.blocks) * block,
	}
	w.began[i] = time.Now()
	return &w.requests[i]
}

func failed(e event) error {
	if e.result < 0 {
		return os.NewSyscallError("asynchronous write", unix.Errno(-e.result))
	}
	return fmt.Errorf("host: an asynchronous write of %d bytes wrote %d", block, e.result)
}

// Caption says what a table was measured with.
func (p Async) Caption() string {
	return fmt.Sprintf("queues with room for %d requests, %d of them on their way at a time: 4 KiB past the page cache, at "+
		"random in a file of %s MiB; %s of %v", p.Requests, p.Depth, mebibytes(p.Size), count(p.Rounds, "round"), p.Turn)
}
