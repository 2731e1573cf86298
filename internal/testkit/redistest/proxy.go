package redistest

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy stands between clients and a server and passes on what it reads, byte for byte, unless a [Rule] says otherwise.
// Its methods may be called from several goroutines.
type Proxy struct {
	network, addr string // of the server
	ln            net.Listener
	running       sync.WaitGroup

	mu       sync.Mutex
	rules    []*proxyRule
	released chan struct{} // closed by Release; Set makes a new one
	links    map[*link]struct{}
	refusing bool
	closed   bool
	counts   Counts
}

// Counts is what has passed a [Proxy].
type Counts struct {
	Accepted int   // connections so far
	Open     int   // connections now
	Requests int64 // bytes to the server
	Replies  int64 // bytes to the client, injected ones included
}

// StartProxy starts a proxy before the server at that address, "tcp" or "unix", on a port of its own. It ends with the
// test, and so do its connections.
func StartProxy(t testing.TB, network, addr string, rules ...Rule) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{network: network, addr: addr, ln: ln, links: make(map[*link]struct{})}
	p.Set(rules...)
	p.running.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

// Proxy starts a proxy before the server.
func (s *Server) Proxy(t testing.TB, rules ...Rule) *Proxy {
	t.Helper()
	return StartProxy(t, s.Network(), s.Addr(), rules...)
}

// Addr returns the proxy's address, host:port.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Options returns new options of a client that reaches s through the proxy.
func (p *Proxy) Options(s *Server) *redis.Options {
	o := s.Options()
	o.Network, o.Addr = "tcp", p.Addr()
	return o
}

// Set replaces all rules, and begins to count anew on the connections that are open. What the old rules have done stays
// done, but what they hold is released.
func (p *Proxy) Set(rules ...Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	p.released = make(chan struct{})
	p.rules = nil
	for _, r := range rules {
		p.rules = append(p.rules, &proxyRule{Rule: r})
	}
	for l := range p.links {
		l.marks = p.newMarks()
	}
}

// Release lets go on what HoldRequest and HoldReply hold, now and from now on, until Set.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

func (p *Proxy) release() {
	if p.released == nil {
		return
	}
	select {
	case <-p.released:
	default:
		close(p.released)
	}
}

// Push writes b to all clients now. In the middle of a reply it breaks the protocol; InjectReply says where exactly.
func (p *Proxy) Push(b string) {
	for _, l := range p.open() {
		l.reply([]byte(b))
	}
}

// Cut resets all connections. New ones are welcome.
func (p *Proxy) Cut() {
	for _, l := range p.open() {
		l.cut(true)
	}
}

// Refuse says whether new connections are reset as soon as they are accepted.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refuse
}

// Counts returns what has passed so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Open = len(p.links)
	return c
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []*link
	for l := range p.links {
		open = append(open, l)
	}
	return open
}

func (p *Proxy) serve() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		p.mu.Lock()
		p.counts.Accepted++
		refusing := p.refusing
		p.mu.Unlock()
		if refusing {
			reset(client)
			continue
		}
		p.running.Go(func() { p.connect(client) })
	}
}

// connect takes ownership of client.
func (p *Proxy) connect(client net.Conn) {
	server, err := net.Dial(p.network, p.addr)
	if err != nil {
		reset(client) // what a client sees of a server that is not there
		return
	}
	l := newLink(p, client, server)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		l.close()
		return
	}
	p.links[l] = struct{}{}
	l.marks = p.newMarks()
	p.mu.Unlock()

	l.run()

	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// close ends everything, and returns when no goroutine is left.
func (p *Proxy) close() {
	p.ln.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, l := range p.open() {
		l.close()
	}
	p.running.Wait()
}

// reset closes a connection with RST instead of FIN.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// pieceSize is how much a proxy reads at once.
const pieceSize = 32 << 10

// link is a connection through a proxy: two goroutines, one per direction.
type link struct {
	p              *Proxy
	client, server net.Conn
	ended          chan struct{} // closed when it is over: delays and holds end
	end            sync.Once
	writing        sync.Mutex // to the client: replies, and what Push adds

	// Guarded by p.mu.
	marks []*mark // one for each of the proxy's rules, in their order
	mute  [2]bool // what is read in that direction is thrown away
}

func newLink(p *Proxy, client, server net.Conn) *link {
	return &link{p: p, client: client, server: server, ended: make(chan struct{})}
}

