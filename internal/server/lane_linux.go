package server

import (
	"context"
	"iter"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// lanePublishers is how many publishers one lane serves before a second one starts: as many as a server has unless it
	// is told otherwise. Reading from so many encoders takes about a seventh of a processor.
	lanePublishers = 128
	// laneEvents is how many publishers a lane serves before it asks the kernel again.
	laneEvents = 64
	// laneHaste is how long a lane may take for those publishers before it leaves writing to viewers to the pumps,
	// which may run on other processors. Writing takes nearly all of a lane's time, and the others' bytes wait
	// meanwhile.
	laneHaste = 2 * time.Millisecond
)

// A lane serves publishers whose streams are passed on when they arrive. If a goroutine waited for each of them, then
// each packet would wake one, often on a thread that is woken for it, and the work would be that of a few packets. So
// their connections are in an epoll instance of the lane's, which is itself one descriptor in the runtime's poller
// (epoll(7) allows that): a wake-up finds all connections that have something, and they are served one after the other.
//
// What reads from a publisher parses a stream, so it has a stack of its own, as a coroutine: the lane switches to it, and it
// switches back when it has read what was there. The scheduler has no part in that.
//
// Fields that are not marked as guarded, and the publishers that the lane knows, are used by the lane's goroutine
// alone.
type lane struct {
	set   *laneSet
	file  *os.File // the epoll instance
	epoll int      // its descriptor
	count int      // publishers; guarded by set.mu

	mu     sync.Mutex
	joined []*laned // not in conns yet; guarded by mu
	called bool     // there is a reason to look at all; guarded by mu

	conns  map[int32]*laned // by their descriptors
	events [laneEvents]unix.EpollEvent
	began  int64 // when it began with what is in events; see now
	due    int64 // when to look at all
	over   bool  // the last publisher has left
}

// lanes are the process's, like the processors that bound their number.
var lanes laneSet

// A laneSet has as many lanes as its publishers need, and no goroutine when there are none.
//
// Invariants, for each lane in all:
//
//	0 < count
//	count ≤ lanePublishers, unless len(all) ≥ GOMAXPROCS
type laneSet struct {
	mu  sync.Mutex
	all []*lane
}

// join gives c to the lane that has the fewest publishers, or to a new one.
func (s *laneSet) join(c *laned) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l *lane
	for _, other := range s.all {
		if l == nil || other.count < l.count {
			l = other
		}
	}
	if l == nil || l.count >= lanePublishers && len(s.all) < runtime.GOMAXPROCS(0) {
		var err error
		if l, err = newLane(s); err != nil {
			return err
		}
	}
	if err := l.watch(c); err != nil {
		if l.count == 0 {
			_ = l.file.Close()
		}
		return err
	}
	if l.count++; l.count == 1 {
		s.all = append(s.all, l)
		go l.run()
	}
	return nil
}

// leave notes that a publisher of l has left, and returns whether it was the last.
func (s *laneSet) leave(l *lane) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.count--; l.count > 0 {
		return false
	}
	s.all = slices.DeleteFunc(s.all, func(other *lane) bool { return other == l })
	return true
}

func newLane(s *laneSet) (*lane, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	_ = unix.SetNonblock(fd, true) // so that os.NewFile gives it to the runtime's poller
	l := &lane{set: s, file: os.NewFile(uintptr(fd), "lane"), epoll: fd, conns: make(map[int32]*laned)}
	if err := l.file.SetReadDeadline(time.Time{}); err != nil {
		_ = l.file.Close()
		return nil, err
	}
	return l, nil
}

// watch begins to serve c, which has been served until now by its caller. set.mu is held.
func (l *lane) watch(c *laned) error {
	l.mu.Lock() // so that the lane knows c when the kernel names it
	defer l.mu.Unlock()
	// Level-triggered: a publisher that was left with something to read comes up again, after the others.
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd)}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	c.lane = l
	c.unwatch = context.AfterFunc(c.draining, l.call)
	l.joined = append(l.joined, c)
	l.callLocked() // it has to know how long c may be silent
	return nil
}

// call has the lane look at all of its publishers.
func (l *lane) call() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callLocked()
}

func (l *lane) callLocked() {
	l.called = true
	_ = l.file.SetReadDeadline(pastDeadline)
}

func (l *lane) run() {
	defer l.file.Close()
	raw, err := l.file.SyscallConn()
	if err != nil {
		panic(err) // an open file has one
	}
	for {
		l.lookAtAll()
		if l.over {
			return
		}
		_ = raw.Read(l.serve) // fails when it is time to look
	}
}

