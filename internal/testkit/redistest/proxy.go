package redistest

import (
	"bytes"
	"net"
	"sync"
)

// direction is where bytes go.
type direction int

const (
	toServer direction = iota // from the client to the server
	toClient                  // from the server to the client
)

// Rule is something that a [Proxy] does to a connection when a number of bytes has passed in one
// direction: at 0 before the first byte passes, at n as soon as the nth has. It does it once on
// each connection.
//
// The bytes are counted from [Proxy.Set], or from the beginning of a connection that is younger;
// with On from later.
type Rule struct {
	dir   direction
	at    int64
	on    []byte
	once  bool
	reset bool
	act   func(l *link, r *proxyRule)
}

// CutRequest ends the connection when n bytes of requests have reached the server.
func CutRequest(n int64) Rule {
	return Rule{dir: toServer, at: n, act: func(l *link, r *proxyRule) { l.cut(r.reset) }}
}

// CutReply ends the connection when n bytes of replies have reached the client, which gets them
// all, and then io.EOF.
func CutReply(n int64) Rule {
	return Rule{dir: toClient, at: n, act: func(l *link, r *proxyRule) { l.cut(r.reset) }}
}

// HoldRequest delays the bytes after the first n bytes of requests until [Proxy.Release].
func HoldRequest(n int64) Rule { return Rule{dir: toServer, at: n, act: (*link).hold} }

// HoldReply delays the bytes after the first n bytes of replies until [Proxy.Release].
func HoldReply(n int64) Rule { return Rule{dir: toClient, at: n, act: (*link).hold} }

// InjectReply inserts b after the first n bytes of replies.
func InjectReply(n int64, b string) Rule {
	return Rule{dir: toClient, at: n, act: func(l *link, _ *proxyRule) { l.reply([]byte(b)) }}
}

// SwallowReply drops the bytes after the first n bytes of replies. The connection stays open.
func SwallowReply(n int64) Rule {
	return Rule{dir: toClient, at: n, act: func(l *link, r *proxyRule) { l.silence(r.dir) }}
}

// On returns the rule with the count beginning where these bytes end in the connection's requests:
// for replies, with the next byte of a reply. So On("GET") leaves a client's greeting alone, which
// is of no fixed size. Replies are not matched with requests: it fits clients that wait for a reply
// before they send the next request.
func (r Rule) On(marker string) Rule {
	r.on = []byte(marker)
	return r
}

// Once returns a cut for only the first connection that reaches it, so that another try succeeds.
// It does not suit a call that the client has given up: bytes of such a call may still be passing,
// and count.
func (r Rule) Once() Rule {
	r.once = true
	return r
}

// Reset returns a cut that resets the connection (RST) instead of ending it (FIN). The client may
// lose bytes that had reached its machine.
func (r Rule) Reset() Rule {
	r.reset = true
	return r
}

// Proxy forwards bytes between clients and a server, unless a [Rule] says otherwise. Its methods
// may be called from several goroutines.
type Proxy struct {
	service
	server Endpoint

	// Guarded by mu.
	rules    []*proxyRule
	released chan struct{} // closed by Release
	requests int64
}

// A proxyRule is a rule that a proxy has until the next Set.
type proxyRule struct {
	Rule
	released chan struct{}
	fired    bool
}

// Endpoint returns how to connect to the server through the proxy; see [Server.Endpoint].
func (p *Proxy) Endpoint() Endpoint {
	e := p.server
	e.Network, e.Addr, e.TLS = "tcp", p.Addr(), e.TLS.Clone()
	return e
}

// Set replaces all rules, and counts from zero on the open connections. The effects of the old
// rules stay, but bytes that they hold are released.
func (p *Proxy) Set(rules ...Rule) {
	p.Release()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules, p.released = nil, make(chan struct{})
	for _, r := range rules {
		p.rules = append(p.rules, &proxyRule{Rule: r, released: p.released})
	}
	for l := range p.open {
		l.(*link).begin()
	}
}

// Release releases the bytes that HoldRequest and HoldReply hold, now and from now on, until Set.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.released:
	default:
		close(p.released)
	}
}

// Push writes b to all clients now. In the middle of a reply it breaks the protocol; InjectReply
// says where exactly.
func (p *Proxy) Push(b string) {
	for _, l := range p.links() {
		l.reply([]byte(b))
	}
}

// Cut resets all connections. New ones are welcome.
func (p *Proxy) Cut() {
	for _, l := range p.links() {
		l.cut(true)
	}
}

// Open returns how many connections there are.
func (p *Proxy) Open() int { return len(p.links()) }

// Requests returns how many bytes have been sent to the server.
func (p *Proxy) Requests() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func (p *Proxy) links() (links []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		links = append(links, l.(*link))
	}
	return links
}

