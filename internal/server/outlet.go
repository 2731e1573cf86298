package server

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

const (
	// batchBytes bounds what a viewer takes from the ring at a time. A viewer that stalls pins one batch beyond what the
	// ring keeps; 256 KiB is more than the kernel takes at once from a connection whose unsent bytes are bounded.
	batchBytes = 256 << 10
	// batchPieces bounds the pieces of a batch. Packets that arrived together are one piece, so this is seldom reached.
	batchPieces = 64
	// pumpViewers is how many viewers one pump writes to before a second one starts. Writing to 512 takes about 4 ms.
	pumpViewers = 512
)

// An outlet is one form of a stream (as it came, or as MP4) on its way to those who watch it in that form.
type outlet struct {
	stream *stream
	ring   *broadcast.Ring
	form   form
	head   []byte  // what every viewer gets before anything from the ring
	mux    *muxing // what makes it; nil for the stream as it comes

	closed atomic.Bool  // nothing more will come
	why    atomic.Int32 // the ending of those who get all that there is; set before the ring is closed
	soon   atomic.Bool  // an announcement is on its way

	mu        sync.Mutex
	pumps     []*pump
	followers []chan struct{} // each has room for one signal
	timer     *time.Timer     // of announceSoon
}

func newOutlet(s *stream, f form, head []byte, ring *broadcast.Ring) *outlet {
	return &outlet{stream: s, ring: ring, form: f, head: head}
}

// pump returns the pump that a new viewer belongs to: the one with the fewest viewers, or a new one when all have many and
// there is a processor for it.
func (o *outlet) pump() *pump {
	o.mu.Lock()
	defer o.mu.Unlock()
	var least *pump
	for _, p := range o.pumps {
		if least == nil || p.count.Load() < least.count.Load() {
			least = p
		}
	}
	if least == nil || (least.count.Load() >= pumpViewers && len(o.pumps) < runtime.GOMAXPROCS(0)) {
		least = newPump(o)
		o.pumps = append(o.pumps, least)
	}
	least.count.Add(1)
	return least
}

// announce has all viewers served: there is something new in the ring. The ring could do that itself, but only for
// every frame, or with a timer of its own for every stream; see polled. The caller holds no lock.
func (o *outlet) announce() {
	served := o.wake(true)
	if served != nil && !served.roundHere() {
		signal(served.news)
	}
}

// wake wakes all who serve viewers. With butOne, a pump that is the only one is left to the caller.
func (o *outlet) wake(butOne bool) (left *pump) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if butOne && len(o.pumps) == 1 {
		left = o.pumps[0]
	} else {
		for _, p := range o.pumps {
			signal(p.news)
		}
	}
	for _, f := range o.followers {
		signal(f)
	}
	return left
}

// close ends the outlet: its viewers get what is there, and end for the given reason.
func (o *outlet) close(why ending) {
	o.why.Store(int32(why))
	_ = o.ring.Close()
	o.closed.Store(true)
	o.wake(false)
}

// announceSoon announces within d what was published until then.
func (o *outlet) announceSoon(d time.Duration) {
	if d == 0 {
		o.announce()
		return
	}
	if !o.soon.CompareAndSwap(false, true) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Reset(d)
		return
	}
	o.timer = time.AfterFunc(d, func() {
		o.soon.Store(false)
		o.announce()
	})
}

// follow returns a channel that is signalled at each announcement. unfollow ends that.
func (o *outlet) follow() chan struct{} {
	f := make(chan struct{}, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.followers = append(o.followers, f)
	return f
}

func (o *outlet) unfollow(f chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.followers = slices.DeleteFunc(o.followers, func(g chan struct{}) bool { return f == g })
}

// signal leaves a signal in a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// policy says what happens to a viewer that is too far behind. Frames can be left out of FLV only. Bytes of unknown
// form have no place to go on from, and an MP4 player goes on with the sound at once but waits with the picture.
func (o *outlet) policy() Policy {
	if o.form != formFLV {
		return Drop
	}
	return o.stream.server.cfg.LagPolicy
}

// behind returns how many viewers are too far behind, and how many seconds the one that is furthest behind lags. A
// viewer that keeps up counts as not behind at all.
func (o *outlet) behind() (viewers int, seconds float64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var worst int64
	for _, p := range o.pumps {
		viewers += int(p.behind.Load())
		worst = max(worst, p.lag.Load())
	}
	return viewers, float64(worst) / 1e9
}

// blocked returns how many viewers are driven by goroutines of their own.
func (o *outlet) blocked() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.pumps {
		n += int(p.blocked.Load())
	}
	return n
}
