package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func atOnce(c *Config) { c.Latency = 0 }

// riders waits until n publishers are in lanes, and returns how many lanes those are.
func riders(t testing.TB, n int) (used int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d publishers in lanes", n), func() bool {
		lanes.mu.Lock()
		defer lanes.mu.Unlock()
		used = len(lanes.all)
		sum := 0
		for _, l := range lanes.all {
			sum += l.count
		}
		return sum == n
	})
	return used
}

// One lane serves many publishers: every viewer gets the whole of its stream and nothing else, every publisher its answer.
func TestALaneServesManyPublishers(t *testing.T) {
	f := serve(t, atOnce)
	const publishers = 30
	scripts := make([]*script, publishers)
	sources := make([]*publisher, publishers)
	viewers := make([][2]*watcher, publishers)
	for i := range publishers {
		name := fmt.Sprintf("cam-%d", i)
		scripts[i] = newScript(3, 4, 1000+i)
		for j := range viewers[i] {
			viewers[i][j] = f.ask("/live/"+name, 0)
		}
		f.waiting(name, 2)
		sources[i] = f.publish(name)
		sources[i].send(scripts[i].start())
	}
	if n := riders(t, publishers); n != 1 {
		t.Errorf("%d lanes", n)
	}
	for j := range scripts[0].tags {
		for i, p := range sources {
			tag := scripts[i].tags[j]
			p.send(tag[:len(tag)/2]) // a tag is no turn
			p.send(tag[len(tag)/2:])
		}
	}
	for i, p := range sources {
		want := scripts[i].whole()
		if res := p.end(); res.status != http.StatusOK || !strings.Contains(res.body, fmt.Sprintf(`"bytes":%d,`, len(want)-13)) {
			t.Errorf("%d: %d %s", i, res.status, res.body)
		}
		for _, w := range viewers[i] {
			w.begin()
			same(t, fmt.Sprintf("stream %d", i), w.rest(), want)
		}
	}
	riders(t, 0)
}

// Nothing of a publisher is left when it has been answered, whatever way it went.
func TestLanesLeakNoDescriptor(t *testing.T) {
	f := serve(t, atOnce)
	come := func() {
		sc := newScript(1, 2, 100)
		for i, body := range []string{"", "bytes", string(sc.whole()), string(sc.header) + "\x09\xff\xff\xff"} {
			if res := f.request("POST", "/live/cam", body); res.status == 0 {
				t.Errorf("body %d: %s", i, res.body)
			}
		}
		conn := f.dialPublisher("POST /live/cam HTTP/1.1\nHost: localhost\nContent-Length: 1000000\n\nsome")
		riders(t, 1)
		_ = conn.Close()
		riders(t, 0)
		http.DefaultClient.CloseIdleConnections()
	}
	come()
	var before int
	eventually(t, "the same number twice", func() bool {
		last := before
		before = descriptors(t)
		time.Sleep(time.Millisecond)
		return before == last
	})
	for range 5 {
		come()
	}
	eventually(t, "all descriptors closed", func() bool { return descriptors(t) <= before })
}

// descriptors returns how many this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Publishers that say nothing are ended when the server shuts down, and are told so.
func TestLanesDrain(t *testing.T) {
	f := serve(t, atOnce)
	var silent []*publisher
	for i := range 10 {
		p := f.publish(fmt.Sprintf("cam-%d", i))
		p.send([]byte("x"))
		silent = append(silent, p)
	}
	riders(t, len(silent))
	f.stop()
	for _, p := range silent {
		if res := p.wait(); res.status != http.StatusServiceUnavailable || !strings.Contains(res.body, errDraining.Error()) {
			t.Errorf("%d %s", res.status, res.body)
		}
	}
	riders(t, 0)
}

// While one publisher sends as much as it can, others in its lane go on, and all are ended when the server shuts down.
func TestAFloodInALane(t *testing.T) {
	f := serve(t, func(c *Config) { c.Latency, c.KeepBytes, c.MaxTagBytes = 0, 1<<20, 64<<10 })
	flood := f.dialPublisher("POST /live/flood HTTP/1.1\nHost: localhost\nContent-Length: 1000000000000\n\n")
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		for block := make([]byte, 64<<10); ; {
			if _, err := flood.Write(block); err != nil {
				return
			}
		}
	}()
	f.published("flood", 4<<20)
	w := f.ask("/live/cam", 0)
	f.waiting("cam", 1)
	sc := newScript(2, 5, 500)
	p := f.publish("cam")
	p.send(sc.start())
	w.begin()
	same(t, "its start", w.read(len(sc.start())), sc.start())
	for i, tag := range sc.tags {
		p.send(tag)
		same(t, fmt.Sprintf("tag %d", i), w.read(len(tag)), tag)
	}
	if n := riders(t, 2); n != 1 {
		t.Errorf("%d lanes", n)
	}
	f.stop()
	<-flooded
	if res := p.wait(); res.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", res.status, res.body)
	}
	riders(t, 0)
}