// connect takes ownership of client.
func (p *Proxy) connect(client net.Conn) {
	server, err := net.Dial(p.server.Network, p.server.Addr)
	if err != nil {
		reset(client) // as if no server were there
		return
	}
	l := &link{p: p, client: client, server: server, ended: make(chan struct{})}
	p.add(l)
	p.mu.Lock()
	l.begin()
	p.mu.Unlock()
	l.run()
	p.remove(l)
}

// pieceSize is how much a proxy reads at once.
const pieceSize = 32 << 10

// link is a connection through a proxy: two goroutines, one per direction.
type link struct {
	p              *Proxy
	client, server net.Conn
	ended          chan struct{} // closed when it is over: holds end
	end            sync.Once
	writing        sync.Mutex // to the client: replies, and the data of Push

	// Guarded by p.mu.
	marks []*mark // one for each of the proxy's rules, in their order
	mute  [2]bool // drop data in that direction
}

// begin counts from here for the proxy's rules. The caller holds p.mu.
func (l *link) begin() {
	l.marks = nil
	for _, r := range l.p.rules {
		l.marks = append(l.marks, &mark{rule: r, armed: len(r.on) == 0})
	}
}

// run passes on until both directions are over.
func (l *link) run() {
	var both sync.WaitGroup
	both.Go(func() {
		l.copyLoop(toServer, l.client)
		l.endHolds() // a client that has gone reads no reply either
		l.server.Close()
	})
	both.Go(func() {
		l.copyLoop(toClient, l.server)
		closeWrite(l.client)
	})
	both.Wait()
	l.Close()
}

// Close ends both directions at once.
func (l *link) Close() error {
	l.endHolds()
	l.client.Close()
	return l.server.Close()
}

func (l *link) endHolds() { l.end.Do(func() { close(l.ended) }) }

// cut ends the connection as a rule says. Without a reset the client gets all that has been sent to
// it, since its requests are still read: a socket that is closed with bytes unread resets its
// connection.
func (l *link) cut(hard bool) {
	l.silence(toServer)
	l.silence(toClient)
	l.endHolds()
	if hard {
		reset(l.client) // first: after the end of server, copyLoop would send FIN
	}
	l.server.Close()
	closeWrite(l.client)
}

func (l *link) silence(dir direction) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.mute[dir] = true
}

func (l *link) hold(r *proxyRule) {
	select {
	case <-r.released:
	case <-l.ended:
	}
}

// copyLoop passes on one direction until its source ends, and applies the rules on the way. A
// destination that is gone is the other direction's to notice.
func (l *link) copyLoop(dir direction, from net.Conn) {
	piece := make([]byte, pieceSize)
	for {
		size, err := from.Read(piece)
		if dir == toServer {
			l.arm(piece[:size])
		}
		for p := piece[:size]; len(p) > 0; {
			rule, n := l.next(dir, len(p))
			if dir == toClient {
				l.reply(p[:n])
			} else {
				_, _ = l.server.Write(p[:n])
			}
			if rule != nil {
				rule.act(l, rule)
			}
			if l.muted(dir) {
				break
			}
			p = p[n:]
		}
		if err != nil {
			return
		}
	}
}

// arm begins the count of rules that wait for a marker in p, which is about to pass: before the
// server can answer it.
func (l *link) arm(p []byte) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for _, m := range l.marks {
		m.arm(p)
	}
}

// next returns the rule that comes first within the next size bytes, and how many of them pass
// before it; all and no rule if none does. It counts these bytes.
func (l *link) next(dir direction, size int) (rule *proxyRule, n int) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.mute[dir] {
		return nil, 0
	}
	n = size
	var first *mark
	for _, m := range l.marks {
		if m.rule.dir != dir || !m.armed || m.done || m.rule.once && m.rule.fired {
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
	if dir == toServer {
		l.p.requests += int64(n)
	}
	if first == nil {
		return nil, n
	}
	first.done, first.rule.fired = true, true
	return first.rule, n
}

func (l *link) muted(dir direction) bool {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.mute[dir]
}

// reply writes to the client.
func (l *link) reply(p []byte) {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, _ = l.client.Write(p)
}

// A mark is how far a connection has come with a rule.
type mark struct {
	rule   *proxyRule
	armed  bool  // its bytes count
	done   bool  // passed ≤ at until then
	passed int64 // negative while bytes up to the marker's end are still to pass
	// The end of the requests so far, in which a marker may have begun: len(tail) < len(on)
	tail []byte
}

// arm searches the requests for the marker. p is about to pass.
func (m *mark) arm(p []byte) {
	if m.armed {
		return
	}
	seen := append(m.tail, p...)
	if i := bytes.Index(seen, m.rule.on); i >= 0 {
		m.armed = true
		if m.rule.dir == toServer {
			m.passed = -int64(i + len(m.rule.on) - len(m.tail))
		}
		return
	}
	keep := min(len(seen), len(m.rule.on)-1)
	m.tail = bytes.Clone(seen[len(seen)-keep:])
}