// serve serves the publishers that have something until none has. Then it returns false, to be called again when one
// has. It returns true when all have to be looked at, or when none is left.
//
// It is called in one raw.Read for as long as that can be: whatever arrives meanwhile then calls it again.
func (l *lane) serve(uintptr) bool {
	for !l.over {
		n := l.ask()
		if n == 0 {
			return false
		}
		called := l.meet()
		l.began = now()
		for i := range l.events[:n] {
			if c := l.conns[l.events[i].Fd]; c != nil {
				l.turn(c)
			}
		}
		if called || now() >= l.due {
			return true
		}
	}
	return true
}

// ask asks the kernel which publishers have something, and puts up to laneEvents of them into events. It does not wait,
// so it does not tell the scheduler either, which would wake a thread to look after this one.
func (l *lane) ask() int {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events[0])),
			laneEvents, 0, 0, 0)
		switch errno {
		case 0:
			return int(n)
		case unix.EINTR:
		default:
			return 0
		}
	}
}

// meet takes in those that have joined. It returns whether there is a reason to look at all.
func (l *lane) meet() (called bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.joined {
		l.conns[int32(c.fd)] = c
	}
	clear(l.joined)
	l.joined = l.joined[:0]
	return l.called
}

// late says whether writing to viewers is better left to others.
func (l *lane) late() bool { return now()-l.began > int64(laneHaste) }

// turn lets c read what there is. If that is the end, c leaves.
func (l *lane) turn(c *laned) {
	if c.resume() {
		return
	}
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
	c.unwatch()
	delete(l.conns, int32(c.fd))
	l.over = l.set.leave(l)
	go c.done()
}

// lookAtAll gives a turn to every publisher that has been silent for too long, or whose server shuts down. It settles
// when to look again.
func (l *lane) lookAtAll() {
	l.mu.Lock()
	l.called = false
	l.mu.Unlock()
	l.meet()
	l.began = now()
	l.due = l.began + int64(time.Hour)
	for _, c := range l.conns {
		if c.draining.Err() != nil || l.began-c.heard > int64(c.idle) {
			l.turn(c)
			continue
		}
		l.due = min(l.due, c.heard+int64(c.idle)+int64(time.Millisecond))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.called {
		_ = l.file.SetReadDeadline(time.Now().Add(time.Duration(l.due - now())))
	}
}

// A laned is a publisher's connection that a lane serves.
type laned struct {
	descriptor
	s    *stream
	turn int // bytes read in this turn

	lane    *lane // nil in the first turn
	unwatch func() bool
	next    func() (struct{}, bool)
	yield   func(struct{}) bool
	done    func()
	fault   error // why it cannot be served
}

// newLaned takes over conn's descriptor and closes conn. If conn has none, it returns nil and leaves conn as it was.
func newLaned(conn net.Conn, s *stream) driven {
	d, ok := newDescriptor(conn, s.server.cfg.PublishTimeout, s.server.draining)
	if !ok {
		return nil
	}
	return &laned{descriptor: d, s: s}
}

// start implements driven. The first turn is the caller's.
func (c *laned) start(read, done func()) {
	c.done = done
	c.begin(read)
	if !c.resume() {
		go done()
		return
	}
	if err := lanes.join(c); err != nil {
		c.fault = err
		c.resume() // it ends
		go done()
	}
}

// begin makes read a coroutine, to be run by resume.
func (c *laned) begin(read func()) {
	c.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		read()
	})
}

// resume lets read go on until it has to wait. It returns false when read has returned.
func (c *laned) resume() bool {
	_, more := c.next()
	return more
}

// Read implements io.Reader, for read: it returns what has arrived, and ends the turn if there is nothing more.
func (c *laned) Read(p []byte) (int, error) {
	if c.drained || c.turn >= tellBytes {
		c.rest()
	}
	for c.fault == nil {
		n, err := c.take(p)
		if err != errNothing {
			c.turn += n
			return n, err
		}
		c.rest()
	}
	return 0, c.fault
}

// rest ends the turn, and returns in the next one.
func (c *laned) rest() {
	c.tell()
	c.turn = 0
	c.drained = false
	c.yield(struct{}{})
}

// tell has the viewers served with what was read.
func (c *laned) tell() {
	if live := c.s.live; live != nil && c.lane != nil && c.lane.late() {
		live.wake(false)
		return
	}
	c.s.announceSoon()
}

// detach implements driven.
func (c *laned) detach() (net.Conn, error) {
	f := os.NewFile(uintptr(c.fd), "publisher")
	defer f.Close()
	c.fd = -1
	return net.FileConn(f)
}
