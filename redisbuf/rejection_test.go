package redisbuf

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// unwanted returns the options of a client of a server that says why it rejects a connection, before it was asked anything,
// and has closed the connection when the Dialer returns.
func unwanted(t *testing.T, words string) *redis.Options {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ended, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "-"+words+"\r\n")
			conn.Close()
			gone <- struct{}{}
		}
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return &redis.Options{Addr: l.Addr().String(), Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
		conn, err := net.Dial(network, addr)
		if err == nil {
			<-gone
		}
		return conn, err
	}}
}

// What a server says to a client that it rejects is the error of the call, and the connection is not used again.
func TestUnwantedConnections(t *testing.T) {
	for _, words := range []string{
		"DENIED Redis is running in protected mode", "ERR max number of clients reached",
		"ERR max number of clients + cluster connections reached",
	} {
		for protocol := 2; protocol <= 3; protocol++ {
			o := unwanted(t, words)
			o.Protocol, o.MaxRetries = protocol, -1
			c, _ := clientOf(t, o)
			ctx := bounded(t)
			for range 5 {
				if err := c.SetFromBuffer(ctx, "k", []byte("v")); !isServerError(err) || err.Error() != words {
					t.Errorf("protocol %d: SET: %v, want %q", protocol, err, words)
				}
				if _, err := c.GetToBuffer(ctx, "k", make([]byte, 10)); !isServerError(err) || err.Error() != words {
					t.Errorf("protocol %d: GET: %v, want %q", protocol, err, words)
				}
			}
		}
	}
}

// A server that closes the connection after its reply to HELLO is not taken for one that does not know HELLO.
func TestHangUpAfterHello(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("whether a server has hung up is seen on Linux only")
	}
	const words = "ERR I am about to go"
	o := unwanted(t, words)
	o.MaxRetries = -1
	c, _ := clientOf(t, o)
	for range 5 {
		if _, err := c.GetToBuffer(bounded(t), "k", make([]byte, 10)); !isServerError(err) || err.Error() != words {
			t.Errorf("%v, want %q", err, words)
		}
	}
}

// A server that has no room at first is asked again.
func TestFullServer(t *testing.T) {
	for protocol := 2; protocol <= 3; protocol++ {
		o := redistest.Shared(t).Options()
		full, dials := unwanted(t, "ERR max number of clients reached"), 0
		o.Protocol, o.MaxRetries = protocol, 1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials == 1 {
				return full.Dialer(ctx, "tcp", full.Addr)
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		c, rdb := clientOf(t, o)
		must(t, c.SetFromBuffer(bounded(t), "full", []byte("v"))) // was not executed, so this is safe
		check(t, rdb, "full", []byte("v"))
	}
}
