package chunk

import (
	"context"
	"math"
	"time"

	"github.com/millrace-io/millrace"
)

const (
	// coldStep is how much of a file is read from the disk at a time before it is sent: a millisecond or so of an SSD's
	// work, so that the first bytes leave soon and others get their turn.
	coldStep = 1 << 20

	// hotRegion is how much of a file one verdict is remembered for: little beside the file, and asking the kernel
	// about more would hold a processor for longer than it should.
	hotRegion = 4 << 20

	// mostRegions bounds the memory that verdicts take: 8 KiB for a file, whatever size it says it has. What is behind
	// 4 GiB is looked at each time.
	mostRegions = 1 << 10

	// verdictLife is how long bytes that were in the page cache, or were sent, are believed to be there. Looking again
	// costs a twelfth of what sending them does. Bytes that were used a second ago are the last ones that a system
	// short of memory takes; if it does, sending them takes a processor for as long as a disk takes.
	verdictLife = time.Second

	// coldBlock is the memory that bytes from the disk pass through on their way to the page cache.
	coldBlock = 128 << 10

	// askMost is how much the kernel is asked for in one call. It does no more at a call than it would read ahead, which is
	// 128 KiB unless the system is told otherwise, or than the disk takes at a time, if that is more.
	askMost = 128 << 10

	// dropLag is how far behind the last byte sent the page cache is emptied. Bytes that a socket has not got rid of are
	// pinned, and it has up to 4 MiB of them unless the system is told otherwise (net.ipv4.tcp_wmem).
	dropLag = 8 << 20
)

// heat says whether bytes are in the page cache.
type heat int8

const (
	cold heat = iota // not all of them, or some are on their way
	warm             // as far as samples show, or it cannot be known
	hot              // all of them
)

// sight is how it is seen what of a file is in the page cache.
type sight int32

const (
	counting sight = iota // the kernel counts pages
	sampling              // it does not, and fails reads that would have to wait
	blind                 // neither
)

// A warmth sees to it that what one transfer is about to send is in the page cache. Bytes that are not are read by as many
// transfers at a time as turns lets pass; the others wait without a thread, and get a turn in the order they came.
//
// Invariants:
//
//	the spans in brought are in ascending order and do not overlap
//	if brought is not empty, ahead is the last one's end
type warmth struct {
	d     *descriptor
	turns *gate
	tuner *Tuner // that turns are of, or nil
	end   int64  // of what is being sent

	drop    bool   // leave the page cache as it was
	brought []span // what this transfer has brought there; only if drop is set
	ahead   int64  // the kernel was asked for what is before that; 0 if it was asked for nothing
	colds   int64  // bytes that were read from the disk
}

// A span is the bytes [from, to) of a file.
type span struct{ from, to int64 }

// ready returns how many of the n bytes from off on can be sent now, at least one, and whether they are in the page cache
// for sure. It waits until they are, or until ctx ends, and then returns ctx's error.
func (w *warmth) ready(ctx context.Context, off, n int64) (most int64, sure bool, err error) {
	w.dropBefore(off - dropLag)
	if w.d.uncached.Load() {
		return n, false, nil
	}
	begin := off / hotRegion * hotRegion
	n = min(n, begin+hotRegion-off)
	all := off == begin && off+n >= min(begin+hotRegion, w.d.stamp.size)
	now := time.Now().UnixNano()
	if w.d.seenHot(begin, now) {
		if all {
			w.d.sawHot(begin, now) // being sent keeps them there
		}
		return n, true, nil
	}
	if 0 < w.ahead && off <= w.ahead && n > coldStep {
		// What comes behind cold bytes is cold, most likely, and a sample of it would send the disk there and back.
		n, all = coldStep, false
	}
	h := w.d.heat(off, n)
	if h <= cold && n > coldStep {
		n = coldStep
		h, all = w.d.heat(off, n), false
	}
	if h <= cold {
		if err := w.read(ctx, off, n); err != nil {
			return 0, false, err
		}
		return n, false, nil
	}
	if h == hot && all {
		w.d.sawHot(begin, now)
	}
	return n, h == hot, nil
}

