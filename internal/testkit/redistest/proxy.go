package redistest

import (
	"bytes"
	"net"
	"sync"
)

type direction int

const (
	toServer direction = iota
	toClient
)

// A Rule makes a [Proxy] act on a connection after n bytes in one direction. For example,
// CutRequest(n) ends the connection. If n is 0, the Proxy acts before the first byte. Each Rule
// acts once on each connection.
//
// The Proxy counts bytes from the start of the connection. [Rule.On] starts the count later.
// [Proxy.Set] restarts the count on open connections.
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

// CutReply ends the connection after n bytes of replies. The client receives the n bytes, and then
// io.EOF.
func CutReply(n int64) Rule {
	return Rule{dir: toClient, at: n, act: func(l *link, r *proxyRule) { l.cut(r.reset) }}
}

// HoldRequest forwards the first n bytes of a connection's requests, and delays all later bytes
// until [Proxy.Release].
func HoldRequest(n int64) Rule { return Rule{dir: toServer, at: n, act: (*link).hold} }

// HoldReply delays all bytes after the first n bytes of replies until [Proxy.Release].
func HoldReply(n int64) Rule { return Rule{dir: toClient, at: n, act: (*link).hold} }

// InjectReply inserts b after the first n bytes of replies.
func InjectReply(n int64, b string) Rule {
	return Rule{dir: toClient, at: n, act: func(l *link, _ *proxyRule) { l.reply([]byte(b)) }}
}

// SwallowReply drops all bytes after the first n bytes of replies. The connection stays open.
func SwallowReply(n int64) Rule {
	return Rule{dir: toClient, at: n, act: func(l *link, r *proxyRule) { l.silence(r.dir) }}
}

// On returns a Rule that counts bytes only after marker has appeared in the connection's requests.
// A Rule for replies counts the bytes that arrive after that. For example, On("GET") does not count
// a client's greeting.
//
// Use On only for clients that wait for each reply. The Proxy does not know which reply belongs to
// which request.
func (r Rule) On(marker string) Rule {
	r.on = []byte(marker)
	return r
}

// Once returns a Rule that acts on one connection only: the first connection on which n bytes have
// passed. The client's next try then succeeds.
//
// Do not use Once if the client may abandon a call. The Proxy also counts the bytes of the
// abandoned call, so the Rule may act too early.
func (r Rule) Once() Rule {
	r.once = true
	return r
}

// Reset returns a Rule that cuts with RST instead of FIN. The client may lose bytes that its
// machine has received.
func (r Rule) Reset() Rule {
	r.reset = true
	return r
}

// Proxy forwards bytes between clients and a server, and applies [Rule]s. Its methods may be called
// from several goroutines.
type Proxy struct {
	service
	server Endpoint

	// Guarded by service.mu.
	rules    []*proxyRule
	released chan struct{} // closed by Release
	requests int64
}

type proxyRule struct {
	Rule
	released chan struct{}
	fired    bool
}

// Endpoint returns the server's Endpoint with the address of the proxy; see [Server.Endpoint].
func (p *Proxy) Endpoint() Endpoint {
	e := p.server
	e.Network, e.Addr, e.TLS = "tcp", p.Addr(), e.TLS.Clone()
	return e
}

// Set replaces all Rules. For the new Rules, the Proxy counts the bytes on open connections from
// zero. Set releases the bytes that the old Rules have delayed. It does not undo other effects of
// the old Rules.
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

// Release forwards the bytes that a Rule from HoldRequest or HoldReply has delayed. From then on,
// such a Rule delays nothing until the next call to Set.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.released:
	default:
		close(p.released)
	}
}

// Push writes b to all clients now, even within a reply. To insert bytes at an exact position, use
// InjectReply.
func (p *Proxy) Push(b string) {
	for _, l := range p.links() {
		l.reply([]byte(b))
	}
}

// Cut resets all connections. The Proxy still accepts new connections.
func (p *Proxy) Cut() {
	for _, l := range p.links() {
		l.cut(true)
	}
}

// Open returns the number of open connections.
func (p *Proxy) Open() int { return len(p.links()) }

// Requests returns the number of bytes sent to the server.
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

func (p *Proxy) connect(client net.Conn) {
	server, err := net.Dial(p.server.Network, p.server.Addr)
	if err != nil {
		reset(client) // as if there were no server
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

const pieceSize = 32 << 10

// link is a connection through a Proxy, with one goroutine for each direction.
type link struct {
	p              *Proxy
	client, server net.Conn
	ended          chan struct{} // closed when the link ends, so that hold returns
	end            sync.Once
	writing        sync.Mutex // held while writing to the client

	// Guarded by p.mu.
	marks []*mark // one for each rule of the Proxy, in the same order
	mute  [2]bool // for each direction: drop the bytes
}

// begin applies the Proxy's current rules, which count bytes from 0. The caller must hold l.p.mu.
func (l *link) begin() {
	l.marks = nil
	for _, r := range l.p.rules {
		l.marks = append(l.marks, &mark{rule: r, armed: len(r.on) == 0})
	}
}

func (l *link) run() {
	var both sync.WaitGroup
	both.Go(func() {
		l.copyLoop(toServer, l.client)
		l.endHolds() // a client that has disconnected reads no replies
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

// cut ends the connection. If hard is true, cut resets it. Otherwise, the client still receives all
// bytes that the proxy has sent. The proxy then continues to read requests: if it closed the socket
// with unread bytes, the connection would be reset.
func (l *link) cut(hard bool) {
	l.silence(toServer)
	l.silence(toClient)
	l.endHolds()
	if hard {
		reset(l.client) // before l.server.Close, which would make copyLoop send a FIN
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

// copyLoop forwards the bytes of one direction and applies the rules. It ignores write errors,
// which the copyLoop of the other direction detects.
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

// arm looks for markers (see [Rule.On]) in p, the next bytes of the requests. Call arm before p is
// forwarded, because the server may reply at once.
func (l *link) arm(p []byte) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for _, m := range l.marks {
		m.arm(p)
	}
}

// next is called after size bytes have arrived in a direction. It returns the first rule that acts
// within these bytes, and the number n of bytes before the rule acts. The caller must forward n
// bytes, and then let the rule act. next counts the n bytes for all rules of the direction.
//
// If no rule acts, next returns nil and size. If the direction is muted, next returns nil and 0,
// and the caller drops the bytes.
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

func (l *link) reply(p []byte) {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, _ = l.client.Write(p)
}

type mark struct {
	rule   *proxyRule
	armed  bool  // the rule's marker has been found, or the rule has no marker
	done   bool  // the rule has acted; until then, passed ≤ at
	passed int64 // bytes so far; negative before the end of the marker
	// tail is the end of the requests so far, which may be the start of the marker.
	tail []byte
}

// arm looks for the rule's marker in p, the next bytes of the requests.
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
