package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// testTime limits a call in a test that has no other limit.
const testTime = time.Minute

// newClient returns a Client that is closed when the test ends.
func newClient(t testing.TB, rdb redis.UniversalClient, opts ...Option) *Client {
	t.Helper()
	c, err := New(rdb, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil && err != ErrClosed {
			t.Error(err)
		}
	})
	return c
}

// optionsOf returns the options of go-redis for a server.
func optionsOf(e redistest.Endpoint) *redis.Options {
	return &redis.Options{
		Network: e.Network, Addr: e.Addr, Password: e.Password, TLSConfig: e.TLS,
		MaintNotificationsConfig: noMaintenance(),
	}
}

// noMaintenance turns off notifications of maintenance, which only Redis Enterprise sends.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// rdbOf returns go-redis's client of a server. It is closed when the test ends.
func rdbOf(t testing.TB, e redistest.Endpoint) *redis.Client {
	return closing(t, redis.NewClient(optionsOf(e)))
}

// clusterRdb returns go-redis's client of a cluster. It is closed when the test ends.
func clusterRdb(t testing.TB, c *redistest.Cluster) *redis.ClusterClient {
	return closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(),
		MaintNotificationsConfig: noMaintenance()}))
}

// sentinelRdb returns go-redis's client of a sentinel's master. It is closed when the test ends.
func sentinelRdb(t testing.TB, s *redistest.Sentinel) *redis.Client {
	return closing(t, redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.MasterName, SentinelAddrs: []string{s.Addr()},
	}))
}

// closing closes rdb when the test ends.
func closing[C io.Closer](t testing.TB, rdb C) C {
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Error(err)
		}
	})
	return rdb
}

// clientOf returns a Client with these options of go-redis, and the go-redis client. Both are
// closed when the test ends.
func clientOf(t testing.TB, o *redis.Options, opts ...Option) (*Client, *redis.Client) {
	t.Helper()
	rdb := redis.NewClient(o)
	t.Cleanup(func() { rdb.Close() })
	return newClient(t, rdb, opts...), rdb
}

// shared returns a Client of the shared server.
func shared(t testing.TB, opts ...Option) (*Client, *redis.Client) {
	t.Helper()
	return clientOf(t, optionsOf(redistest.Shared(t).Endpoint()), opts...)
}

// proxied returns a Client that reaches the shared server through a proxy, and does not retry.
func proxied(t testing.TB, change ...func(*redis.Options)) (*Client, *redistest.Proxy) {
	t.Helper()
	s := redistest.Shared(t)
	p := s.Proxy(t)
	o := optionsOf(p.Endpoint())
	o.MaxRetries = -1
	for _, f := range change {
		f(o)
	}
	c, _ := clientOf(t, o)
	return c, p
}

// bounded returns a context that limits one test.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// randomValue returns n random bytes, so that misplaced bytes differ.
func randomValue(n int) []byte {
	p := make([]byte, n)
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.N(256))
	}
	rand.NewChaCha8(seed).Read(p)
	return p
}

// get is one of the ways to read a value.
type get struct {
	name string
	call func(ctx context.Context, c *Client, key string, size int) ([]byte, error)
}

// plainWriter hides all methods except Write.
type plainWriter struct{ io.Writer }

// asksTwice reports whether reading a value takes more than one reply.
func (g get) asksTwice() bool { return g.name == "ReaderAt" }

