package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// maxFailures limits the failures that a history reports.
const maxFailures = 20

// A Check collects the changes of owners in Redis and the frames that clients receive, and compares
// them with the promises of a cluster. Any goroutine may call its methods.
type Check struct {
	book         *logBook
	silentOwners bool // a silent publisher keeps its stream
	// disturbed reports whether a fault has affected Redis or the node with an address since a
	// time, or the process of the node since another time.
	disturbed func(address string, since, itselfSince time.Time) bool

	mu   sync.Mutex
	calm bool // nothing may be lost now
	// Until then a claim may get an epoch that is lower than an earlier one, if Redis has lost the
	// earlier claim: epochs come from the clock of Redis, which went back.
	epochsRepeat time.Time
	failures     []string
	sessions     []*session
	streams      map[string]*owners
	objects      map[string][32]byte // the SHA-256 of each HLS object, by stream and name
	counts       Counts
}

// Counts says how much happened in a history.
type Counts struct {
	Sessions  int // connections of publishers
	Frames    int // frames that they have sent
	Seen      int // frames that viewers have received
	Gaps      int // times that a viewer has missed frames
	Switches  int // times that a viewer got another session
	Objects   int // HLS segments that players have received
	Playlists int
	Claims    int // new owners
	Restored  int // owners that a renewal has restored
	Ends      int // streams that were given up
}

func (c *Counts) add(o *Counts) {
	c.Sessions += o.Sessions
	c.Frames += o.Frames
	c.Seen += o.Seen
	c.Gaps += o.Gaps
	c.Switches += o.Switches
	c.Objects += o.Objects
	c.Playlists += o.Playlists
	c.Claims += o.Claims
	c.Restored += o.Restored
	c.Ends += o.Ends
}

// owners has the history of a stream's owner.
type owners struct {
	epochs map[uint64]string // each epoch's node
	given  time.Time         // when the last epoch was given
	lost   uint64            // see dataLost; 0: none
	// The greatest epoch that each node certainly knows, by its address: one of which it has served
	// a frame since its last start.
	known map[string]uint64
	last  OwnerChange
	since time.Time // when last happened
	most  uint64
	ends  int // how often an owner has given up the stream
}

func newCheck(book *logBook) *Check {
	return &Check{book: book, streams: make(map[string]*owners), objects: make(map[string][32]byte)}
}

// fail records a failure.
func (c *Check) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(format, args...)
}

func (c *Check) failLocked(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.book.add("FAIL", text)
	if len(c.failures) < maxFailures {
		c.failures = append(c.failures, fmt.Sprintf("%.3f s: %s",
			time.Since(c.book.start).Seconds(), text))
	}
}

func (c *Check) setCalm(calm bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = calm
}

// nodeStarted records that a new process of a node begins, which knows nothing.
func (c *Check) nodeStarted(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.streams {
		delete(o.known, addressOf(name))
	}
}

// clockWentBack records that a server of Redis has taken over whose clock is behind.
func (c *Check) clockWentBack(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epochsRepeat = time.Now().Add(by)
}

// dataLost records that Redis has lost data. If it had granted a claim a short time before, the
// node may not have got the reply, and then does not know the epoch.
func (c *Check) dataLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.streams {
		if time.Since(o.given) < claimTime {
			o.lost = o.last.Epoch
		}
	}
}

func (c *Check) owners(stream string) *owners {
	o := c.streams[stream]
	if o == nil {
		o = &owners{epochs: make(map[uint64]string), known: make(map[string]uint64)}
		c.streams[stream] = o
	}
	return o
}

// ownerChanged checks a change of an owner in Redis. An epoch belongs to one node, and the epoch of
// a claim is greater than all earlier ones. After clockWentBack, it is at least greater than those
// that the node knows.
func (c *Check) ownerChanged(e OwnerChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.addf("redis", "%s: %+v", e.Stream, e)
	o := c.owners(e.Stream)
	switch node, known := o.epochs[e.Epoch]; {
	case known && node != e.Node:
		c.failLocked("%s: epoch %d belongs to %s, and was given to %s", e.Stream, e.Epoch, node,
			e.Node)
	case e.Restored && !known:
		c.failLocked("%s: %s has restored epoch %d, which was never given", e.Stream, e.Node,
			e.Epoch)
	case !e.Restored && !e.GivenUp && (e.Epoch <= o.known[e.Node] || e.Epoch <= o.most &&
		time.Now().After(c.epochsRepeat)):
		c.failLocked("%s: %s got epoch %d after epoch %d", e.Stream, e.Node, e.Epoch, o.most)
	}
	if e.Replaced != "" && c.isSilent(e) {
		c.failLocked("%s: %s has replaced %s, although its publisher is silent", e.Stream, e.Node,
			e.Replaced)
	}
	o.last, o.since = e, time.Now()
	if e.GivenUp {
		o.ends++
		c.counts.Ends++
		return
	}
	if e.Restored {
		c.counts.Restored++
	} else {
		c.counts.Claims++
	}
	if o.epochs[e.Epoch] = e.Node; !e.Restored {
		o.given = time.Now()
	} else if o.lost == e.Epoch {
		o.lost = 0 // the node knows it
	}
	o.most = max(o.most, e.Epoch)
	for _, s := range c.sessions {
		if s.ended.IsZero() && s.stream == e.Stream && addressOf(s.node) == e.Node {
			s.epoch = e.Epoch
		}
	}
}

