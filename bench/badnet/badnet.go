//go:build linux

// Package badnet carries TCP connections over a bad network, on one machine and without the
// kernel's netem: packets are lost, late and out of order, and a connection has little bandwidth.
//
// A [Network] is a TUN device in a separate network namespace. A server listens at the address
// Local of the device. A client connects to any other address of the device's subnet. The kernel
// then sends the packet to the Network, which exchanges source and destination, and returns the
// packet to the kernel: it seems to come from the other address. Checksums stay valid.
package badnet

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Local is the address at which servers listen.
	Local = "10.213.0.1"
	// Wide is an address for clients: connections to it have no limit of bandwidth.
	Wide = "10.213.0.2"
	// Narrow is an address for clients: connections to it have Config.Rate.
	Narrow = "10.213.0.3"
)

// A Config describes a bad network. Each value applies to each direction of a connection.
type Config struct {
	Delay   time.Duration // time that a packet takes
	Loss    float64       // part of the packets that is lost, from 0 to 1
	Reorder float64       // part of the packets that takes no time, and overtakes others
	Rate    int           // bits per second of a connection to Narrow
	Queue   time.Duration // a packet that would wait longer for Rate is lost
}

// Bad is a network with a round trip of 200 ms that loses and reorders 1% of the packets. A
// connection has 1 Mbit/s.
var Bad = Config{Delay: 100 * time.Millisecond, Loss: 0.01, Reorder: 0.01, Rate: 1_000_000,
	Queue: 500 * time.Millisecond}

// Command returns a command that runs this program again, in a new network namespace. The
// namespace has no devices except lo, which is down. Without the rights of root, it also has a user
// namespace.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// A Network is a bad network that is in use.
type Network struct {
	cfg Config
	tun *os.File

	mu      sync.Mutex
	rnd     *rand.Rand
	packets packets                // on their way
	free    map[[12]byte]time.Time // when a narrow connection can send its next packet
	stats   Stats

	wake   chan struct{} // the first element of packets has changed
	closed chan struct{}
}

// Stats counts packets.
type Stats struct{ Carried, Lost, Reordered, Full int64 }

// Open makes a Network in this process's network namespace, and also sets lo up. seed decides which
// packets are lost. The caller must call Close.
func Open(cfg Config, seed uint64) (*Network, error) {
	if err := configure("lo", ""); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("badnet: /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq("bad0")
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err == nil {
		err = configure("bad0", Local)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("badnet: %w", err), unix.Close(fd))
	}
	// The runtime's poller must see the device only after TUNSETIFF.
	n := &Network{cfg: cfg, tun: os.NewFile(uintptr(fd), "tun"), rnd: rand.New(rand.NewPCG(seed, 0)),
		free: make(map[[12]byte]time.Time), wake: make(chan struct{}, 1),
		closed: make(chan struct{})}
	go n.receive()
	go n.deliver()
	return n, nil
}

// configure sets a device up. It gives the device an address, unless address is empty.
func configure(device, address string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if address != "" {
		if err := req.SetInet4Addr([]byte{10, 213, 0, 1}); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, unix.SIOCSIFADDR, req); err != nil {
			return err
		}
		_ = req.SetInet4Addr([]byte{255, 255, 255, 0})
		if err := unix.IoctlIfreq(s, unix.SIOCSIFNETMASK, req); err != nil {
			return err
		}
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req)
}

// Close ends the network. Its connections then get no more packets.
func (n *Network) Close() error {
	err := n.tun.Close()
	close(n.closed)
	return err
}

// Stats returns the number of packets so far.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stats
}

// receive reads packets from the kernel until the device is closed.
func (n *Network) receive() {
	b := make([]byte, 64<<10)
	for {
		size, err := n.tun.Read(b)
		if err != nil {
			return
		}
		if size >= 24 && b[0] == 0x45 && b[9] == unix.IPPROTO_TCP {
			n.carry(bytes.Clone(b[:size]))
		}
	}
}

// carry decides when a packet arrives, if ever.
func (n *Network) carry(p []byte) {
	narrow := string(p[12:16]) == "\x0a\xd5\x00\x03" || string(p[16:20]) == "\x0a\xd5\x00\x03"
	flow := [12]byte(p[12:24]) // addresses and ports
	var addr [4]byte
	copy(addr[:], p[12:])
	copy(p[12:16], p[16:20])
	copy(p[16:20], addr[:])
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	at := now
	if narrow && n.cfg.Rate > 0 {
		if free := n.free[flow]; free.After(at) {
			at = free
		}
		if at.Sub(now) > n.cfg.Queue {
			n.stats.Full++
			return
		}
		at = at.Add(time.Duration(len(p)) * 8 * time.Second / time.Duration(n.cfg.Rate))
		n.free[flow] = at
	}
	switch chance := n.rnd.Float64(); {
	case chance < n.cfg.Loss:
		n.stats.Lost++
		return
	case chance < n.cfg.Loss+n.cfg.Reorder:
		n.stats.Reordered++
	default:
		at = at.Add(n.cfg.Delay)
	}
	n.stats.Carried++
	heap.Push(&n.packets, packet{at, n.stats.Carried, p})
	if n.packets[0].number == n.stats.Carried {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// deliver returns packets to the kernel when they arrive, until the device is closed.
func (n *Network) deliver() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-n.wake:
		case <-timer.C:
		case <-n.closed:
			return
		}
		for {
			p, wait := n.next()
			if p == nil {
				timer.Reset(wait)
				break
			}
			_, _ = n.tun.Write(p) // after Close, it fails
		}
	}
}

// next returns the next packet if it has arrived, or else the time to wait.
func (n *Network) next() (p []byte, wait time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.packets) == 0 {
		return nil, time.Hour
	}
	if wait = time.Until(n.packets[0].at); wait > 0 {
		return nil, wait
	}
	return heap.Pop(&n.packets).(packet).data, 0
}

// A packet is on its way.
type packet struct {
	at     time.Time
	number int64 // in the order of sending
	data   []byte
}

// packets is a heap. Its first element is the packet that arrives next.
type packets []packet

func (q packets) Len() int { return len(q) }

func (q packets) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].number < q[j].number
}

func (q packets) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *packets) Push(p any)   { *q = append(*q, p.(packet)) }

func (q *packets) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = packet{}
	*q = (*q)[:last]
	return p
}