// A bench is where a publisher waits for its turns, which a test gives by hand.
type bench struct {
	*laned
	peer int
	st   *stream
	got  int
	err  error
}

// newPair returns a laned for one end of a socket, and the other end.
func newPair(t testing.TB, st *stream, draining context.Context) (c *laned, peer int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(pair[1]) })
	return &laned{s: st, descriptor: descriptor{fd: pair[0], idle: time.Hour, draining: draining, heard: now()}}, pair[1]
}

func sit(t testing.TB) *bench {
	t.Helper()
	cfg := Defaults()
	cfg.Latency = 0
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.drain)
	b := &bench{st: s.newStream("cam", "test")}
	b.laned, b.peer = newPair(t, b.st, s.draining)
	return b
}

// readBy begins to read into p, again and again.
func (b *bench) readBy(p []byte) {
	b.begin(func() {
		for b.err == nil {
			var n int
			n, b.err = b.Read(p)
			b.got += n
		}
	})
}

func (b *bench) send(t testing.TB, n int) {
	t.Helper()
	if m, err := unix.Write(b.peer, make([]byte, n)); m != n {
		t.Fatalf("%d of %d bytes sent: %v", m, n, err)
	}
}

// A turn takes what is there in one read, and a bounded part of a flood.
func TestATurnIsBounded(t *testing.T) {
	b := sit(t)
	defer b.Close()
	b.readBy(make([]byte, 8<<10))
	if !b.resume() || b.got != 0 {
		t.Fatalf("%d bytes of nothing", b.got)
	}
	b.send(t, 3000)
	if !b.resume() || b.got != 3000 {
		t.Errorf("%d of 3000 bytes", b.got)
	}
	const flood = 3 * tellBytes / 2
	b.got = 0
	b.send(t, flood)
	for turn, want := range []int{tellBytes, flood, flood} {
		if !b.resume() || b.got != want {
			t.Errorf("%d bytes after turn %d, want %d", b.got, turn, want)
		}
	}
	_ = unix.Shutdown(b.peer, unix.SHUT_WR)
	if b.resume() || b.err != io.EOF {
		t.Errorf("it has not ended, or with %v", b.err)
	}
}

// A lane that looks at its publishers ends those who have been silent for too long, and knows when to look at the next.
func TestALaneEndsTheSilent(t *testing.T) {
	var set laneSet
	l, err := newLane(&set)
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.Close()
	ended := make(chan int, 3)
	var all [3]*bench
	for i := range all {
		b := sit(t)
		b.readBy(make([]byte, 100))
		b.done = func() { ended <- i }
		b.resume()
		if err := l.watch(b.laned); err != nil {
			t.Fatal(err)
		}
		l.count++
		all[i] = b
		defer b.Close()
	}
	all[0].idle = time.Minute
	all[1].heard -= int64(time.Hour) + 1
	l.lookAtAll()
	if i := <-ended; i != 1 || !errors.Is(all[1].err, os.ErrDeadlineExceeded) {
		t.Errorf("publisher %d ended, and the silent one has %v", i, all[1].err)
	}
	if wait := l.due - all[0].heard; wait < int64(time.Minute) || wait > int64(time.Minute+time.Second) {
		t.Errorf("the next one is due %v after it was heard", time.Duration(wait))
	}
	if len(l.conns) != 2 || l.over {
		t.Errorf("%d are left, over is %v", len(l.conns), l.over)
	}
	all[0].st.server.drain()
	all[2].st.server.drain()
	l.lookAtAll()
	<-ended
	<-ended
	if !l.over || l.count != 0 {
		t.Errorf("over is %v with %d left", l.over, l.count)
	}
}

// A lane stops serving when it is time to look at all, though there is more to serve.
func TestALaneLooksInTime(t *testing.T) {
	var set laneSet
	l, err := newLane(&set)
	if err != nil {
		t.Fatal(err)
	}
	defer l.file.Close()
	b := sit(t)
	defer b.Close()
	b.readBy(make([]byte, 8<<10))
	b.done = func() {}
	b.resume()
	if err := l.watch(b.laned); err != nil {
		t.Fatal(err)
	}
	l.count++
	const flood = 3 * tellBytes / 2
	b.send(t, flood)
	if !l.serve(0) || b.got != tellBytes {
		t.Errorf("somebody has joined, and %d bytes were read first, want %d", b.got, tellBytes)
	}
	l.lookAtAll()
	if l.serve(0) || b.got != flood {
		t.Errorf("%d bytes were read though it was not time to look, want %d", b.got, flood)
	}
	b.send(t, flood)
	l.due = now()
	if !l.serve(0) || b.got != flood+tellBytes {
		t.Errorf("%d bytes were read though it was time to look, want %d", b.got, flood+tellBytes)
	}
	b.st.server.drain()
	l.lookAtAll()
	if !l.over || !l.serve(0) {
		t.Error("it does not end with its last publisher")
	}
}