// gets are all methods that read a value whose maximum size is known.
var gets = []get{
	{"GetToBuffer", func(ctx context.Context, c *Client, key string, size int) ([]byte, error) {
		buf := guarded(size)
		n, err := c.GetToBuffer(ctx, key, buf)
		return intact(buf)[:n], err
	}},
	{"GetToBuffer with room", func(ctx context.Context, c *Client, key string, size int) ([]byte,
		error) {
		buf := guarded(size + size/2 + 100)
		n, err := c.GetToBuffer(ctx, key, buf)
		return intact(buf)[:n], err
	}},
	{"GetChain", func(ctx context.Context, c *Client, key string, size int) ([]byte, error) {
		var chain millrace.Chain
		defer chain.Release()
		err := c.GetChain(ctx, key, &chain, size)
		if err != nil && chain.Len() > 0 {
			return nil, errors.New("an error, and yet a part of a value")
		}
		return bytes.Clone(chain.Bytes()), err
	}},
	{"GetTo", func(ctx context.Context, c *Client, key string, _ int) ([]byte, error) {
		var b bytes.Buffer
		n, err := c.GetTo(ctx, key, plainWriter{&b})
		if int(n) != b.Len() {
			return nil, errors.New("GetTo miscounts")
		}
		return b.Bytes(), err
	}},
	{"GetTo a ReaderFrom", func(ctx context.Context, c *Client, key string, _ int) ([]byte, error) {
		var b bytes.Buffer
		_, err := c.GetTo(ctx, key, &b)
		return b.Bytes(), err
	}},
	{"GetTo a socket", func(ctx context.Context, c *Client, key string, _ int) ([]byte, error) {
		return throughSocket(func(w io.Writer) (int64, error) { return c.GetTo(ctx, key, w) })
	}},
	{"GetRangeToBuffer", func(ctx context.Context, c *Client, key string, size int) ([]byte,
		error) {
		buf := guarded(size + 1)
		n, err := c.GetRangeToBuffer(ctx, key, 0, buf)
		return intact(buf)[:n], err
	}},
	{"GetRangeTo", func(ctx context.Context, c *Client, key string, size int) ([]byte, error) {
		var b bytes.Buffer
		n, err := c.GetRangeTo(ctx, key, 0, int64(size)+1, plainWriter{&b})
		if int(n) != b.Len() {
			return nil, errors.New("GetRangeTo miscounts")
		}
		return b.Bytes(), err
	}},
	{"ReaderAt", func(ctx context.Context, c *Client, key string, _ int) ([]byte, error) {
		r, err := c.ReaderAt(ctx, key)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return io.ReadAll(r)
	}},
	{"MGet", func(ctx context.Context, c *Client, key string, size int) ([]byte, error) {
		buf := guarded(size)
		slots := make([]Slot, 1)
		_, err := c.MGet(ctx, []string{key}, buf, slots)
		if slots[0].Err != nil {
			return nil, slots[0].Err
		}
		return intact(buf)[slots[0].Start:slots[0].End], err
	}},
	{"Pipeline", func(ctx context.Context, c *Client, key string, size int) ([]byte, error) {
		buf := guarded(size)
		p := c.Pipeline()
		r := p.GetToBuffer(key, buf)
		err := p.Exec(ctx)
		return intact(buf)[:r.Len()], err
	}},
	{"Pipeline GetChain", func(ctx context.Context, c *Client, key string, size int) ([]byte,
		error) {
		var chain millrace.Chain
		defer chain.Release()
		p := c.Pipeline()
		p.GetChain(key, &chain, size)
		err := p.Exec(ctx)
		return bytes.Clone(chain.Bytes()), err
	}},
}

// guard is the value of each byte after a buffer that is read into.
const guard = 0xA5

// guardLen is the number of guard bytes.
const guardLen = 16

// guarded returns a buffer with guard bytes after it.
func guarded(size int) []byte {
	p := make([]byte, size+guardLen)
	for i := range guardLen {
		p[size+i] = guard
	}
	return p[:size]
}

// intact returns buf. It panics if something was written after buf.
func intact(buf []byte) []byte {
	for _, c := range buf[len(buf) : len(buf)+guardLen] {
		if c != guard {
			panic("written behind the end of a buffer")
		}
	}
	return buf
}

// throughSocket returns the bytes that get writes to a TCP connection.
func throughSocket(get func(io.Writer) (int64, error)) ([]byte, error) {
	w, r, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	got := make(chan []byte, 1)
	go func() {
		p, _ := io.ReadAll(r)
		got <- p
	}()
	_, err = get(w)
	w.Close()
	return <-got, err
}

// socketPair returns the two ends of a TCP connection.
func socketPair() (dialed, accepted *net.TCPConn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	one, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	other, err := l.Accept()
	if err != nil {
		one.Close()
		return nil, nil, err
	}
	return one.(*net.TCPConn), other.(*net.TCPConn), nil
}

// tcpPair returns the two ends of a TCP connection, which are closed when the test ends.
func tcpPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	client, server, err := socketPair()
	must(t, err)
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return client, server
}

