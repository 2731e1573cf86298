package fanout

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/lock"
)

// A memoryConn is a Conn whose client is the test. It accepts as many bytes as the client has room
// for.
type memoryConn struct {
	kind path
	news chan struct{} // signalled when room or ended has changed
	gone chan struct{} // closed when the connection has ended

	mu       lock.Mutex
	got      []byte
	room     int // bytes that the client accepts; negative: no limit
	panics   bool
	onWrite  func() // called once by the next tryWrite
	since    int64  // while a write waits: the time of its last progress; 0 otherwise
	finished bool
	aborted  bool
}

var errMemoryConn = errors.New("the connection has ended")

func newMemoryConn(kind path) *memoryConn {
	return &memoryConn{kind: kind, room: -1, news: make(chan struct{}, 1),
		gone: make(chan struct{})}
}

func (c *memoryConn) path() path { return c.kind }

// take accepts as many bytes as there is room for, first those of line.
func (c *memoryConn) take(line *[]byte, body *millrace.Chain) (full bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.panics {
		c.panics = false
		body.Release() // the viewer does not release it
		panic("a planted mistake")
	}
	if c.finished || c.aborted {
		return false, errMemoryConn
	}
	accept := func(n int) int {
		if c.room >= 0 {
			n = min(n, c.room)
			c.room -= n
		}
		return n
	}
	n := accept(len(*line))
	c.got = append(c.got, (*line)[:n]...)
	*line = (*line)[n:]
	n = accept(body.Len())
	var part millrace.Chain
	body.CutTo(&part, n)
	for piece := range part.All() {
		c.got = append(c.got, piece...)
	}
	part.Release()
	return len(*line)+body.Len() > 0, nil
}

func (c *memoryConn) tryWrite(line *[]byte, body *millrace.Chain, out *vector) (full bool,
	err error) {
	c.mu.Lock()
	hook := c.onWrite
	c.onWrite = nil
	c.mu.Unlock()
	if hook != nil {
		hook()
	}
	return c.take(line, body)
}

func (c *memoryConn) write(line *[]byte, body *millrace.Chain, out *tally,
	progress *atomic.Int64) error {
	for {
		before := body.Len()
		full, err := c.take(line, body)
		if body.Len() < before {
			progress.Store(nanotime())
		}
		c.wait(full && err == nil, body.Len() < before)
		if !full || err != nil {
			return err
		}
		<-c.news
	}
}

// wait records whether a write waits, and whether it made progress.
func (c *memoryConn) wait(waits, took bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !waits:
		c.since = 0
	case took || c.since == 0:
		c.since = nanotime()
	}
}

// waited returns how long a write has waited.
func (c *memoryConn) waited() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since == 0 {
		return 0
	}
	return time.Duration(nanotime() - c.since)
}

func (c *memoryConn) finish() { c.end(&c.finished) }

func (c *memoryConn) abort(bool) { c.end(&c.aborted) }

func (c *memoryConn) end(how *bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.finished && !c.aborted {
		*how = true
		close(c.gone)
	}
	c.signal()
}

func (c *memoryConn) signal() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// setRoom changes how many bytes the client accepts from now on.
func (c *memoryConn) setRoom(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room = n
	c.signal()
}

// A modelViewer is a viewer, and the events that may have affected it.
type modelViewer struct {
	*Viewer
	conn    *memoryConn
	from    uint64 // number of the first frame after it joined
	stalled bool
	paused  bool
	pauses  int   // number of ended pauses
	resumes []int // number of received bytes at the end of each pause in which it took everything before
	left    bool  // the client has disconnected
	broken  bool  // a write to it panics
	replies int
}

// endPause records the end of a pause.
func (v *modelViewer) endPause() {
	v.pauses++
	if !v.stalled {
		v.conn.mu.Lock()
		defer v.conn.mu.Unlock()
		v.resumes = append(v.resumes, len(v.conn.got))
	}
}

// A fanoutModel runs the viewers of one stream by random steps, and checks what each viewer gets.
// It has no chunked encoding, no other nodes, and no ResponseWriters.
//
// The test publishes records. A record has a letter, its length, its number, and zeros. The letters
// are K for a keyframe, f for another frame, C for a tag that later viewers also need, P for the
// same in a preamble, R for a reply, and E for the end of the response. A viewer must get whole
// records: first the preamble that was current at the first keyframe, then this keyframe, and then
// each next record. If records are missing, the viewer was moved, which is counted, or it had
// paused. In both cases it continues with a keyframe.
type fanoutModel struct {
	*fixture
	t       *testing.T
	rnd     *rand.Rand
	latency time.Duration
	pause   time.Duration // of half of the viewers
	viewers []*modelViewer
	number  uint64 // of the newest record of the stream
	config  uint64 // of the newest C
	configs []configAt
}

