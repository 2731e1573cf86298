package live_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/web"
	"golang.org/x/sys/unix"
)

// A hijackable is a ResponseWriter whose connection the handler can take over.
type hijackable struct {
	http.ResponseWriter
	conn net.Conn
}

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, nil, nil }

// The kernel's limit of unsent bytes is set for a viewer. Otherwise several megabytes in the kernel
// would hide that the viewer has stopped.
func TestUnsentBytesAreBounded(t *testing.T) {
	const bound = 12345
	h := newHubTest(t, func(c *live.Config) { c.Unsent = bound })
	p := h.publish(avcHeader(), picture(true, 0, 10))
	sender, receiver := tcpPair(t, false)
	w := hijackable{httptest.NewRecorder(), sender}
	if err := web.New(h.Hub).Watch(w, httptest.NewRequest(http.MethodGet, "/live/cam", nil), "cam",
		live.Terms{}); err != nil {
		t.Fatal(err)
	}
	raw, err := sender.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		n, optErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
	}); err != nil {
		t.Fatal(err)
	}
	if n != bound || optErr != nil {
		t.Errorf("the kernel may hold %d bytes (%v), want %d", n, optErr, bound)
	}
	_ = receiver.Close()
	eventually(t, "the viewer to leave", func() bool { return h.Viewers() == 0 })
	h.done(p, nil)
	h.Close()
}
