package redisbuf

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// unwanted returns the options of a client of a server that says why it rejects a connection,
// before it was asked anything, and has closed the connection when the Dialer returns.
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
	return &redis.Options{Addr: l.Addr().String(),
		Dialer: func(_ context.Context, network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			if err == nil {
				<-gone
			}
			return conn, err
		}}
}

// What a server says to a client that it rejects is the error of the call, and the connection is
// not used again. A server that closes the connection after its reply to HELLO is not taken for one
// that does not know HELLO.
func TestUnwantedConnections(t *testing.T) {
	// Which no server says to a connection that it rejects: only HELLO is answered with it.
	const going = "ERR I am about to go"
	for _, words := range []string{
		"DENIED Redis is running in protected mode", "ERR max number of clients reached",
		"ERR max number of clients + cluster connections reached", going,
	} {
		for protocol := 2; protocol <= 3; protocol++ {
			// Where it is seen that a server has hung up.
			if words == going && (protocol == 2 || runtime.GOOS != "linux") {
				continue
			}
			o := unwanted(t, words)
			o.Protocol, o.MaxRetries = protocol, -1
			c, _ := clientOf(t, o)
			for range 5 {
				for _, err := range []error{
					sets[0].call(bounded(t), c, "k", []byte("v")),
					func() error { _, err := gets[0].call(bounded(t), c, "k", 10); return err }(),
				} {
					if !isServerError(err) || err.Error() != words {
						t.Errorf("protocol %d: %v, want %q", protocol, err, words)
					}
				}
			}
		}
	}
}

// A server that has no room at first is asked again.
func TestFullServer(t *testing.T) {
	for protocol := 2; protocol <= 3; protocol++ {
		o := optionsOf(redistest.Shared(t).Endpoint())
		full, dials := unwanted(t, "ERR max number of clients reached"), 0
		o.Protocol, o.MaxRetries = protocol, 1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials == 1 {
				return full.Dialer(ctx, "tcp", full.Addr)
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
		c, rdb := clientOf(t, o)
		// Was not executed, so this is safe.
		must(t, c.SetFromBuffer(bounded(t), "full", []byte("v")))
		check(t, rdb, "full", []byte("v"))
	}
}
