//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/media/flv"
)

// patience limits the wait for an event on a busy machine. Only a failing test waits so long.
const patience = 60 * time.Second

// eventually fails the test unless ok becomes true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// A node is a millrace serve in a child process. Only the test's goroutine calls its methods.
type node struct {
	t         testing.TB
	args      []string
	addr      string // host:port of HTTP
	rtmp      string
	advertise string // address for the other nodes; empty means addr
	log       output // of all its processes
	cmd       *exec.Cmd
	guard     childproc.Guard
	exited    chan struct{}
}

func (n *node) url(path string) string { return "http://" + n.addr + path }

// clusterToken is the common token of the nodes of a test.
const clusterToken = "between-nodes"

// startNodes starts nodes of one cluster.
func startNodes(t testing.TB, count int, cluster string, flags ...string) []*node {
	t.Helper()
	nodes := make([]*node, count)
	for i := range nodes {
		nodes[i] = &node{t: t, args: append([]string{"--cluster", cluster, "--cluster-token",
			clusterToken}, flags...)}
		nodes[i].start()
	}
	for _, n := range nodes {
		eventually(t, n.addr+" to know the other nodes", func() bool {
			return len(n.api().Nodes) == count-1
		})
	}
	return nodes
}

// start starts a process at new addresses, or at the addresses of the previous process.
func (n *node) start() {
	n.t.Helper()
	again := n.addr != ""
	if n.log.String() == "" {
		n.t.Cleanup(func() {
			n.end(syscall.SIGKILL)
			if n.t.Failed() {
				n.t.Logf("the log of %s:\n%s", n.addr, n.log.String())
			}
		})
	}
	for tries := 0; ; tries++ {
		if !again {
			n.addr, n.rtmp = nettest.FreeAddr(n.t), nettest.FreeAddr(n.t)
		}
		n.run()
		if n.listening() {
			break
		}
		if again || tries == 5 { // another process uses the port
			n.t.Fatalf("a node does not start:\n%s", &n.log)
		}
	}
}

func (n *node) run() {
	n.t.Helper()
	args := append([]string{"serve", "--listen", n.addr, "--rtmp", n.rtmp, "--advertise",
		"http://" + cmp.Or(n.advertise, n.addr)}, n.args...)
	n.cmd = exec.Command(os.Args[0], args...)
	n.cmd.Env = append(os.Environ(), asCommand+"=1")
	n.cmd.Stdout, n.cmd.Stderr = &n.log, &n.log
	if err := n.guard.Start(n.cmd); err != nil {
		n.t.Fatal(err)
	}
	n.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait()
		close(exited)
	}(n.cmd, n.exited)
}

// listening waits until the process answers. It returns false if the process ends first.
func (n *node) listening() bool {
	deadline := time.Now().Add(patience)
	for ; time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case <-n.exited:
			n.guard.Release()
			n.cmd = nil
			return false
		default:
		}
		if status(n.url("/healthz")) == http.StatusOK {
			return true
		}
	}
	return false
}

// end sends a signal that ends the process, and waits for its end.
func (n *node) end(sig syscall.Signal) {
	if n.cmd == nil {
		return
	}
	n.signal(syscall.SIGCONT)
	n.signal(sig)
	<-n.exited
	n.guard.Release()
	n.cmd = nil
}

func (n *node) signal(sig syscall.Signal) { _ = n.cmd.Process.Signal(sig) }

// kill ends the process like a power failure, and stop like an operator.
func (n *node) kill()  { n.end(syscall.SIGKILL) }
func (n *node) stop()  { n.end(syscall.SIGTERM) }
func (n *node) pause() { n.signal(syscall.SIGSTOP) }
func (n *node) goOn()  { n.signal(syscall.SIGCONT) }

// status returns the status of a GET, or 0 if there is no answer.
func status(url string) int {
	client := http.Client{Timeout: 5 * time.Second}
	res, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer client.CloseIdleConnections()
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// An apiAnswer has the tested fields of /api/streams.
type apiAnswer struct {
	Streams []apiStream `json:"streams"`
	Nodes   []struct {
		Node    string      `json:"node"`
		Streams []apiStream `json:"streams"`
	} `json:"nodes"`
}

type apiStream struct {
	Name    string   `json:"name"`
	Owner   string   `json:"owner"`
	Epoch   uint64   `json:"epoch"`
	Viewers int      `json:"viewers"`
	Edges   []string `json:"edges"`
	Waiting float64  `json:"waiting_seconds"`
}

// api returns the node's report about its streams, and about the other nodes.
func (n *node) api() (answer apiAnswer) {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Get(n.url("/api/streams"))
	if err != nil {
		return answer
	}
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&answer)
	return answer
}