// seenHot reports whether all of the region that begins at begin was known to be in the page cache a moment before now.
func (d *descriptor) seenHot(begin, now int64) bool {
	i := begin / hotRegion
	return i < int64(len(d.hotAt)) && now-d.hotAt[i].Load() < int64(verdictLife)
}

// sawHot remembers that all of the region that begins at begin is in the page cache; at 0, that it is not.
func (d *descriptor) sawHot(begin, now int64) {
	if i := begin / hotRegion; i < int64(len(d.hotAt)) {
		d.hotAt[i].Store(now)
	}
}

// isWarm reports whether bytes are in the page cache, as far as it can be known.
func (w *warmth) isWarm(off, n int64) bool { return w.d.heat(off, n) >= warm }

// read reads n bytes from off on into the page cache when it is this transfer's turn.
func (w *warmth) read(ctx context.Context, off, n int64) error {
	if err := w.turns.acquire(ctx); err != nil {
		return err
	}
	defer w.turns.release()
	block := millrace.DefaultPool.Get(coldBlock)
	defer block.Release()
	buf := block.Bytes()
	there := w.d.present(off, n, buf)
	if there == n {
		return nil // another transfer has read it meanwhile
	}
	w.bring(off, off+n)
	// The step after it is read by the disk while this one is sent.
	if next := min(coldStep, w.end-off-n); next > 0 && w.d.heat(off+n, next) <= cold {
		w.bring(off+n, off+n+next)
	}
	for at := off + there; at < off+n; {
		m, err := w.d.file.ReadAt(buf[:min(int64(len(buf)), off+n-at)], at)
		at += int64(m)
		w.colds += int64(m)
		if w.tuner != nil {
			w.tuner.Moved(int64(m))
		}
		if err != nil {
			return nil // whoever sends the bytes gets it as well
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if w.d.isGone(off, n) {
		w.d.uncached.Store(true) // a file system that has no page cache
	}
	return nil
}

// bring has the kernel begin to read the bytes [from, to), except those that it was asked for already.
func (w *warmth) bring(from, to int64) {
	from = max(from, w.ahead)
	if from >= to {
		return
	}
	for at := from; at < to; at += askMost {
		w.d.advise(at, min(askMost, to-at), willNeed)
	}
	w.ahead = to
	if w.drop {
		w.brought = append(w.brought, span{from, to})
	}
}

// dropBefore gives back what this transfer has brought into the page cache before off, unless others read the file, too.
func (w *warmth) dropBefore(off int64) {
	for len(w.brought) > 0 && w.brought[0].to <= off {
		if s := w.brought[0]; w.d.leave(s) {
			w.d.dropSpan(s)
		}
		w.brought = w.brought[1:]
	}
}

// over is called at the end of each part of the transfer.
func (w *warmth) over() {
	w.dropBefore(math.MaxInt64)
	w.ahead = 0
}

// leave notes that what is in s is not to stay in the page cache for longer than d is open. (Bytes that others are
// reading, or that a socket has not got rid of, cannot be dropped at once.) It reports whether nobody else uses d.
func (d *descriptor) leave(s span) (alone bool) {
	d.cache.mu.Lock()
	defer d.cache.mu.Unlock()
	if d.left.to == 0 {
		d.left = s
	}
	d.left = span{min(d.left.from, s.from), max(d.left.to, s.to)}
	return d.refs == 1
}

// dropSpan drops the bytes in s from the page cache, as far as they are not in use.
func (d *descriptor) dropSpan(s span) {
	for at := s.from; at < s.to; at = (at/hotRegion + 1) * hotRegion {
		d.sawHot(at, 0)
	}
	d.advise(s.from, s.to-s.from, dontNeed)
}
