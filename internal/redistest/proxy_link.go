package redistest

import (
	"net"
	"sync"
	"time"
)

// pieceSize is how much a proxy reads at once.
const pieceSize = 32 << 10

// link is a connection through a proxy: two goroutines, one per direction.
type link struct {
	p              *Proxy
	client, server net.Conn
	ended          chan struct{} // closed when it is over; whoever waits for something stops waiting
	end            sync.Once
	writing        sync.Mutex // to the client: replies, and what Push adds

	// Guarded by p.mu.
	marks [2]map[*standing]*progress // by the direction that counts; those of earlier rules are dropped
	mute  [2]bool                    // what is read is thrown away
	first *standing                  // of the rules that marks is about
}

func newLink(p *Proxy, client, server net.Conn) *link {
	return &link{p: p, client: client, server: server, ended: make(chan struct{})}
}

// run passes on until both directions are over.
func (l *link) run() {
	var both sync.WaitGroup
	both.Go(func() {
		l.pump(toServer, l.client, l.server)
		// A client that has gone reads no reply either, and nothing is to be held for it.
		l.end.Do(func() { close(l.ended) })
		l.server.Close()
	})
	both.Go(func() {
		l.pump(toClient, l.server, l.client)
		closeWrite(l.client)
	})
	both.Wait()
	l.close()
}

// close ends both directions at once.
func (l *link) close() {
	l.end.Do(func() { close(l.ended) })
	l.client.Close()
	l.server.Close()
}

// cut ends the connection as a rule says. Without a reset the client gets all that has been sent to it, since its
// requests are still read: a socket that is closed with bytes unread resets its connection.
func (l *link) cut(hard bool) {
	l.p.mu.Lock()
	l.mute = [2]bool{true, true}
	l.p.mu.Unlock()
	l.end.Do(func() { close(l.ended) })
	l.server.Close()
	if hard {
		reset(l.client)
		return
	}
	closeWrite(l.client)
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// pump passes on one direction until its source ends.
func (l *link) pump(dir direction, from, to net.Conn) {
	piece := make([]byte, pieceSize)
	for {
		n, err := from.Read(piece)
		l.pass(dir, piece[:n], to)
		if err != nil {
			return
		}
	}
}

// pass passes p on and does what the rules say on the way. A destination that is gone is the other direction's to notice.
func (l *link) pass(dir direction, p []byte, to net.Conn) {
	if len(p) == 0 {
		return
	}
	l.look(dir, p)
	for {
		rule, released, n := l.next(dir, len(p))
		l.forward(dir, p[:n], to)
		p = p[n:]
		if rule == nil {
			return
		}
		l.do(rule, released)
		if len(p) == 0 && !l.due(dir) {
			return
		}
	}
}

// progress returns how far the connection has come with each rule, in the order of the rules. Caller holds p.mu.
func (l *link) progress(r *standing) *progress {
	if l.first != l.p.rules[0] {
		l.first = l.p.rules[0]
		l.marks = [2]map[*standing]*progress{{}, {}}
	}
	g := l.marks[r.dir][r]
	if g == nil {
		g = new(progress)
		l.marks[r.dir][r] = g
	}
	return g
}

// look shows the rules that wait for a marker the requests, before the server can answer them.
func (l *link) look(dir direction, p []byte) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for _, r := range l.p.rules {
		if dir == toServer || len(r.on) == 0 {
			l.progress(r).look(r, p)
		}
	}
}

// next returns the rule that comes first within the next size bytes, and how many of them pass before it; all and no rule
// if none does. It counts these bytes.
func (l *link) next(dir direction, size int) (first *standing, released chan struct{}, n int) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	n = size
	if l.mute[dir] {
		return nil, nil, n
	}
	for _, r := range l.p.rules {
		if r.dir != dir {
			continue
		}
		g := l.progress(r)
		if !g.armed || g.done || r.times > 0 && r.fired >= r.times {
			continue
		}
		if left := r.at - g.passed; left <= int64(n) && (first == nil || left < int64(n)) {
			first, n = r, int(max(left, 0))
		}
	}
	for _, r := range l.p.rules {
		if r.dir == dir {
			if g := l.progress(r); g.armed {
				g.passed += int64(n)
			}
		}
	}
	if first != nil {
		l.progress(first).done = true
		first.fired++
	}
	return first, l.p.released, n
}

// due reports whether another rule is to be obeyed at this very byte.
func (l *link) due(dir direction) bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for _, r := range l.p.rules {
		if r.dir == dir {
			if g := l.progress(r); g.armed && !g.done && g.passed >= r.at {
				return true
			}
		}
	}
	return false
}

// forward writes p, unless the direction is mute.
func (l *link) forward(dir direction, p []byte, to net.Conn) {
	l.p.mu.Lock()
	mute := l.mute[dir]
	if !mute && dir == toServer {
		l.p.counts.Requests += int64(len(p))
	}
	l.p.mu.Unlock()
	switch {
	case mute || len(p) == 0:
	case dir == toClient:
		l.say(p)
	default:
		_, _ = to.Write(p)
	}
}

func (l *link) say(p []byte) {
	l.p.mu.Lock()
	l.p.counts.Replies += int64(len(p))
	l.p.mu.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	_, _ = l.client.Write(p)
}

// do obeys a rule. released is the rule's own, from before a Set that may have come since.
func (l *link) do(r *standing, released chan struct{}) {
	switch r.act {
	case cut:
		l.cut(r.reset)
	case pause:
		timer := time.NewTimer(r.wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.ended:
		}
	case hold:
		select {
		case <-released:
		case <-l.ended:
		}
	case inject:
		l.say(r.bytes)
	case swallow:
		l.p.mu.Lock()
		l.mute[r.dir] = true
		l.p.mu.Unlock()
	}
}
