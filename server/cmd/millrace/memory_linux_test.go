//go:build !race

// The race detector needs several times the memory that it watches.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// A memoryServer is a millrace serve in a child process, to measure its memory.
type memoryServer struct {
	t    testing.TB
	addr string // HTTP address
	rtmp string
	log  output
	pid  int
}

// startMemoryServer starts a server in a control group, or in the test's group if group is nil.
func startMemoryServer(t testing.TB, group *memoryGroup, flags ...string) *memoryServer {
	t.Helper()
	s := &memoryServer{t: t}
	cmd := group.command(os.Args[0], append([]string{"serve", "--listen", "127.0.0.1:0", "--rtmp",
		"127.0.0.1:0"}, flags...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	var guard childproc.Guard
	if err := guard.Start(cmd); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		guard.Release()
		if t.Failed() {
			t.Logf("the server's log:\n%.20000s", s.log.String())
		}
	})
	address := regexp.MustCompile(
		`msg=listening address=(\S+)(?s:.*)msg="RTMP listening" address=(\S+)`)
	eventually(t, "the server to listen", func() bool {
		m := address.FindStringSubmatch(s.log.String())
		if m != nil {
			s.addr, s.rtmp = m[1], m[2]
		}
		return m != nil
	})
	return s
}

// A memoryGroup is a control group with limited memory: the kernel kills a process in it that needs
// more. It counts the process's anonymous memory, its page cache (blobs), which the kernel reclaims
// before it kills, and the kernel's memory for the process: page tables, stacks, and structures of
// sockets and files. Version 2 also counts the contents of sockets, which --memory does not limit.
type memoryGroup struct {
	dir    string
	events string // file with the number of killed processes
	peak   string // file with the peak of the counted memory
}

// socketBytes is the memory that the sockets of a server may use in a group of version 2: --unsent
// for each of 300 viewers that read nothing, and the unread bytes of 120 publishers.
const socketBytes = 128 << 20

// newMemoryGroup returns a control group with limit bytes. It returns nil if the test cannot make
// one: it is not root, the groups are read-only, or there is no memory controller. The test fails
// at its end if the kernel has killed a process.
func newMemoryGroup(t testing.TB, limit int64) *memoryGroup {
	t.Helper()
	name := fmt.Sprintf("millrace-test-%d-%d", os.Getpid(), memoryGroups.Add(1))
	var reasons []error
	for _, v := range []struct {
		root, limit, swap, swapLimit, events, peak string
		bytes                                      int64
	}{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes",
			strconv.FormatInt(limit, 10),
			"memory.oom_control", "memory.max_usage_in_bytes", limit},
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "0", "memory.events", "memory.peak",
			limit + socketBytes},
	} {
		g := &memoryGroup{dir: filepath.Join(v.root, name), events: v.events, peak: v.peak}
		err := os.Mkdir(g.dir, 0o755)
		if err == nil {
			err = g.write(v.limit, strconv.FormatInt(v.bytes, 10))
		}
		if err == nil {
			err = g.command("/bin/true").Run()
		}
		if err != nil {
			reasons = append(reasons, err)
			_ = os.Remove(g.dir)
			continue
		}
		_ = g.write(v.swap, v.swapLimit) // without swap the file does not exist
		t.Cleanup(func() { g.check(t, v.bytes) })
		return g
	}
	t.Logf("no control group can be made, so that the kernel is no judge: %v",
		errors.Join(reasons...))
	return nil
}

var memoryGroups atomic.Int64 // number of groups

