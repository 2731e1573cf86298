// Package redis compares ways to move large values in and out of Redis: a raw socket that knows what comes, go-redis,
// rueidis and redisbuf. The server is a process of its own, so that what this process uses is the client's.
//
// Every contender is used as its own documentation says, with one client for all goroutines. Before a case is measured,
// every contender must move the very bytes of the value.
package redis

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
)

// A task is what a call does.
type task struct {
	key        string // of the command line
	what       string
	contenders []contender // ratios are to the first, the raw socket
}

var tasks = []task{
	{"get", "GET into memory", []contender{
		{"raw socket: one Write, io.ReadFull", openRawGet},
		{"redisbuf GetToBuffer", openGetToBuffer},
		{"redisbuf GetChain, released", openGetChain},
		{"go-redis GetToBuffer", openGoRedisGetToBuffer},
		{"go-redis Get().Bytes", openGoRedisGet},
		{"rueidis AsBytes", openRueidisGet},
		{"rueidis DoStream to io.Discard", openRueidisStream},
	}},
	{"set", "SET from memory", []contender{
		{"raw socket: net.Buffers", openRawSet},
		{"redisbuf SetFromBuffer", openSetFromBuffer},
		{"redisbuf SetChain", openSetChain},
		{"go-redis SetFromBuffer", openGoRedisSetFromBuffer},
		{"go-redis Set", openGoRedisSet},
		{"rueidis SET, BinaryString", openRueidisSet},
	}},
}

// A contender is a way to do a task.
type contender struct {
	name string
	open func(*Site) (*client, error)
}

// A call moves a value once. It gives a value that it has read to the site's audit, if there is one, and drops it otherwise.
type call func(context.Context) error

// A client is a contender at work, for any number of goroutines.
type client struct {
	opened
	worker func(c *client) (call, error) // what one goroutine calls again and again
}

// opened are clients, connections and files that are closed in the end.
type opened []io.Closer

func (o *opened) add(c io.Closer) { *o = append(*o, c) }

// dial opens a connection that is closed with all others.
func (o *opened) dial(addr string) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		o.add(conn)
	}
	return conn, err
}

// close closes all of it, the last one first.
func (o opened) close() {
	for i := range o {
		o[len(o)-1-i].Close()
	}
}

// A Site is what all contenders find.
type Site struct {
	Addr string // of the server
	Size int    // of every value

	audit func(piece []byte) // of a check: each value that was read, piece by piece
}

// key is what all contenders read.
const key = "bench:value"

// setKey is what they set.
const setKey = "bench:set"

// value is what is read and set: random bytes, the same ones each time.
func (s *Site) value() []byte {
	p := make([]byte, s.Size)
	rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// saw gives what was read to a check.
func (s *Site) saw(piece []byte) {
	if s.audit != nil {
		s.audit(piece)
	}
}

// An auditor is a Writer that gives what was read to a check.
type auditor struct{ s *Site }

func (a auditor) Write(p []byte) (int, error) {
	a.s.saw(p)
	return len(p), nil
}
