package nettest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports below the range of outgoing connections, which starts at 32768 on Linux and at 49152 on
// macOS. No outgoing connection can therefore take the port of a server that a test kills and
// starts again.
const (
	firstPort = 12000
	lastPort  = 31999
)

// portTries is the number of attempts of FreePorts. If half of the ports are in use, all attempts
// to get one port fail with a probability of 2^-100.
const portTries = 100

// FreePort returns a port of 127.0.0.1 that a server can listen on until the test ends.
func FreePort(t testing.TB) int {
	t.Helper()
	return FreePorts(t, 1)
}

// FreeAddr returns the address of a FreePort on 127.0.0.1.
func FreeAddr(t testing.TB) string {
	t.Helper()
	return loopback(FreePort(t))
}

// FreePorts returns the first of n consecutive free ports; see [FreePort]. On Linux, no other test
// gets the ports. On other systems, another process may take them before the server listens.
func FreePorts(t testing.TB, n int) int {
	t.Helper()
	for range portTries {
		first := firstPort + rand.IntN(lastPort+2-n-firstPort)
		if reserveAll(t, first, n) {
			return first
		}
	}
	t.Fatalf("no %d consecutive ports are free", n)
	return 0
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// reserveAll reserves n consecutive ports. If it fails, it reserves none.
func reserveAll(t testing.TB, first, n int) bool {
	var reserved []func()
	for port := first; port < first+n; port++ {
		release, ok := reserve(port)
		if !ok {
			for _, release := range reserved {
				release()
			}
			return false
		}
		reserved = append(reserved, release)
	}
	for _, release := range reserved {
		t.Cleanup(release)
	}
	return true
}

func canListen(port int) bool {
	ln, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	_ = ln.Close()
	return true
}