// write writes to an existing file.
func (g *memoryGroup) write(name, value string) error {
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// command returns a command that joins the group before it runs. g may be nil.
func (g *memoryGroup) command(name string, args ...string) *exec.Cmd {
	if g == nil {
		return exec.Command(name, args...)
	}
	const enter = `echo 0 >"$0" && exec "$@"`
	return exec.Command("/bin/sh", append([]string{"-c", enter,
		filepath.Join(g.dir, "cgroup.procs"), name}, args...)...)
}

// check reports the kernel's figures for the group, and removes the group when its processes have
// ended.
func (g *memoryGroup) check(t testing.TB, limit int64) {
	peak, _ := os.ReadFile(filepath.Join(g.dir, g.peak))
	n, _ := strconv.ParseInt(strings.TrimSpace(string(peak)), 10, 64)
	t.Logf("the control group had up to %d of %d MiB", n>>20, limit>>20)
	events, err := os.ReadFile(filepath.Join(g.dir, g.events))
	if err != nil {
		t.Error(err)
	}
	if regexp.MustCompile(`(?m)^oom_kill [1-9]`).Match(events) {
		t.Errorf("the kernel has killed the server:\n%s", events)
	}
	eventually(t, "the control group to go", func() bool { return os.Remove(g.dir) == nil })
}

// status returns a figure of /proc/PID/status, in bytes.
func (s *memoryServer) status(name string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.log.String())
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); f[0] == name+":" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	s.t.Fatalf("no %s in:\n%s", name, b)
	return 0
}

func (s *memoryServer) rss() int64  { return s.status("VmRSS") }
func (s *memoryServer) peak() int64 { return s.status("VmHWM") }

// metrics returns the lines of /metrics whose names begin with a prefix.
func (s *memoryServer) metrics(prefixes ...string) string {
	res, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	var b strings.Builder
	for line := range strings.Lines(string(all)) {
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

func (s *memoryServer) dial() net.Conn {
	s.t.Helper()
	var d net.Dialer
	conn, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// publisher begins an FLV stream with video.
func (s *memoryServer) publisher(name string) net.Conn {
	conn := s.dial()
	fmt.Fprintf(conn, "POST /live/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 9000000000000\r\n\r\n",
		name, s.addr)
	_, _ = conn.Write([]byte("FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"))
	_, _ = conn.Write(tag(9, 0, avcConfig))
	return conn
}

// watch requests a path and reads only the header of the response.
func (s *memoryServer) watch(path string) net.Conn {
	conn := s.dial().(*net.TCPConn)
	_ = conn.SetReadBuffer(4 << 10)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, s.addr)
	return conn
}

// avcConfig is a sequence header.
var avcConfig = load.NewSynth(0, 1e6, time.Second).Headers(1e6)[1].Payload

// tag returns an FLV tag.
func tag(kind byte, at uint32, data []byte) []byte {
	n := len(data)
	b := append(make([]byte, 0, n+15), kind, byte(n>>16), byte(n>>8), byte(n), byte(at>>16),
		byte(at>>8), byte(at), byte(at>>24), 0, 0, 0)
	b = append(b, data...)
	return binary.BigEndian.AppendUint32(b, uint32(n+11))
}

// picture returns a tag with a video frame of n bytes.
func picture(at uint32, n int, key bool) []byte {
	data := make([]byte, 9+n)
	data[0], data[1] = 0x27, 1
	if key {
		data[0] = 0x17
	}
	binary.BigEndian.PutUint32(data[5:], uint32(n))
	data[9] = 0x41
	if key {
		data[9] = 0x65
	}
	return tag(9, at, data)
}

// drain reads until the connection ends, and returns the number of bytes.
func drain(conn net.Conn) int64 {
	n, _ := io.Copy(io.Discard, bufio.NewReader(conn))
	return n
}

// tinyPictures publishes tiny video frames between script data, for a viewer of MP4.
func (s *memoryServer) tinyPictures(name string, pictures int) {
	p := s.publisher(name)
	script := tag(18, 0, append([]byte("\x02\x00\x0aonCuePoint\x05"), make([]byte, 60_000)...))
	if _, err := p.Write(picture(0, 20, true)); err != nil {
		s.t.Logf("publisher: %v", err)
		return
	}
	v := s.watch("/live/" + name + ".mp4")
	go drain(v)
	for i := range pictures {
		_, err := p.Write(append(script, picture(uint32(i*33), 20, false)...))
		if err != nil {
			s.t.Logf("%s: publisher ended after %d: %v", name, i, err)
			return
		}
	}
}

// slowViewers connects viewers that read nothing, with alternating formats, each at a different
// keyframe.
func (s *memoryServer) slowViewers(name string, viewers, size int, forms ...string) {
	p := s.publisher(name)
	client := s.client()
	sent, got := int64(len("FLV header   ")+len(tag(9, 0, avcConfig))),
		s.reader("/live/"+name+".flv")
	for i := range viewers {
		pic := picture(uint32(i*40), size, true)
		if _, err := p.Write(pic); err != nil {
			s.t.Errorf("%s: the publisher ended after %d video frames: %v", name, i, err)
			return
		}
		sent += int64(len(pic))
		switch form := forms[i%len(forms)]; form {
		case "rtmp":
			conn, err := net.Dial("tcp", s.rtmp)
			if err != nil {
				s.t.Error(err)
				return
			}
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			c := livetest.NewRTMP(s.t, conn)
			c.Connect("live")
			c.Play(name)
		case "http2":
			go func() {
				if res, err := client.Get("http://" + s.addr + "/live/" + name +
					".flv"); err == nil {
					s.t.Cleanup(func() { _ = res.Body.Close() })
				}
			}()
		case "hls":
			go s.slowSegment(name)
		default:
			s.watch("/live/" + name + form)
		}
		time.Sleep(60 * time.Millisecond)
	}
	eventually(s.t, "all of the stream at a viewer that keeps up",
		func() bool { return got.Load() == sent })
}

// reader watches, and counts the received bytes.
func (s *memoryServer) reader(path string) *atomic.Int64 {
	got := new(atomic.Int64)
	conn := s.dial()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, s.addr)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		p := make([]byte, 1<<20)
		for {
			n, err := res.Body.Read(p)
			if got.Add(int64(n)); err != nil {
				return
			}
		}
	}()
	return got
}

