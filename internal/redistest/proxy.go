package redistest

import (
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Proxy stands between clients and a server and passes on what it reads, byte for byte, unless a [Rule] says otherwise.
// Its methods may be called from several goroutines.
type Proxy struct {
	network, addr string // of the server
	ln            net.Listener
	running       sync.WaitGroup

	mu       sync.Mutex
	rules    []*standing
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
		p.rules = append(p.rules, &standing{Rule: r})
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
		l.say([]byte(b))
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