// A configAt says which C is current from a record on.
type configAt struct{ from, config uint64 }

func (m *fanoutModel) record(letter byte, number uint64, size int) millrace.Chain {
	b := make([]byte, 13+size)
	b[0] = letter
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)))
	binary.BigEndian.PutUint64(b[5:], number)
	var c millrace.Chain
	c.AppendCopy(b)
	return c
}

// publish publishes a frame.
func (m *fanoutModel) publish(key bool) {
	m.number++
	letter := byte('f')
	if key {
		letter = 'K'
	}
	c := m.record(letter, m.number, m.rnd.IntN(3000))
	if err := m.ring.Publish(&c, broadcast.Frame{Key: key}); err != nil {
		m.t.Error(err)
	}
}

// configure publishes a tag that later viewers also need.
func (m *fanoutModel) configure() {
	m.number++
	m.config = m.number
	c, preamble := m.record('C', m.number, 50), m.record('P', m.number, 50)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ring.Publish(&c, broadcast.Frame{}); err != nil {
		m.t.Error(err)
	}
	m.ring.SetPreamble(&preamble)
	m.configs = append(m.configs, configAt{m.number, m.config})
}

// add adds a viewer.
func (m *fanoutModel) add(kind path, room int) *modelViewer {
	conn := newMemoryConn(kind)
	conn.room = room
	m.fixture.pause = m.pause * time.Duration(m.rnd.IntN(2))
	v := &modelViewer{Viewer: m.viewer(conn), conn: conn, from: m.number, stalled: room >= 0}
	m.viewers = append(m.viewers, v)
	end := m.record('E', 0, 0)
	v.SetEnd(&end)
	m.Start(v.Viewer, m.fixture.pause, func() { <-conn.gone })
	return v
}

// takeAll makes all clients accept everything.
func (m *fanoutModel) takeAll() {
	for _, v := range m.viewers {
		if !v.hasEnded() {
			v.stalled = false
			v.conn.setRoom(-1)
		}
	}
}

// publishInRound publishes more frames while a loop is in a round and other viewers catch up. These
// viewers become healthy before or after the loop has written the frames.
func (m *fanoutModel) publishInRound(v *modelViewer) string {
	v.conn.mu.Lock()
	v.conn.onWrite = func() {
		for range 100 {
			runtime.Gosched()
		}
		m.publish(false)
		m.ring.Flush()
	}
	v.conn.mu.Unlock()
	m.takeAll()
	m.publish(false)
	m.ring.Flush()
	synctest.Wait()
	v.conn.mu.Lock()
	v.conn.onWrite = nil // v is not healthy
	v.conn.mu.Unlock()
	return "frames during a round, while viewers catch up"
}

// step performs a random step.
func (m *fanoutModel) step() string {
	var v *modelViewer
	for range 4 {
		if v = m.viewers[m.rnd.IntN(len(m.viewers))]; !v.hasEnded() {
			break
		}
	}
	n := m.rnd.IntN(100)
	if v.hasEnded() {
		n = m.rnd.IntN(55) // this one needs no viewer
	}
	switch {
	case n < 45:
		frames := 1 + m.rnd.IntN(8)
		for range frames {
			m.publish(m.rnd.IntN(20) == 0)
		}
		m.ring.Flush()
		return fmt.Sprintf("%d frames", frames)
	case n < 47: // while viewers catch up
		m.takeAll()
		go func() {
			for range 30 {
				m.publish(m.rnd.IntN(20) == 0)
				m.ring.Flush()
				runtime.Gosched()
			}
		}()
		return "frames while all viewers catch up"
	case n < 50:
		m.configure()
		m.ring.Flush()
		return "a tag for all"
	case n < 55:
		kind, room := path(m.rnd.IntN(2)), -1
		if m.rnd.IntN(3) == 0 {
			room = m.rnd.IntN(10_000)
		}
		m.add(kind, room)
		return fmt.Sprintf("a viewer by %v with room for %d", kind, room)
	case n < 58:
		return m.publishInRound(v)
	case n < 65:
		v.stalled = true
		v.conn.setRoom(m.rnd.IntN(4000))
		return "a viewer stalls"
	case n < 75:
		v.stalled = false
		v.conn.setRoom(-1)
		return "a viewer takes all"
	case n < 80:
		c := m.record('R', 0, m.rnd.IntN(100))
		if v.Reply(c.Bytes()) {
			v.replies++
		}
		c.Release()
		return "a reply"
	case n < 86:
		if v.paused {
			v.endPause()
		}
		v.paused = !v.paused
		v.SetPaused(v.paused)
		return fmt.Sprintf("paused: %v", v.paused)
	case n < 89:
		v.left = true
		v.conn.abort(false) // the client aborts its end
		return "a viewer leaves"
	case n < 90:
		v.conn.mu.Lock()
		v.conn.panics = true
		v.conn.mu.Unlock()
		v.broken = true
		return "a write panics"
	case n < 95:
		time.Sleep(inspectEvery)
		return "a quarter of a second"
	}
	time.Sleep(time.Duration(m.rnd.IntN(7)) * time.Second)
	return "some seconds"
}