// slowSegment requests the newest HLS segment, and reads nothing of it.
func (s *memoryServer) slowSegment(name string) {
	res, err := http.Get("http://" + s.addr + "/live/" + name + "/media.m3u8")
	if err != nil {
		return
	}
	list, _ := io.ReadAll(res.Body)
	res.Body.Close()
	if all := regexp.MustCompile(`(?m)^[^#].*`).FindAllString(string(list), -1); len(all) > 0 {
		s.watch("/live/" + name + "/" + all[len(all)-1])
	}
}

// client returns a client of HTTP/2.
func (s *memoryServer) client() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// shortPublishes publishes streams that end at once, over a few connections of HTTP/2.
func (s *memoryServer) shortPublishes(n int) {
	body := bytes.Repeat([]byte("not FLV "), 1000)
	var all sync.WaitGroup
	codes := make(map[int]int)
	var mu sync.Mutex
	for c := range 8 {
		client := s.client()
		for w := range 12 {
			all.Go(func() {
				for i := range n / 96 {
					res, err := client.Post(fmt.Sprintf("http://%s/live/p%d-%d-%d", s.addr, c, w,
						i), "application/octet-stream", bytes.NewReader(body))
					code := 0
					if err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
						code = res.StatusCode
					}
					mu.Lock()
					codes[code]++
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if codes[http.StatusOK] == 0 {
		s.t.Errorf("%d publishes by status: %v", n, codes)
	}
}

// healthy starts viewers that keep up with a stream until ctx ends. It fails the test if one of
// them loses a frame. The returned channel is closed at the end.
func (s *memoryServer) healthy(ctx context.Context, viewers int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err := load.Run(ctx, load.Config{URL: "http://" + s.addr, Streams: 1,
			Viewers: viewers, Duration: time.Hour}, nil)
		v := report.Viewers
		if err != nil || v.Connected != viewers || v.Lost != 0 || v.Repeated != 0 || v.Tags == 0 ||
			len(v.Ended) > 0 {
			s.t.Errorf("viewers that keep up: %v %+v", err, v)
		}
	}()
	eventually(s.t, "viewers that keep up", func() bool {
		return strings.Contains(s.metrics("millrace_viewers{"),
			fmt.Sprintf("{path=\"writev\"} %d\n", viewers))
	})
	return done
}

// halfTags starts publishers that send a large tag except its end.
func (s *memoryServer) halfTags(publishers int) {
	half := picture(0, 4<<20-100, true)
	half = half[:len(half)-1000]
	for i := range publishers {
		_, _ = s.publisher(fmt.Sprint("half", i)).Write(half)
	}
}

// longGroups starts publishers that send GOPs as long as the server keeps, without a viewer.
func (s *memoryServer) longGroups(publishers int) {
	var all sync.WaitGroup
	for i := range publishers {
		p := s.publisher(fmt.Sprint("long", i))
		all.Go(func() {
			for k := range 60 {
				if _, err := p.Write(picture(uint32(k*40), 256<<10, k == 0)); err != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

// blobs starts clients that upload blobs and stop in the middle, and others that read nothing of
// their HTTP/2 downloads.
func (s *memoryServer) blobs(uploads, downloads int) {
	client := s.client()
	blob := make([]byte, 16<<20)
	req, _ := http.NewRequest(http.MethodPut, "http://"+s.addr+"/blobs/one", bytes.NewReader(blob))
	res, err := client.Do(req)
	if err != nil || res.StatusCode != http.StatusCreated {
		s.t.Errorf("a blob is not put: %v, %v", res, err)
		return
	}
	res.Body.Close()
	for i := range uploads {
		conn := s.dial()
		fmt.Fprintf(conn, "PUT /blobs/up%d HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", i,
			s.addr, len(blob))
		_, _ = conn.Write(blob[:1<<20])
	}
	for range downloads / 50 {
		client := s.client()
		for range 50 {
			if res, err := client.Get("http://" + s.addr + "/blobs/one"); err == nil {
				s.t.Cleanup(func() { _ = res.Body.Close() })
			}
		}
	}
}

// Under each load of legal requests, a server keeps its memory within the budget and the slack,
// even by the kernel's count. Viewers that keep up lose nothing.
func TestMemoryBudget(t *testing.T) {
	const budget, slack = 160 << 20, 64 << 20
	for _, load := range []struct {
		name string
		long bool
		run  func(s *memoryServer)
	}{
		{"tiny pictures between script data", false, func(s *memoryServer) {
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() { s.tinyPictures(fmt.Sprint("tiny", i), 5000) })
			}
			all.Wait()
		}},
		{"slow viewers", false, func(s *memoryServer) {
			s.slowViewers("large", 120, 4<<20-100, ".flv")
		}},
		{"short publishes", false, func(s *memoryServer) { s.shortPublishes(3000) }},
		{"slow viewers of all forms", true, func(s *memoryServer) {
			s.slowViewers("large", 300, 1<<20, ".flv", ".mp4", "rtmp", "http2", "hls")
		}},
		{"large tags that do not end", true, func(s *memoryServer) { s.halfTags(120) }},
		{"long groups", true, func(s *memoryServer) { s.longGroups(120) }},
		{"blobs", true, func(s *memoryServer) { s.blobs(64, 1000) }},
		{"many short publishes", true, func(s *memoryServer) { s.shortPublishes(30000) }},
	} {
		t.Run(load.name, func(t *testing.T) {
			if load.long && testing.Short() {
				t.Skip("a long load")
			}
			group := newMemoryGroup(t, budget+slack)
			s := startMemoryServer(t, group, "--memory", strconv.Itoa(budget), "--blobs",
				t.TempDir())
			ctx, cancel := context.WithCancel(t.Context())
			healthy := s.healthy(ctx, 10)
			load.run(s)
			t.Logf("RSS %d MiB, peak %d MiB\n%s", s.rss()>>20, s.peak()>>20,
				s.metrics("millrace_memory"))
			time.Sleep(time.Second)
			cancel()
			<-healthy
			if peak := s.peak(); peak > budget+slack {
				t.Errorf("%d MiB, with a budget of %d MiB", peak>>20, budget>>20)
			}
		})
	}
}

// After a peak, memory is returned to the system within a minute.
func TestMemoryGoesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	s := startMemoryServer(t, nil, "--memory", "2GiB")
	t.Run("peak", func(t *testing.T) { // its end closes the connections
		s.t = t
		s.slowViewers("large", 100, 4<<20-100, ".flv")
	})
	s.t = t
	peak, ended := s.rss(), time.Now()
	if peak < 300<<20 {
		t.Errorf("no peak: %d MiB", peak>>20)
	}
	for s.rss() > 100<<20 {
		if time.Since(ended) > 2*time.Minute { // allows for a busy machine
			t.Fatalf("%d MiB are left of %d\n%s", s.rss()>>20, peak>>20,
				s.metrics("millrace_memory"))
		}
		time.Sleep(time.Second)
	}
	t.Logf("from %d to %d MiB in %v", peak>>20, s.rss()>>20, time.Since(ended).Round(time.Second))
}
