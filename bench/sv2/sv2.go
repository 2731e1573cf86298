// Package sv2 compares ways to serve many encrypted Stratum V2 connections, as a mining pool does.
// It measures the memory of idle connections, and the cost of a message and its answer.
//
// A child process holds the other ends of the connections, so that their file descriptors, memory
// and CPU time do not count.
package sv2

import (
	"bufio"
	"context"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
)

// Program runs the benchmark.
var Program = &measure.Program{
	Name: "sv2", What: "connections of a mining pool, idle and with shares", Rounds: 8,
	Brief: []string{"-rounds", "4", "-messages", "20000"},
	Flags: func(f *flag.FlagSet) {
		f.IntVar(&conns, "conns", 2000, "connections")
		f.IntVar(&messages, "messages", 100_000, "messages in a turn, on all connections together")
	},
	Run: run,
}

var conns, messages int

const (
	shareType, shareSize   = 0x1a, 24 // SubmitSharesStandard
	answerType, answerSize = 0x1c, 20 // SubmitShares.Success
	maxMessage             = 1024
	arenaSize              = 4096
)

func run(ctx context.Context, p *measure.Params) error {
	heap := make([]measure.Series, len(servers))
	stack := make([]measure.Series, len(servers))
	costs := make([]measure.Cost, len(servers))
	err := measure.Rounds(ctx, len(servers), p.Rounds, func(_, i int) error {
		u, cost, err := turn(ctx, servers[i].serve)
		if err != nil {
			return fmt.Errorf("%s: %w", servers[i].name, err)
		}
		heap[i] = append(heap[i], u.heap/float64(conns))
		stack[i] = append(stack[i], u.stack/float64(conns))
		costs[i].Add(cost)
		return nil
	})
	if err != nil {
		return err
	}
	t := measure.NewTable("sv2", fmt.Sprintf("%d connections with encrypted messages of %d bytes",
		conns, shareSize), "server", "heap bytes an idle connection", "stack bytes",
		"CPU ns a message and its answer", "x the first", "allocations a message")
	t.Bar = 2
	for i, s := range servers {
		t.Row(s.name, heap[i], stack[i].Median(), costs[i].CPU, costs[i].CPU.Over(costs[0].CPU),
			costs[i].Allocs.Median())
	}
	return p.Add(t)
}

// A server answers the messages of a connection until the stream ends.
type server struct {
	name  string
	serve func(net.Conn) error
}

// The first server is the baseline.
var servers = []server{
	{"by hand, a bufio.Reader and kept buffers", byHand},
	{"arena.Heap", func(c net.Conn) error {
		var buf arena.Heap
		return each(c, func(_ *millrace.Reader, serve serveFunc) error { return serve(&buf, &buf) })
	}},
	{"an arena.Pool of 4 KiB for each direction", func(c net.Conn) error {
		in, out := arena.NewPool(arenaSize), arena.NewPool(arenaSize)
		return each(c, func(_ *millrace.Reader, serve serveFunc) error { return serve(in, out) })
	}},
	{"a shared arena.Pool of 4 KiB after Peek", func(c net.Conn) error {
		return each(c, func(r *millrace.Reader, serve serveFunc) error {
			if _, err := r.Peek(1); err != nil {
				return err
			}
			buf := arenas.Get().(*arena.Pool)
			defer arenas.Put(buf)
			return serve(buf, buf)
		})
	}},
}

var arenas = sync.Pool{New: func() any { return arena.NewPool(arenaSize) }}

// A serveFunc reads one message and sends the answer. It stores the message in its first Buffer,
// and the answer in its second Buffer.
type serveFunc func(in, out arena.Buffer) error

func each(c net.Conn, next func(r *millrace.Reader, serve serveFunc) error) error {
	r := millrace.NewReader(c)
	defer r.Release()
	opener := sv2.NewOpener(r, aead(upKey), frame.MaxPayload(maxMessage))
	sealer := sv2.NewSealer(aead(downKey))
	var sequence uint32
	write := func(buf arena.Buffer) error {
		putAnswer(buf.Writable(answerSize), sequence)
		return nil
	}
	serve := func(in, out arena.Buffer) error {
		s, h, err := opener.NextInto(in)
		if err != nil {
			return err
		}
		sequence, err = parseShare(h, s.Bytes()[sv2.HeaderSize:])
		s.Release()
		if err != nil {
			return err
		}
		s, err = sealer.Seal(out, answerHeader, write)
		if err != nil {
			return err
		}
		_, err = c.Write(s.Bytes())
		s.Release()
		return err
	}
	for {
		if err := next(r, serve); err != nil {
			return err
		}
	}
}