// A lane that has been at work for long has the pumps write to viewers.
func TestALaneThatIsLateLeavesViewersToPumps(t *testing.T) {
	b := sit(t)
	defer b.Close()
	b.st.open(formRaw, nil)
	p := b.st.live.pump()
	p.vec = new(vector) // at work: it could be done here
	b.lane = &lane{began: now() + int64(time.Hour)}
	b.tell()
	if len(p.news) != 0 {
		t.Error("the pump was told, though there was time")
	}
	b.lane.began = now() - int64(time.Hour)
	b.tell()
	if len(p.news) != 1 {
		t.Error("the pump was not told")
	}
}

// A lane takes so many publishers; then there is another one, if there is a processor for it. They end with their last.
func TestPublishersAreSpreadOverLanes(t *testing.T) {
	var set laneSet
	ctx, drain := context.WithCancel(context.Background())
	defer drain()
	ended := make(chan struct{}, 2*lanePublishers)
	for range cap(ended) {
		c, _ := newPair(t, new(stream), ctx)
		c.done = func() {
			_ = c.Close()
			ended <- struct{}{}
		}
		c.begin(func() { _, _ = c.Read(make([]byte, 1)) })
		if !c.resume() {
			t.Fatal("it has ended")
		}
		if err := set.join(c); err != nil {
			t.Fatal(err)
		}
	}
	set.mu.Lock()
	if want := min(2, runtime.GOMAXPROCS(0)); len(set.all) != want {
		t.Errorf("%d lanes, want %d", len(set.all), want)
	}
	set.mu.Unlock()
	drain()
	for range cap(ended) {
		<-ended
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	if len(set.all) != 0 {
		t.Errorf("%d lanes are left", len(set.all))
	}
}

// A mistake while publishing ends one stream of a lane and nothing else.
func TestAPanicInALane(t *testing.T) {
	f := serve(t, atOnce)
	good := f.publish("good")
	good.send([]byte("x"))
	f.published("good", 1)

	conn, peer := tcpPair(t, false)
	st := f.newStream("bad", "test")
	if err := f.registry.claim(st); err != nil {
		t.Fatal(err)
	}
	c := newLaned(conn, st).(*laned)
	ended := make(chan error, 1)
	var err error
	c.start(func() {
		err = st.ingest(readerFunc(func(p []byte) (int, error) {
			if n, err := c.Read(p); n == 0 {
				return n, err
			}
			panic("a mistake")
		}))
	}, func() { ended <- err })
	riders(t, 2)
	_, _ = peer.Write([]byte("x"))
	if err := <-ended; publishStatus(err) != http.StatusInternalServerError {
		t.Errorf("%v: status %d", err, publishStatus(err))
	}
	_ = c.Close()
	f.registry.leave()
	f.logged("publishing failed", "a mistake")
	good.send([]byte("y"))
	if res := good.end(); res.status != http.StatusOK {
		t.Errorf("the other stream: %d %s", res.status, res.body)
	}
}

// A publisher whose connection cannot be watched is ended with the reason, in a goroutine that may wait.
func TestAPublisherThatCannotBeWatched(t *testing.T) {
	b := sit(t)
	fd := b.fd
	ended := make(chan error, 1)
	var err error
	b.start(func() {
		b.drained, b.fd = true, -1
		_, err = b.Read(make([]byte, 100))
	}, func() { ended <- err })
	if err := <-ended; !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	_ = unix.Close(fd)
	riders(t, 0)
}

// What comes with the request's head is passed on although the connection is silent afterwards.
func TestWhatCameWithTheHeadIsPassedOn(t *testing.T) {
	f := serve(t, atOnce)
	w := f.ask("/live/cam", 0)
	f.waiting("cam", 1)
	body := newScript(1, 1, 100).whole()
	head := fmt.Sprintf("POST /live/cam HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", len(body)+1)
	_, _ = f.dialPublisher("").Write(append([]byte(head), body...))
	w.begin()
	if got := w.read(len(body)); !bytes.Equal(got, body) {
		t.Error("it differs")
	}
}