// stream returns the node's report about one of its streams.
func (n *node) stream(name string) (s apiStream, ok bool) {
	list := n.api().Streams
	i := slices.IndexFunc(list, func(s apiStream) bool { return s.Name == name })
	if i < 0 {
		return s, false
	}
	return list[i], true
}

// owns reports whether the node has the stream's publisher.
func (n *node) owns(name string) bool {
	s, ok := n.stream(name)
	return ok && s.Owner == "" && s.Epoch > 0
}

// An encoder publishes video frames in real time. If it is disconnected, it connects to its
// addresses in turn. A frame's number is derived from its time, so that the frames of two encoders
// can be compared.
type encoder struct {
	name string
	stop context.CancelFunc
	done chan struct{}

	mu    sync.Mutex
	addrs []string
	came  int // number of accepted connections
}

// moments is time 0 of the numbers of video frames.
var moments = time.Now()

const (
	pictureEvery = 40 * time.Millisecond
	groupOf      = 12 // video frames
)

// startEncoder starts an encoder that ends with the test.
func startEncoder(t testing.TB, name string, addrs ...string) *encoder {
	ctx, stop := context.WithCancel(context.Background())
	e := &encoder{name: name, stop: stop, done: make(chan struct{}), addrs: addrs}
	go func() {
		defer close(e.done)
		e.run(ctx)
	}()
	t.Cleanup(e.end)
	return e
}

func (e *encoder) end() {
	e.stop()
	<-e.done
}

// moveTo sets other addresses for the next connections.
func (e *encoder) moveTo(addrs ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addrs = addrs
}

func (e *encoder) run(ctx context.Context) {
	for picture, try := 0, 0; ctx.Err() == nil; try++ {
		e.mu.Lock()
		addr := e.addrs[try%len(e.addrs)]
		e.mu.Unlock()
		picture = e.publish(ctx, addr, picture)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// publish sends video frames to one address until that fails, and returns the number of the next
// frame.
func (e *encoder) publish(ctx context.Context, addr string, picture int) int {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return picture
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	gone := make(chan struct{})
	go func() { // a response means that the server refuses more
		defer close(gone)
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}()
	defer func() { _ = conn.Close(); <-gone }()
	_, err = fmt.Fprintf(conn,
		"POST /live/%s HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n", e.name,
		addr)
	var enc flv.Encoder
	defer enc.Release()
	var out millrace.Chain
	defer out.Release()
	flv.AppendHeader(&out, flv.Header{HasVideo: true})
	appendPicture(&enc, &out, 0, sequenceHeader)
	// Encoders begin with a keyframe, and with their clock at 0.
	first := max(picture, int(time.Since(moments)/pictureEvery))
	first = (first + groupOf - 1) / groupOf * groupOf
	e.mu.Lock()
	e.came++
	e.mu.Unlock()
	for picture = first; err == nil; picture++ {
		select {
		case <-time.After(time.Until(moments.Add(time.Duration(picture) * pictureEvery))):
		case <-gone:
			return picture
		}
		appendPicture(&enc, &out, uint32((picture-first)*int(pictureEvery/time.Millisecond)),
			pictureData(picture))
		if _, err = fmt.Fprintf(conn, "%x\r\n", out.Len()); err == nil {
			_, err = out.WriteTo(conn)
		}
		if err == nil {
			_, err = io.WriteString(conn, "\r\n")
		}
	}
	return picture
}

func appendPicture(enc *flv.Encoder, out *millrace.Chain, at uint32, data []byte) {
	var body millrace.Chain
	body.AppendCopy(data)
	if _, err := enc.Append(out, flv.TypeVideo, at, &body); err != nil {
		panic(err)
	}
}

// sequenceHeader is the body of an AVC configuration tag: baseline, 64x48.
var sequenceHeader = []byte(
	"\x17\x00\x00\x00\x00\x01\x42\xc0\x0a\xff\xe1\x00\x09\x67\x42\xc0\x0a\xd9\x04\x1a\x36\xa4" +
		"\x01\x00\x04\x68\xce\x3c\x80")

// pictureData returns the body of a video frame's tag: 2,000 bytes with the frame's number.
func pictureData(number int) []byte {
	data := make([]byte, 2000)
	copy(data, "\x27\x01\x00\x00\x00")
	unit := byte(0x41)
	if number%groupOf == 0 {
		data[0], unit = 0x17, 0x65
	}
	binary.BigEndian.PutUint32(data[5:], uint32(len(data)-9))
	data[9] = unit
	binary.BigEndian.PutUint64(data[10:], uint64(number)|1<<63) // a number without leading zeros
	for i := 18; i < len(data); i++ {
		data[i] = byte(number + i)
	}
	return data
}

// A watcher watches a stream as FLV, and checks it.
type watcher struct {
	t    testing.TB
	name string
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	pictures int
	last     int       // number of the last video frame; -1 if there is none
	lastAt   time.Time // when it arrived
	gaps     int       // number of gaps
	repeats  int       // number of times that the last GOP was repeated
	longest  time.Duration
	problems []string
	err      error // reason of the end
}

// watch watches a stream at a server until the test ends.
func watch(t testing.TB, addr, name string) *watcher {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{t: t, name: name, stop: stop, done: make(chan struct{}), last: -1}
	go func() {
		defer close(w.done)
		err := w.run(ctx, "http://"+addr+"/live/"+name+".flv")
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() == nil {
			w.err = fmt.Errorf("the viewer of %s at %s was disconnected after video frame %d: %w",
				name, addr, w.last, err)
		}
	}()
	t.Cleanup(func() { stop(); <-w.done })
	return w
}

func (w *watcher) run(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	res, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 200))
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	r := millrace.NewReader(res.Body)
	defer r.Release()
	dec := flv.NewDecoder(r)
	if _, err := dec.Header(); err != nil {
		return err
	}
	var c millrace.Chain
	defer c.Release()
	for clock := int64(-1); ; c.Release() {
		tag, err := dec.Next(&c)
		if err != nil {
			return err
		}
		if tag.Type == flv.TypeVideo && tag.Packet == flv.PacketFrame {
			w.picture(int64(tag.Timestamp), clock, c.Bytes()[11:])
			clock = int64(tag.Timestamp)
		}
	}
}