// byHand is a server without millrace. It keeps one buffer for messages and one for answers.
func byHand(c net.Conn) error {
	r := bufio.NewReader(c)
	up, down := aead(upKey), aead(downKey)
	in := make([]byte, 0, 128)
	out := make([]byte, 0, 128)
	var upNonce, downNonce [chacha20poly1305.NonceSize]byte
	var received, sent uint64
	open := func(n int) (plain []byte, err error) {
		if cap(in) < n {
			in = make([]byte, n)
		}
		if _, err = io.ReadFull(r, in[:n]); err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint64(upNonce[4:], received)
		received++
		return up.Open(in[:0], upNonce[:], in[:n], nil)
	}
	seal := func(from int) {
		binary.LittleEndian.PutUint64(downNonce[4:], sent)
		sent++
		out = down.Seal(out[:from], downNonce[:], out[from:], nil)
	}
	for {
		p, err := open(sv2.HeaderSize + chacha20poly1305.Overhead)
		if err != nil {
			return err
		}
		h, _ := sv2.ParseHeader(p)
		if h.Length > maxMessage {
			return errors.New("message too large")
		}
		if p, err = open(sv2.EncryptedLen(h.Length)); err != nil {
			return err
		}
		sequence, err := parseShare(h, p)
		if err != nil {
			return err
		}
		out, _ = answerHeader.Append(out[:0])
		seal(0)
		from := len(out)
		out = out[:from+answerSize]
		putAnswer(out[from:], sequence)
		seal(from)
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

var answerHeader = sv2.Header{MessageType: answerType, Channel: true, Length: answerSize}

func parseShare(h sv2.Header, p []byte) (uint32, error) {
	if h.MessageType != shareType || len(p) != shareSize {
		return 0, fmt.Errorf("message type %#x of %d bytes", h.MessageType, len(p))
	}
	return binary.LittleEndian.Uint32(p[4:]), nil
}

func putAnswer(p []byte, sequence uint32) {
	clear(p)
	binary.LittleEndian.PutUint32(p[4:], sequence)
}

const upKey, downKey = "the 32 bytes of the miners' key.", "the 32 bytes of the pool's key.."

func aead(key string) cipher.AEAD {
	aead, err := chacha20poly1305.New([]byte(key))
	if err != nil {
		panic(err)
	}
	return aead
}

// A usage is an amount of memory in bytes.
type usage struct {
	heap  float64 // in live objects
	stack float64 // in goroutine stacks
}

// turn measures the cost of messages on a server, and then the memory of the idle connections.
func turn(ctx context.Context, serve func(net.Conn) error) (usage, measure.Turn, error) {
	fail := func(err error) (usage, measure.Turn, error) { return usage{}, measure.Turn{}, err }
	if err := raiseFileLimit(conns); err != nil {
		return fail(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	before := memory()
	cmd, err := measure.Self(miners, l.Addr().String(), strconv.Itoa(conns))
	if err != nil {
		return fail(err)
	}
	child, err := measure.StartChild(cmd)
	if err != nil {
		return fail(err)
	}
	defer child.Close()
	defer context.AfterFunc(ctx, func() { l.Close(); child.Kill() })()
	errs := make(chan error, conns)
	for i := range conns {
		c, err := l.Accept()
		if err != nil {
			return fail(fmt.Errorf("connection %d of %d: %w", i, conns, err))
		}
		go func() {
			defer c.Close()
			errs <- serve(c)
		}()
	}
	ask := func(n int) (err error) {
		answer, err := child.Ask(strconv.Itoa(n))
		if err == nil && answer != "ok\n" {
			err = fmt.Errorf("the miners say %q", answer)
		}
		return err
	}
	if err := ask(conns); err != nil { // a message on each connection, before the measurement
		return fail(err)
	}
	t := measure.Take(messages, func() { err = ask(messages) })
	if err != nil {
		return fail(err)
	}
	after := memory()
	child.Close()
	for range conns {
		if err := <-errs; err != io.EOF {
			return fail(err)
		}
	}
	return usage{after.heap - before.heap, after.stack - before.stack}, t, nil
}

// memory returns the memory in use after garbage collection. A sync.Pool is empty only after two
// collections.
func memory() usage {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return usage{float64(m.HeapAlloc), float64(m.StackInuse)}
}

// raiseFileLimit raises the limit on file descriptors to allow n connections. It returns an error
// if the maximum is too low.
func raiseFileLimit(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	const spare = 100 // file descriptors for everything else
	if limit.Cur < uint64(n+spare) {
		return fmt.Errorf("the limit of file descriptors, %d, is too low", limit.Cur)
	}
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// busy is the number of connections that send a message at the same time.
const busy = 64

// miners is a child process that opens connections. Each line of its input is a number of messages.
// For each line, it sends this number of messages, using the connections in turn, and checks the
// answers.
var miners = measure.RegisterChild("sv2-miners", func(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := raiseFileLimit(n); err != nil {
		return err
	}
	all := make([]*miner, n)
	for i := range all {
		if all[i], err = newMiner(args[0]); err != nil {
			return err
		}
	}
	next := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		left, err := strconv.Atoi(strings.TrimSpace(in.Text()))
		for left > 0 && err == nil {
			group := make([]*miner, 0, busy)
			for len(group) < min(busy, left, n) {
				group = append(group, all[next%n])
				next++
			}
			left -= len(group)
			for _, m := range group {
				err = errors.Join(err, m.send())
			}
			for _, m := range group {
				err = errors.Join(err, m.receive())
			}
		}
		if err != nil {
			return err
		}
		fmt.Println("ok")
	}
	return nil
})

type miner struct {
	conn     net.Conn
	sealer   *sv2.Sealer
	opener   *sv2.Opener
	sequence uint32
}

func newMiner(addr string) (*miner, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(10 * time.Minute))
	return &miner{conn: c, sealer: sv2.NewSealer(aead(upKey)),
		opener: sv2.NewOpener(millrace.NewReader(c), aead(downKey))}, nil
}

var share = sv2.Header{MessageType: shareType, Channel: true}

func (m *miner) send() error {
	m.sequence++
	s, err := m.sealer.Seal(new(arena.Heap), share, func(buf arena.Buffer) error {
		binary.LittleEndian.PutUint32(buf.Writable(shareSize)[4:], m.sequence)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = m.conn.Write(s.Bytes())
	return err
}

func (m *miner) receive() error {
	s, h, err := m.opener.NextInto(new(arena.Heap))
	if err != nil {
		return err
	}
	if h != answerHeader || binary.LittleEndian.Uint32(s.Bytes()[sv2.HeaderSize+4:]) != m.sequence {
		return fmt.Errorf("the answer to share %d is %+v, %x", m.sequence, h, s.Bytes())
	}
	return nil
}
