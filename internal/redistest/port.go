package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const host = "127.0.0.1"

// The ports to choose from lie below those that Linux (32768) and macOS (49152) give to outgoing connections: a server
// that a test kills finds its own port free when it starts again.
const (
	firstPort = 12000
	ports     = 20000
)

// portTries is more than enough: a machine whose ports are half taken fails once in 2^50.
const portTries = 50

// freePort returns a port that nobody listens on. Somebody else may take it before the server does, so the caller
// starts again with another when that happens.
func freePort() (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(ports)
		ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			ln.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("redistest: no free port in %d tries", portTries)
}
