package rtmp

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
)

// A panickingConn simulates a mistake in the code that serves a connection.
type panickingConn struct{ net.Conn }

func (panickingConn) SetDeadline(time.Time) error { panic("a mistake") }

// A panic ends one connection, and frees its place.
func TestPanicEndsOneRTMPConnection(t *testing.T) {
	log := &nettest.LogBook{}
	v := &Service{Acceptor: New(live.NewHub(testConfig())), Handshakes: &Handshakes{},
		Log: slog.New(slog.NewTextHandler(log, nil))}
	client, conn := net.Pipe()
	defer client.Close()
	v.Handshakes.add(panickingConn{conn})
	v.serveConn(panickingConn{conn})
	if text := log.String(); !strings.Contains(text, "serving an RTMP client failed") ||
		!strings.Contains(text, "a mistake") {
		t.Errorf("the log has\n%s", text)
	}
	if n := len(v.Handshakes.silent.list) + len(v.Handshakes.begun.list); n > 0 {
		t.Errorf("%d places are lost", n)
	}
}
