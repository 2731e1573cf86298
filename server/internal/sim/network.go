package sim

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

// A Network connects hosts. Its faults affect existing and later connections. Any goroutine may
// call its methods.
type Network struct {
	mu     sync.Mutex
	random *rand.Rand
	hosts  map[string]*Host
	links  map[route]*link
	conns  map[*Conn]bool // open connections, both ends of each
}

// A route is the way from one host to another.
type route struct{ from, to string }

// A link carries bytes along a route. Network.mu guards its fields.
type link struct {
	delay time.Duration
	cut   bool // bytes wait until the link is mended
}

// A Host has an address in a Network. Network.mu guards its fields.
type Host struct {
	net   *Network
	name  string
	ports map[string]*listener
	off   bool // has lost its power: it answers nothing
	alert bool // see Network.AlertHost
}

// A Process listens and dials at a host, until it is killed. Network.mu guards its fields.
type Process struct {
	host   *Host
	paused bool
	resume []func() // run when the pause ends
	dead   bool
}

// Start returns a new process at the host.
func (h *Host) Start() *Process { return &Process{host: h} }

// NewNetwork returns a Network. random decides the delays.
func NewNetwork(random *rand.Rand) *Network {
	return &Network{random: random, hosts: make(map[string]*Host), links: make(map[route]*link),
		conns: make(map[*Conn]bool)}
}

// Host returns the host with the given name, and adds it if necessary.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		h = &Host{net: n, name: name, ports: make(map[string]*listener)}
		n.hosts[name] = h
	}
	return h
}

// AlertHost is like Host. The programs at the host notice at once that another host has lost its
// power, as a player does that tolerates no silence.
func (n *Network) AlertHost(name string) *Host {
	h := n.Host(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	h.alert = true
	return h
}

// link returns the link of a route. The caller must hold n.mu.
func (n *Network) link(from, to string) *link {
	r := route{from, to}
	l := n.links[r]
	if l == nil {
		l = &link{delay: time.Duration(200+n.random.IntN(4000)) * time.Microsecond}
		n.links[r] = l
	}
	return l
}

// Cut stops or mends the link from one host to another. The other direction does not change.
func (n *Network) Cut(from, to string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).cut = cut
	n.wakeAll(func(c *Conn) bool { return c.between(from, to) })
}

// Slow sets the delay of the link from one host to another.
func (n *Network) Slow(from, to string, delay time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).delay = delay
}

// Reset breaks all connections between two hosts.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.between(a, b) {
			c.fail(syscall.ECONNRESET)
		}
	}
}

// wakeAll wakes the goroutines that wait at the connections for which match returns true. The
// caller must hold n.mu.
func (n *Network) wakeAll(match func(c *Conn) bool) {
	for c := range n.conns {
		if match(c) {
			c.wake()
		}
	}
}

// Pause stops or continues a process. While it is paused, it can neither send nor receive. The
// kernel still accepts connections and bytes for it.
func (p *Process) Pause(paused bool) {
	n := p.host.net
	n.mu.Lock()
	p.paused = paused
	resume := p.resume
	if !paused {
		p.resume = nil
	}
	n.wakeAll(func(c *Conn) bool { return c.local == p })
	for _, ln := range p.host.ports {
		ln.wake()
	}
	n.mu.Unlock()
	if !paused {
		for _, f := range resume {
			f()
		}
	}
}

// Kill ends the process with its connections and listeners, as the kernel does after SIGKILL. The
// other ends are told, unless a link is cut. What the goroutines of the process still do has no
// effect on others.
func (p *Process) Kill() { p.end((*Conn).reset) }

// PowerOff ends the process, and the power of its host. The other ends are not told.
func (p *Process) PowerOff() {
	p.end(func(peer *Conn) {
		if peer.local.host.alert {
			peer.reset()
			return
		}
		peer.orphan = true
		time.AfterFunc(keepAlive, func() {
			n := p.host.net
			n.mu.Lock()
			defer n.mu.Unlock()
			if !peer.closed {
				peer.fail(syscall.ETIMEDOUT)
			}
		})
	})
	p.host.net.mu.Lock()
	defer p.host.net.mu.Unlock()
	p.host.off = true
}

// keepAlive is the time after which the kernel ends a connection if the other end does not answer.
const keepAlive = 20 * time.Second

func (p *Process) end(tell func(peer *Conn)) {
	n := p.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	p.dead = true
	for c := range n.conns {
		if c.local == p {
			c.fail(net.ErrClosed)
			tell(c.peer)
		}
	}
	for port, ln := range p.host.ports {
		if ln.process == p {
			ln.closed = true
			ln.wake()
			delete(p.host.ports, port)
		}
	}
}

// PowerOn lets the host answer again. Connections from before are reset when the other end sends.
func (h *Host) PowerOn() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.off = false
	for c := range h.net.conns {
		if c.orphan && c.remote.host == h {
			c.wake()
		}
	}
}

// An addr is HOST:PORT.
type addr string

func (a addr) Network() string { return "sim" }
func (a addr) String() string  { return string(a) }

// A listener is a net.Listener. Network.mu guards its fields.
type listener struct {
	process *Process
	port    string
	ready   []*Conn
	closed  bool
	waking  chan struct{} // holds an element if Accept must look again
}

// Listen returns a listener at a port of the host.
func (p *Process) Listen(port string) net.Listener {
	n := p.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	ln := &listener{process: p, port: port, waking: make(chan struct{}, 1)}
	p.host.ports[port] = ln
	return ln
}

func (l *listener) wake() {
	select {
	case l.waking <- struct{}{}:
	default:
	}
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		n := l.process.host.net
		n.mu.Lock()
		switch {
		case l.closed:
			n.mu.Unlock()
			l.wake()
			return nil, net.ErrClosed
		case len(l.ready) > 0 && !l.process.paused:
			c := l.ready[0]
			l.ready = l.ready[1:]
			n.mu.Unlock()
			return c, nil
		}
		n.mu.Unlock()
		<-l.waking
	}
}

func (l *listener) Close() error {
	host := l.process.host
	host.net.mu.Lock()
	defer host.net.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	l.closed = true
	if host.ports[l.port] == l {
		delete(host.ports, l.port)
	}
	for _, c := range l.ready {
		c.fail(net.ErrClosed)
		c.peer.reset()
	}
	l.wake()
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.process.host.name + ":" + l.port) }

// Dial connects the process to an address of the form HOST:PORT. If the other host does not answer,
// Dial waits until ctx ends.
func (p *Process) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, self := p.host.net, p.host.name
	to := n.Host(host)
	for {
		n.mu.Lock()
		there, back := n.link(self, host), n.link(host, self)
		reached := !there.cut && !back.cut && !to.off && !p.paused
		delay, dead := there.delay+back.delay, p.dead
		n.mu.Unlock()
		if dead {
			return nil, net.ErrClosed
		}
		if !reached {
			delay = 200 * time.Millisecond // sent again
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, &net.OpError{Op: "dial", Net: "sim", Addr: addr(address), Err: ctx.Err()}
		}
		if !reached {
			continue
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		ln := to.ports[port]
		if ln == nil {
			return nil, &net.OpError{Op: "dial", Net: "sim", Addr: addr(address),
				Err: syscall.ECONNREFUSED}
		}
		a, b := newPair(p, ln.process, addr(self+":0"), ln.Addr())
		ln.ready = append(ln.ready, b)
		ln.wake()
		return a, nil
	}
}