// set is one of the ways to set a value.
type set struct {
	name string
	call func(ctx context.Context, c *Client, key string, value []byte, opts ...SetOption) error
}

// sets are all ways to set a value.
var sets = []set{
	{"SetFromBuffer", func(ctx context.Context, c *Client, key string, value []byte,
		opts ...SetOption) error {
		return c.SetFromBuffer(ctx, key, value, opts...)
	}},
	{"SetChain", func(ctx context.Context, c *Client, key string, value []byte,
		opts ...SetOption) error {
		chain := chainOf(value, 7)
		defer chain.Release()
		return c.SetChain(ctx, key, chain, opts...)
	}},
	{"SetFile", func(ctx context.Context, c *Client, key string, value []byte,
		opts ...SetOption) error {
		dir, err := os.MkdirTemp("", "redisbuf")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		name := filepath.Join(dir, "value")
		if err := os.WriteFile(name, value, 0o600); err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		return c.SetFile(ctx, key, f, opts...)
	}},
	{"SetFrom", func(ctx context.Context, c *Client, key string, value []byte,
		opts ...SetOption) error {
		return c.SetFrom(ctx, key, bytes.NewReader(value), int64(len(value)), opts...)
	}},
	{"SetFrom a socket", setFromSocket},
	{"Pipeline", func(ctx context.Context, c *Client, key string, value []byte,
		opts ...SetOption) error {
		p := c.Pipeline()
		p.SetFromBuffer(key, value, opts...)
		return p.Exec(ctx)
	}},
	{"Pipeline SetChain", func(ctx context.Context, c *Client, key string, value []byte,
		opts ...SetOption) error {
		chain := chainOf(value, 7)
		defer chain.Release()
		p := c.Pipeline()
		p.SetChain(key, chain, opts...)
		return p.Exec(ctx)
	}},
}

// chainOf returns value as a Chain of n pieces, each in a separate block.
func chainOf(value []byte, n int) *millrace.Chain {
	c := new(millrace.Chain)
	size := int64(len(value)) // multiplied by n it may overflow an int of 32 bits
	for i := range int64(n) {
		p := value[i*size/int64(n) : (i+1)*size/int64(n)]
		d := millrace.DefaultPool().Get(len(p))
		ref := d.Freeze(copy(d.Bytes(), p))
		c.Append(&ref)
	}
	return c
}

func setFromSocket(ctx context.Context, c *Client, key string, value []byte,
	opts ...SetOption) error {
	r, w, err := socketPair()
	if err != nil {
		return err
	}
	defer r.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = w.Write(value)
		_, _ = w.Write([]byte("and what is not of it"))
		w.Close()
	}()
	err = c.SetFrom(ctx, key, r, int64(len(value)), opts...)
	if err != nil {
		w.Close()
	}
	<-done
	return err
}

// hostile returns a client without retries, and a server that answers according to the script.
func hostile(t testing.TB, script ...redistest.Answer) (*Client, *redistest.Hostile) {
	t.Helper()
	h := redistest.StartHostile(t, script...)
	o := optionsOf(h.Endpoint())
	o.MaxRetries = -1
	c, _ := clientOf(t, o)
	return c, h
}

// eventually waits until so returns true.
func eventually(t testing.TB, so func() bool) {
	t.Helper()
	for ctx := bounded(t); !so(); time.Sleep(time.Millisecond) {
		must(t, ctx.Err())
	}
}

// check fails the test unless the server's value of key is want.
func check(t testing.TB, rdb redis.UniversalClient, key string, want []byte) {
	t.Helper()
	got, err := rdb.Get(context.Background(), key).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s has %d bytes, not the %d that it was set to", key, len(got), len(want))
	}
}

// setOf returns a command that sets key to buf.
func setOf(key string, buf []byte) *setCmd {
	return &setCmd{setHeader: setHeader{commandInfo: commandInfo{key: key, writes: true},
		size: int64(len(buf))}, buf: buf}
}

// getOf returns a command that reads key into buf.
func getOf(key string, buf []byte) *getCmd {
	return &getCmd{getHeader: wholeOf(key), buf: buf}
}
