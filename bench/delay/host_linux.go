package delay

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
	"golang.org/x/sys/unix"
)

// mtu is what a network card sends at most in one frame where both ends have been told so. Smaller packets would only keep this
// process busy.
const mtu = 9000

// A Host is a network namespace with one network device. What Do runs sees that network, and what it opens stays in it.
type Host struct {
	IP    string
	tasks chan func()
	end   *os.File // of the device: what the host sends can be read from it
}

// newHost makes a host whose only neighbour is peer.
func newHost(ip, peer string) (*Host, error) {
	h := &Host{IP: ip, tasks: make(chan func())}
	made := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine, and with it the namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = h.plug(peer)
		}
		if made <- err; err != nil {
			return
		}
		for task := range h.tasks {
			task()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("delay: a network of its own: %w", err)
	}
	return h, nil
}

// plug makes the device.
func (h *Host) plug(peer string) error {
	ip, err := measure.Find("ip", "iproute2")
	if err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("open /dev/net/tun", err)
	}
	req, err := unix.NewIfreq("line")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return os.NewSyscallError("TUNSETIFF", err)
	}
	h.end = os.NewFile(uintptr(fd), "line")
	for _, args := range []string{
		"link set lo up",
		fmt.Sprintf("addr add %s peer %s dev line", h.IP, peer),
		fmt.Sprintf("link set line mtu %d txqueuelen 50000 up", mtu),
	} {
		if out, err := exec.Command(ip, strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// Do runs f on the host, and returns when f has.
func (h *Host) Do(f func()) {
	done := make(chan struct{})
	h.tasks <- func() { defer close(done); f() }
	<-done
}

// Listen returns a listener on a port of the host.
func (h *Host) Listen() (l net.Listener, err error) {
	h.Do(func() { l, err = net.Listen("tcp", h.IP+":0") })
	return l, err
}

// Dial connects the host to addr, which is an IP address and a port: a name would be looked up on another thread.
func (h *Host) Dial(addr string) (c net.Conn, err error) {
	h.Do(func() { c, err = net.Dial("tcp", addr) })
	return c, err
}

func (h *Host) close() {
	close(h.tasks)
	_ = h.end.Close()
}