// check checks what a viewer has got so far. upToDate means that it must have got everything.
func (m *fanoutModel) check(v *modelViewer, upToDate bool) error {
	v.conn.mu.Lock()
	got, ended := v.conn.got, v.conn.finished || v.conn.aborted
	v.conn.mu.Unlock()
	var last, pre uint64
	all, complete := len(got), false
	missing, again, replies := uint64(0), 0, 0
	mustBeKey := true
	for len(got) > 0 {
		if len(got) < 13 || len(got) < int(binary.BigEndian.Uint32(got[1:])) {
			if upToDate {
				return fmt.Errorf("the last record is cut at %d bytes", len(got))
			}
			break
		}
		letter, size, number := got[0], binary.BigEndian.Uint32(got[1:]),
			binary.BigEndian.Uint64(got[5:])
		if size < 13 {
			return fmt.Errorf("no record after %d: %q", last, got[:13])
		}
		if complete {
			return fmt.Errorf("%c %d follows the end", letter, number)
		}
		if slices.Contains(v.resumes, all-len(got)) {
			mustBeKey, pre = true, 0 // after a pause the viewer restarts
		}
		got = got[size:]
		switch letter {
		case 'E':
			complete = true
			continue
		case 'R':
			replies++
			continue
		case 'P':
			pre, mustBeKey = number, true
			continue
		case 'K':
			if mustBeKey && pre != m.configBefore(number) {
				return fmt.Errorf("keyframe %d follows preamble %d, want %d", number, pre,
					m.configBefore(number))
			}
		case 'f', 'C':
			if mustBeKey {
				return fmt.Errorf("it begins or continues at %c %d", letter, number)
			}
		default:
			return fmt.Errorf("no record after %d: %q", last, letter)
		}
		switch {
		case last == 0 || number == last+1:
		case letter == 'K' && number > last:
			missing += number - last - 1
		case letter == 'K' && again < v.pauses:
			// The viewer continues at the newest keyframe, which it may have had before.
			again++
		default:
			return fmt.Errorf("%c %d follows %d", letter, number, last)
		}
		last, mustBeKey, pre = number, false, 0
	}
	if why := v.Reason(); complete != (why == StreamEnded && v.conn.finished) {
		return fmt.Errorf("the end of the response was sent: %v, and the viewer ended: %v",
			complete, why)
	}
	if v.pauses == 0 && !v.paused && !ended {
		if lost := uint64(v.missed.Frames); missing > lost || upToDate && missing < lost {
			return fmt.Errorf("%d records are missing, and %d were counted", missing, lost)
		}
	}
	// If the ring has no keyframe, a viewer that was moved waits for the next one.
	if upToDate && last != m.number && m.ring.Stats().Start {
		return fmt.Errorf("it has record %d, and %d is the latest", last, m.number)
	}
	if upToDate && replies != v.replies {
		return fmt.Errorf("%d replies, want %d", replies, v.replies)
	}
	return nil
}

// configBefore returns the number of the C that was current at a record, or 0.
func (m *fanoutModel) configBefore(number uint64) (config uint64) {
	for _, c := range m.configs {
		if c.from > number {
			break
		}
		config = c.config
	}
	return config
}

// checkAll checks all viewers after all steps have been processed.
func (m *fanoutModel) checkAll() error {
	for i, v := range m.viewers {
		why := v.Reason()
		if err := m.check(v, why == Connected && !v.stalled && !v.paused); err != nil {
			return fmt.Errorf("viewer %d (%v, %v): %w", i, v.conn.kind, why, err)
		}
		ok := true
		switch why {
		case Connected:
			if waited := v.conn.waited(); waited > m.src.Stall+2*inspectEvery {
				return fmt.Errorf("viewer %d has taken nothing for %v, and is still there", i,
					waited)
			}
		case HungUp:
			ok = v.left
		case Stalled:
			ok = v.stalled
		case Failed: // a panic ends the viewers of one loop
			ok = slices.ContainsFunc(m.viewers,
				func(other *modelViewer) bool { return other.broken && other.loop == v.loop })
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("viewer %d (%v) ended: %v", i, v.conn.kind, why)
		}
	}
	return nil
}

