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

// unwanted returns options for a server that rejects each connection with words before any request,
// and that has closed the connection when the Dialer returns.
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

// The words of a server that rejects a client are the call's error, and the connection is not used
// again. A server that closes the connection after its reply to HELLO is not mistaken for one that
// does not know HELLO.
func TestUnwantedConnections(t *testing.T) {
	// No server sends these words to a rejected connection. They are only a reply to HELLO.
	const going = "ERR I am about to go"
	for _, words := range []string{
		"DENIED Redis is running in protected mode", "ERR max number of clients reached",
		"ERR max number of clients + cluster connections reached", going,
	} {
		for protocol := 2; protocol <= 3; protocol++ {
			// Where the end of the connection is detected.
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

// If a server is full at first, the call is retried.
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
		// The call was not executed, so this is safe.
		must(t, c.SetFromBuffer(bounded(t), "full", []byte("v")))
		check(t, rdb, "full", []byte("v"))
	}
}