// run passes on until both directions are over.
func (l *link) run() {
	var both sync.WaitGroup
	both.Go(func() {
		l.copyLoop(toServer, l.client, l.server)
		// A client that has gone reads no reply either, and nothing is to be held for it.
		l.end.Do(func() { close(l.ended) })
		l.server.Close()
	})
	both.Go(func() {
		l.copyLoop(toClient, l.server, l.client)
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

// copyLoop passes on one direction until its source ends.
func (l *link) copyLoop(dir direction, from, to net.Conn) {
	piece := make([]byte, pieceSize)
	for {
		n, err := from.Read(piece)
		l.pass(dir, piece[:n], to)
		if err != nil {
			return
		}
	}
}

// pass passes p on, and applies the rules on the way. A destination that is gone is the other direction's to notice.
func (l *link) pass(dir direction, p []byte, to net.Conn) {
	if len(p) == 0 {
		return
	}
	l.arm(dir, p)
	for {
		rule, released, n := l.next(dir, len(p))
		l.forward(dir, p[:n], to)
		p = p[n:]
		if rule == nil {
			return
		}
		l.apply(rule, released)
	}
}

// arm begins the count of rules that wait for a marker in p, which is about to pass: before the server can answer it.
func (l *link) arm(dir direction, p []byte) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for _, m := range l.marks {
		if dir == toServer || len(m.rule.on) == 0 {
			m.arm(p)
		}
	}
}

// next returns the rule that comes first within the next size bytes, and how many of them pass before it; all and no rule
// if none does. It counts these bytes.
func (l *link) next(dir direction, size int) (rule *proxyRule, released chan struct{}, n int) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	n = size
	if l.mute[dir] {
		return nil, nil, n
	}
	var first *mark
	for _, m := range l.marks {
		if m.rule.dir != dir || !m.armed || m.done || m.rule.times > 0 && m.rule.fired >= m.rule.times {
			continue
		}
		if left := m.rule.at - m.passed; left <= int64(n) && (first == nil || left < int64(n)) {
			first, n = m, int(max(left, 0))
		}
	}
	for _, m := range l.marks {
		if m.rule.dir == dir && m.armed {
			m.passed += int64(n)
		}
	}
	if first == nil {
		return nil, nil, n
	}
	first.done = true
	first.rule.fired++
	return first.rule, l.p.released, n
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
		l.reply(p)
	default:
		_, _ = to.Write(p)
	}
}

// reply writes to the client.
func (l *link) reply(p []byte) {
	l.p.mu.Lock()
	l.p.counts.Replies += int64(len(p))
	l.p.mu.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	_, _ = l.client.Write(p)
}

// apply does what a rule says. released is the rule's own, from before a Set that may have come since.
func (l *link) apply(r *proxyRule, released chan struct{}) {
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
		l.reply(r.bytes)
	case swallow:
		l.p.mu.Lock()
		l.mute[r.dir] = true
		l.p.mu.Unlock()
	}
}

// A proxyRule is a rule that a proxy has until the next Set.
type proxyRule struct {
	Rule
	fired int
}

// A mark is how far a connection has come with a rule.
type mark struct {
	rule   *proxyRule
	armed  bool   // its bytes count
	done   bool   // passed ≤ at until then
	passed int64  // negative while bytes up to the marker's end are still to pass
	tail   []byte // the end of the requests so far, in which a marker may have begun: len(tail) < len(on)
}

// newMarks returns the marks of a connection. The caller holds p.mu.
func (p *Proxy) newMarks() (marks []*mark) {
	for _, r := range p.rules {
		marks = append(marks, &mark{rule: r})
	}
	return marks
}

// arm searches the requests for the marker. p is about to pass.
func (m *mark) arm(p []byte) {
	if m.armed {
		return
	}
	if len(m.rule.on) == 0 {
		m.armed = true
		return
	}
	seen := append(m.tail, p...)
	if i := bytes.Index(seen, m.rule.on); i >= 0 {
		m.armed = true
		if m.rule.dir == toServer {
			m.passed = -int64(i + len(m.rule.on) - len(m.tail))
		}
		m.tail = nil
		return
	}
	keep := min(len(seen), len(m.rule.on)-1)
	m.tail = bytes.Clone(seen[len(seen)-keep:])
}