// run performs random steps, ends the stream, and returns the first fault.
func (m *fanoutModel) run(steps int) error {
	m.publish(true)
	m.add(pathWritev, -1)
	var log []string
	for range steps {
		log = append(log, m.step())
		synctest.Wait()
		if wait := m.latency + m.pause; wait > 0 {
			time.Sleep(wait)
			synctest.Wait()
		}
		if err := m.checkAll(); err != nil {
			return fmt.Errorf("after step %d of %q: %w", len(log), log[max(0, len(log)-12):], err)
		}
	}
	m.takeAll()
	for _, v := range m.viewers {
		if v.paused && !v.hasEnded() {
			v.paused = false
			v.endPause()
			v.SetPaused(false)
		}
	}
	synctest.Wait()
	m.Close(StreamEnded)
	time.Sleep(m.pause)
	synctest.Wait()
	for i, v := range m.viewers {
		switch why := v.Reason(); {
		case why == Connected:
			return fmt.Errorf("viewer %d (%v) is still there", i, v.conn.kind)
		case why == StreamEnded:
			if err := m.check(v, true); err != nil {
				return fmt.Errorf("viewer %d (%v), at the end: %w", i, v.conn.kind, err)
			}
			if !v.conn.finished {
				return fmt.Errorf("viewer %d (%v) has no proper end", i, v.conn.kind)
			}
		}
	}
	if n := m.served.Load(); n != 0 {
		return fmt.Errorf("%d viewers are left", n)
	}
	return nil
}

// end ends all viewers, even after a failure.
func (m *fanoutModel) end() {
	if m.Reason() == Connected {
		m.Close(StreamEnded)
	}
	for _, v := range m.viewers {
		v.End(Drained)
	}
	time.Sleep(inspectEvery) // the loops end
}

// newFanoutModel begins a stream.
func newFanoutModel(t *testing.T, seed uint64) *fanoutModel {
	rnd := rand.New(rand.NewPCG(seed, 1))
	frames, latency := 32+rnd.IntN(200), time.Duration(rnd.IntN(2)*50)*time.Millisecond
	var cfg Config
	cfg.Allowance.Bytes, cfg.Allowance.Frames = int64(rnd.IntN(2)*(50_000+rnd.IntN(100_000))),
		rnd.IntN(2)*60
	cfg.Stall = 6 * time.Second
	cfg.Allowance.Time = time.Duration(rnd.IntN(2)*3) * time.Second
	f := newFixture(cfg, broadcast.MaxFrames(frames), broadcast.Latency(latency))
	if limit := cfg.Allowance.Bytes; limit > 0 {
		f.options = append(f.options, broadcast.BatchBytes(int(limit/4)))
	}
	return &fanoutModel{fixture: f, t: t, rnd: rnd, latency: latency,
		pause: time.Duration(rnd.IntN(2)*100) * time.Millisecond}
}

var (
	modelSeed  = flag.Uint64("model.seed", 1, "the first seed of TestFanoutModel")
	modelSeeds = flag.Uint64("model.seeds", 60, "how many seeds TestFanoutModel runs")
)

// For any behavior of viewers, each viewer gets a sequence that begins at a keyframe and has only
// counted gaps; see fanoutModel.
func TestFanoutModel(t *testing.T) {
	for seed := *modelSeed; seed < *modelSeed+*modelSeeds; seed++ {
		synctest.Test(t, func(t *testing.T) {
			m := newFanoutModel(t, seed)
			if err := m.run(300); err != nil {
				t.Errorf("-model.seed %d -model.seeds 1: %v", seed, err)
			}
			m.end()
		})
		if t.Failed() {
			return
		}
	}
}

// A second loop serves the viewers beyond the first loopViewers. Both loops satisfy the model.
func TestSecondLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFanoutModel(t, 7)
		m.publish(true)
		for range loopViewers + 20 {
			m.add(pathWritev, -1)
		}
		if want := min(2, runtime.GOMAXPROCS(0)); len(m.loops) != want {
			t.Errorf("%d loops, want %d: one a processor", len(m.loops), want)
		}
		if err := m.run(60); err != nil {
			t.Error(err)
		}
		m.end()
	})
}
