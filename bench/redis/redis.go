// Package redis compares ways to transfer large values to and from Redis: a raw socket, go-redis,
// rueidis and redisbuf. Each has one client for all goroutines, and must first transfer the exact
// bytes. The server is a child process, so that its CPU time does not count.
//
// Three of the clients also serve the value over HTTP, like a Redis sidecar. A separate load
// measures small GETs while large values are transferred.
package redis

import (
	"context"
	"io"
	"math/rand/v2"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/millrace-io/millrace/redisbuf"
)

type task struct {
	key        string // name on the command line
	what       string
	contenders []contender // ratios are relative to the first
}

var tasks = []task{
	{"get", "GET into memory", []contender{
		{"raw socket: one Write, io.ReadFull", rawGet},
		{"redisbuf GetToBuffer", redisbufGetToBuffer},
		{"redisbuf GetChain, released", redisbufGetChain},
		{"go-redis GetToBuffer", goRedisGetToBuffer},
		{"go-redis Get().Bytes", goRedisGet},
		{"rueidis AsBytes", rueidisGet},
		{"rueidis DoStream to io.Discard", rueidisStream},
	}},
	{"set", "SET from memory", []contender{
		{"raw socket: net.Buffers", rawSet},
		{"redisbuf SetFromBuffer", redisbufSetFromBuffer},
		{"redisbuf SetChain", redisbufSetChain},
		{"go-redis SetFromBuffer", goRedisSetFromBuffer},
		{"go-redis Set", goRedisSet},
		{"rueidis SET, BinaryString", rueidisSet},
	}},
	{"serve", "GET to an HTTP response", []contender{
		{"go-redis Get, Write", serving(goRedisServe)},
		{"rueidis DoStream", serving(rueidisServe)},
		{"redisbuf GetTo, chunked", serving(redisbufServeChunked)},
		{"redisbuf GetTo", serving(redisbufServe)},
	}},
}

type contender struct {
	name string
	// worker is called once for each goroutine. It returns the function that the goroutine calls
	// repeatedly.
	worker func(*fixture) (call, error)
}

// A call transfers a value once. If the call reads the value, it passes the value to
// fixture.observe.
type call func(context.Context) error

// A fixture holds the Redis clients, which all contenders share.
type fixture struct {
	addr string
	size int // size of every value, in bytes

	goredis  *goredis.Client
	redisbuf *redisbuf.Client
	rueidis  rueidis.Client
	closers  []io.Closer // closed by close, in reverse order

	audit func(piece []byte) // set by contender.check; receives each value that was read, in pieces
}

func (f *fixture) open() (err error) {
	f.goredis = goredis.NewClient(&goredis.Options{Addr: f.addr})
	f.add(f.goredis)
	if f.redisbuf, err = redisbuf.New(f.goredis); err != nil {
		return err
	}
	f.add(f.redisbuf)
	f.rueidis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.addr},
		DisableCache: true})
	if err != nil {
		return err
	}
	f.add(closeFunc(f.rueidis.Close))
	return nil
}

func (f *fixture) add(c io.Closer) { f.closers = append(f.closers, c) }

func (f *fixture) close() {
	for i := range f.closers {
		f.closers[len(f.closers)-1-i].Close()
	}
}

type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

const (
	key    = "bench:value" // the key that contenders read
	setKey = "bench:set"   // the key that contenders set
)

// value returns f.size random bytes, which are the same at each call.
func (f *fixture) value() []byte {
	p := make([]byte, f.size)
	rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

func (f *fixture) observe(piece []byte) {
	if f.audit != nil {
		f.audit(piece)
	}
}