// isSilent reports whether the node that has claimed a stream has only publishers that were silent
// when it sent the claim. The result is false if a fault may have delayed the claim, which is sent
// again for up to a quarter of a lease, or if the node was suspended, and reads only now what its
// publishers have sent. The caller must hold c.mu.
func (c *Check) isSilent(e OwnerChange) bool {
	const least = live.StalledAfter + time.Second + lease/4
	now := time.Now()
	silent := false
	for _, s := range c.sessions {
		if s.stream != e.Stream || addressOf(s.node) != e.Node {
			continue
		}
		if now.Sub(s.last) < least {
			return false
		}
		silent = silent || s.ended.IsZero()
	}
	return silent && !c.disturbed(e.Node, now.Add(-300*time.Millisecond), now.Add(-least))
}

// endsOf returns how often the owners of a stream have given it up.
func (c *Check) endsOf(stream string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owners(stream).ends
}

// An ownership is what Redis last recorded about the owner of a stream.
type ownership struct {
	node    string
	epoch   uint64
	givenUp bool
	since   time.Time
}

func (c *Check) ownership(stream string) ownership {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.owners(stream)
	node := strings.TrimSuffix(strings.TrimPrefix(o.last.Node, "http://"), ":"+mainPort)
	return ownership{node, o.last.Epoch, o.last.GivenUp, o.since}
}

// A watch describes the frames that one connection of a viewer has received.
type watch struct {
	who    string
	stream string
	node   string // the address of the viewer's node
	last   frame
	any    bool
	epoch  uint64 // the greatest epoch of a frame
	owned  int    // the last session of an owner, or -1
	gone   []int  // sessions of owners that sessions of other owners have followed
}

// frame checks a frame that a viewer has received.
func (c *Check) frame(w *watch, f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Seen++
	if f.session >= len(c.sessions) || c.sessions[f.session].stream != w.stream {
		c.failLocked("%s: %v, which was not published in %s", w.who, f, w.stream)
		return
	}
	s := c.sessions[f.session]
	if f.seq >= s.sent {
		c.failLocked("%s: %v, which was not sent yet", w.who, f)
	}
	switch last := w.last; {
	case !w.any:
		if !f.key && f.seq >= s.firstKey {
			c.failLocked("%s: begins with %v, which is no keyframe", w.who, f)
		}
	case f.time < last.time:
		c.failLocked("%s: %v has time %d ms, after %v with %d ms", w.who, f, f.time, last, last.time)
	case f.session == last.session && f.seq <= last.seq:
		c.failLocked("%s: %v after %v", w.who, f, last)
	case f.session == last.session && f.seq > last.seq+1:
		c.counts.Gaps++
		c.book.addf(w.who, "%d frames missed before %v", f.seq-last.seq-1, f)
		if !f.key {
			c.failLocked("%s: %v after %v, and is no keyframe", w.who, f, last)
		}
		if c.calm {
			c.failLocked("%s: %v after %v, without a fault", w.who, f, last)
		}
	case f.session != last.session:
		c.counts.Switches++
		if !f.key {
			c.failLocked("%s: %v after %v, and is no keyframe", w.who, f, last)
		}
	}
	epoch := s.epoch
	switch lost := c.owners(w.stream).lost; lost {
	case epoch:
		epoch = 0
	case w.epoch:
		w.epoch = 0
	}
	if epoch != 0 && (!w.any || w.owned != f.session) {
		if slices.Contains(w.gone, f.session) {
			c.failLocked("%s: %v after session %d, which had followed it", w.who, f, w.owned)
		}
		w.gone = append(w.gone, w.owned)
		w.owned = f.session
	}
	if epoch != 0 && epoch < w.epoch {
		c.failLocked("%s: %v of epoch %d, after a frame of epoch %d", w.who, f, epoch, w.epoch)
	}
	w.epoch = max(w.epoch, epoch)
	known := c.owners(w.stream).known
	known[w.node] = max(known[w.node], epoch)
	w.last, w.any = f, true
}

// object checks that an HLS object has the same bytes at every node and each time.
func (c *Check) object(who, stream, name string, body []byte) {
	sum := sha256.Sum256(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Objects++
	key := stream + "/" + name
	if old, ok := c.objects[key]; ok && old != sum {
		c.failLocked("%s: %s has other bytes than before", who, key)
	}
	c.objects[key] = sum
}

func (c *Check) playlist() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Playlists++
}

func (c *Check) result() (failures []string, counts Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.failures), c.counts
}

// A playback is a sequence of segments without a discontinuity.
type playback struct {
	who, stream string
	last        frame
	any         bool
}

// segment checks that the frames of an HLS segment follow the frames of the segment before.
func (c *Check) segment(w *playback, name string, list []frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range list {
		if f.session >= len(c.sessions) || c.sessions[f.session].stream != w.stream {
			c.failLocked("%s: %s has %v, which was not published in %s", w.who, name, f, w.stream)
			return
		}
		if last := w.last; w.any && f.session == last.session && f.seq != last.seq+1 &&
			(f.seq <= last.seq || !f.key) {
			c.failLocked("%s: %s has %v after %v", w.who, name, f, last)
		}
		w.last, w.any = f, true
	}
}
