package broadcast_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// A program is a string of bytes that determines the calls on a ring and on the oracle.
type program struct {
	t    testing.TB
	code []byte
	ring *broadcast.Ring
	news *broadcast.Watcher
	feed *feed
	o    *oracle

	cursors []pair
	held    []held // by readers that are still sending
	pres    int
	infos   bool // some frames have an Info
	trace   []string
}

// anyPieces is a limit for BatchPieces that is never reached.
const anyPieces = 1 << 20

type pair struct {
	c      *broadcast.Cursor
	o      *oCursor
	pieces int
}

// held is the result of a Take, and the bytes that it must keep.
type held struct {
	chain millrace.Chain
	want  string
}

func (p *program) arg() int {
	if len(p.code) == 0 {
		return 0
	}
	b := p.code[0]
	p.code = p.code[1:]
	return int(b)
}

func (p *program) pick(choices ...int) int { return choices[p.arg()%len(choices)] }

func (p *program) failf(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(p.trace, "\n"))
}

func (p *program) did(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

// run runs a program in a synctest bubble, in which time only advances in the program's steps.
func run(t *testing.T, code []byte) {
	synctest.Test(t, func(t *testing.T) {
		p := &program{t: t, code: code}
		p.begin()
		for len(p.code) > 0 {
			p.step()
			p.verify()
		}
		p.end()
	})
}

func (p *program) begin() {
	p.feed = newFeed(p.pick(512, 100, 37, 8))
	p.o = &oracle{
		maxBytes:  p.pick(4096, 300, 1000, 1<<20),
		maxFrames: p.pick(64, 1, 2, 7, 30),
		latency:   time.Duration(p.pick(0, 20, 50)) * time.Millisecond,
	}
	p.ring = broadcast.New(broadcast.MaxBytes(int64(p.o.maxBytes)),
		broadcast.MaxFrames(p.o.maxFrames),
		broadcast.MaxPieces(p.o.maxFrames*(4096/p.feed.block+2)), broadcast.Latency(p.o.latency))
	p.news = p.ring.Watch()
	p.infos = p.feed.block%2 == 0
	p.did("maxBytes %d maxFrames %d latency %v block %d",
		p.o.maxBytes, p.o.maxFrames, p.o.latency, p.feed.block)
}

func (p *program) step() {
	switch op := p.arg() % 32; {
	case op < 10:
		p.publish(p.pick(0, 1, 10, 63, 64, 100, 150, 299, 301), false)
	case op < 14:
		p.publish(p.pick(1, 20, 200, 0), true)
	case op < 15:
		p.publish(p.o.maxBytes%5000+1, op%2 == 0)
	case op < 16:
		p.setPreamble(p.pick(5, 40, 0, 150))
	case op < 18:
		p.newCursor()
	case op < 27:
		if len(p.cursors) > 0 {
			p.take(p.arg() % len(p.cursors))
		}
	case op < 28:
		if len(p.cursors) > 0 {
			p.closeCursor(p.arg() % len(p.cursors))
		}
	case op < 31:
		d := time.Duration(p.pick(1, 7, 20, 100)) * time.Millisecond
		p.did("sleep %v", d)
		time.Sleep(d)
		synctest.Wait() // wait for the timer's goroutine to end
		p.o.tick()
	default:
		if p.arg()%8 == 0 {
			p.did("close the ring")
			p.ring.Close()
			p.o.close()
		} else {
			p.did("flush")
			p.ring.Flush()
			p.o.flush()
		}
	}
}

func (p *program) publish(n int, key bool) {
	p.did("publish %d key=%v", n, key)
	frame := p.feed.next(n)
	s := text(&frame)
	f := broadcast.Frame{Key: key}
	if p.infos && n%3 > 0 {
		f.Info = len(p.trace)
	}
	err := p.ring.Publish(&frame, f)
	if frame.Len() != 0 {
		p.failf("Publish left %d bytes", frame.Len())
	}
	if p.o.closed {
		if err != broadcast.ErrClosed {
			p.failf("Publish on a closed ring: %v", err)
		}
		return
	}
	var tooLarge *broadcast.FrameTooLargeError
	if refused := p.o.publish(oFrame{data: s, key: key, info: f.Info}); refused != errors.As(err,
		&tooLarge) || !refused && err != nil {
		p.failf("Publish: %v, want refused=%v", err, refused)
	}
}

func (p *program) setPreamble(n int) {
	p.did("preamble %d", n)
	pre := p.feed.next(n)
	s := text(&pre)
	p.ring.SetPreamble(&pre)
	if p.o.closed {
		return
	}
	if p.o.preamble = (oPreamble{}); n > 0 {
		p.pres++
		p.o.preamble = oPreamble{s, p.pres}
	}
}

func (p *program) newCursor() {
	o := &oCursor{
		o:          p.o,
		lagBytes:   p.pick(0, 100, 400, 2000),
		lagFrames:  p.pick(0, 3, 20),
		lagTime:    time.Duration(p.pick(0, 10, 60)) * time.Millisecond,
		batchBytes: p.pick(1<<20, 1, 128, 500), batchFrames: 1 << 20,
	}
	pieces := p.pick(anyPieces, 1, 3, 8)
	opts := []broadcast.CursorOption{
		broadcast.MaxLagBytes(int64(o.lagBytes)), broadcast.MaxLagFrames(o.lagFrames),
		broadcast.MaxLagTime(o.lagTime), broadcast.BatchBytes(o.batchBytes),
		broadcast.BatchPieces(pieces),
	}
	from := p.arg() % 24
	if few := from / 6; few > 1 {
		o.batchFrames = few - 1
		opts = append(opts, broadcast.BatchFrames(o.batchFrames))
	}
	from %= 6
	head := from%3 == 0
	o.nextKey = from == 5
	p.did("cursor %d: fromHead %v, %+v", len(p.cursors), head, *o)
	o.next = len(p.o.frames)
	switch {
	case p.o.closed:
	case head:
		o.first = p.o.preamble
		opts = append(opts, broadcast.FromHead())
	default:
		if o.nextKey {
			opts = append(opts, broadcast.FromNextKey())
		}
		o.joining = true
		o.advance()
	}
	p.o.cursors = append(p.o.cursors, o)
	p.cursors = append(p.cursors, pair{p.ring.Cursor(opts...), o, pieces})
}

func (p *program) take(i int) {
	p.did("take %d", i)
	at := p.cursors[i]
	var dst millrace.Chain
	b, err := at.c.Take(&dst)
	s := text(&dst)
	if n := dst.Pieces(); b.Frames > 1 && n > at.pieces {
		p.failf("Take %d: %d frames in %d pieces, the limit is %d", i, b.Frames, n, at.pieces)
	}
	if p.held = append(p.held, held{dst, s}); len(p.held) > 5 {
		p.release()
	}
	given := b.Frames
	if at.pieces == anyPieces {
		given = 0
	}
	want, wantBatch, wantErr := at.o.take(given)
	if err != wantErr || b != wantBatch || s != want {
		p.failf("Take %d:\n got %+v, %v, %q\nwant %+v, %v, %q", i, b, err, s, wantBatch, wantErr,
			want)
	}
}

// release checks and releases the oldest shares.
func (p *program) release() {
	if h := &p.held[0]; text(&h.chain) != h.want {
		p.failf("the bytes of a share have changed")
	}
	p.held[0].chain.Release()
	p.held = p.held[1:]
}

func (p *program) closeCursor(i int) {
	p.did("close cursor %d", i)
	gone := p.cursors[i]
	gone.c.Close()
	p.cursors = append(p.cursors[:i], p.cursors[i+1:]...)
	p.o.cursors = append(p.o.cursors[:i], p.o.cursors[i+1:]...)
	if p.o.closed {
		p.o.trim()
	}
}

func (p *program) verify() {
	synctest.Wait() // a timer may have fired in a step that took no time
	if got, want := len(p.news.C) > 0, p.o.signalled; got != want {
		p.failf("signalled %v, want %v", got, want)
	} else if got {
		<-p.news.C
		p.o.signalled = false
	}
	if err := p.ring.Check(); err != nil {
		p.failf("invariants: %v", err)
	}
	if got, want := p.ring.Stats(), p.o.snapshot(); got != want {
		p.failf("Stats\n got %+v\nwant %+v", got, want)
	}
	for i, c := range p.cursors {
		if got, want := c.c.Lag(), c.o.lag(); got != want {
			p.failf("cursor %d: Lag %+v, want %+v", i, got, want)
		}
	}
}

// end drains every second cursor before the ring is closed, and the others after that.
func (p *program) end() {
	p.ring.Close()
	p.o.close()
	for i := range p.cursors {
		for i%2 == 0 && !(p.cursors[i].o.drained()) {
			p.take(i)
			p.verify()
		}
	}
	for len(p.cursors) > 0 {
		p.closeCursor(0)
		p.verify()
	}
	if s := p.ring.Stats(); s.Frames != 0 || s.Bytes != 0 {
		p.failf("a closed ring without cursors keeps %+v", s)
	}
	for len(p.held) > 0 {
		p.release() // after the ring was closed
	}
	p.feed.done(p.t)
}

func TestRandomOperationsAgainstTheOracle(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 100
	}
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		code := make([]byte, 10+rnd.IntN(700))
		for i := range code {
			code[i] = byte(rnd.Uint32())
		}
		run(t, code)
		if t.Failed() {
			t.Fatalf("a failing seed: %d", seed)
		}
	}
}

func FuzzRing(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		code := make([]byte, 20*(seed+1))
		for i := range code {
			code[i] = byte(rnd.Uint32())
		}
		f.Add(code)
	}
	f.Fuzz(run)
}