// picture checks a video frame's number, bytes and time.
func (w *watcher) picture(at, clock int64, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	number := int(binary.BigEndian.Uint64(data[10:]) &^ (1 << 63))
	switch {
	case string(data[:len(data)-4]) != string(pictureData(number)):
		w.problem("video frame %d has other bytes", number)
	case number <= w.last && number%groupOf == 0 && w.last-number < 2*groupOf:
		w.repeats++
	case number <= w.last:
		w.problem("video frame %d comes after video frame %d", number, w.last)
	case w.last >= 0 && number > w.last+1:
		w.gaps++
		if number%groupOf != 0 {
			w.problem("after video frame %d comes %d, which is no keyframe", w.last, number)
		}
	}
	if at < clock {
		w.problem("the clock goes back from %d to %d at video frame %d", clock, at, number)
	}
	if now := time.Now(); w.last >= 0 {
		w.longest = max(w.longest, now.Sub(w.lastAt))
		w.lastAt = now
	} else {
		w.lastAt = now
	}
	w.last = number
	w.pictures++
}

func (w *watcher) problem(format string, args ...any) {
	if len(w.problems) < 10 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// sees waits until the viewer has n more video frames.
func (w *watcher) sees(n int) {
	w.t.Helper()
	see(w.t, n, w)
}

// see waits until each viewer has n more video frames.
func see(t testing.TB, n int, viewers ...*watcher) {
	t.Helper()
	want := make([]int, len(viewers))
	for i, w := range viewers {
		w.mu.Lock()
		want[i] = w.pictures + n
		w.mu.Unlock()
	}
	for i, w := range viewers {
		eventually(t, fmt.Sprintf("%d more pictures of %s", n, w.name), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.pictures >= want[i] || w.err != nil
		})
		w.check()
	}
}

// check reports the faults so far.
func (w *watcher) check() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		w.t.Errorf("%s: %s", w.name, p)
	}
	w.problems = nil
	if w.err != nil {
		w.t.Fatal(w.err)
	}
}

// flaws returns the number of gaps and repetitions, and the longest pause between two video frames.
func (w *watcher) flaws() (gaps, repeats int, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gaps, w.repeats, w.longest
}

// flawless reports an error if video frames were missing or repeated.
func (w *watcher) flawless() {
	w.t.Helper()
	w.check()
	if gaps, repeats, _ := w.flaws(); gaps+repeats > 0 {
		w.t.Errorf("%s: pictures were missing %d times, and came again %d times", w.name, gaps,
			repeats)
	}
}

// redisURL returns the address of a server for --cluster.
func redisURL(s *redistest.Server) string { return "redis://" + s.Addr() }
