package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/testkit/childproc"
)

// A memoryServer is a millrace serve in a process of its own, whose memory is looked at.
type memoryServer struct {
	t    testing.TB
	addr string
	log  output
	pid  int
}

func startMemoryServer(t testing.TB, flags ...string) *memoryServer {
	t.Helper()
	s := &memoryServer{t: t}
	cmd := exec.Command(os.Args[0], append([]string{"serve", "--listen", "127.0.0.1:0", "--rtmp", "127.0.0.1:0", "--log-level", "warn"}, flags...)...)
	if bin := os.Getenv("MEM_BIN"); bin != "" {
		cmd.Path = bin
	}
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Args = append(cmd.Args, "--log-level", "info")
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
	address := regexp.MustCompile(`msg=listening address=(\S+)`)
	eventually(t, "the server to listen", func() bool {
		m := address.FindStringSubmatch(s.log.String())
		if m != nil {
			s.addr = m[1]
		}
		return m != nil
	})
	return s
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

// metrics returns what /metrics says under names that begin with prefix.
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

func (s *memoryServer) report(what string) {
	s.t.Logf("%s: RSS %d MiB, peak %d MiB\n%s", what, s.rss()>>20, s.peak()>>20,
		s.metrics("millrace_kept", "millrace_pool_in", "millrace_pool_idle", "millrace_mem", "go_memstats_heap_inuse", "go_memstats_heap_idle", "go_memstats_heap_rel", "go_memstats_stack_inuse", "millrace_streams ", "millrace_viewers{"))
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

// publisher begins a stream of FLV with pictures.
func (s *memoryServer) publisher(name string) net.Conn {
	conn := s.dial()
	fmt.Fprintf(conn, "POST /live/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 9000000000000\r\n\r\n", name, s.addr)
	_, _ = conn.Write([]byte("FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"))
	_, _ = conn.Write(tag(9, 0, avcConfig))
	return conn
}

// watch asks for a path and reads the head of the answer, no more.
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
	b := append(make([]byte, 0, n+15), kind, byte(n>>16), byte(n>>8), byte(n), byte(at>>16), byte(at>>8), byte(at), byte(at>>24), 0, 0, 0)
	b = append(b, data...)
	return binary.BigEndian.AppendUint32(b, uint32(n+11))
}

// picture returns a tag with a picture of n bytes.
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

// drain reads until the connection ends, and returns how many bytes came.
func drain(conn net.Conn) int64 {
	n, _ := io.Copy(io.Discard, bufio.NewReader(conn))
	return n
}

// tinyPictures publishes tiny pictures between script data, for a viewer of MP4.
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

// slowViewers has as many viewers come as there are key frames, and take nothing.
func (s *memoryServer) slowViewers(name string, viewers, size int, exts ...string) {
	p := s.publisher(name)
	for i := range viewers {
		if _, err := p.Write(picture(uint32(i*40), size, true)); err != nil {
			s.t.Logf("%s: publisher ended after %d: %v", name, i, err)
			return
		}
		s.watch("/live/" + name + exts[i%len(exts)])
		time.Sleep(60 * time.Millisecond)
	}
}

// shortPublishes publishes streams that end at once, over a few connections of HTTP/2.
func (s *memoryServer) shortPublishes(n int) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	body := bytes.Repeat([]byte("not FLV "), 1000)
	var all sync.WaitGroup
	codes := make(map[int]int)
	var mu sync.Mutex
	for c := range 8 {
		tr := &http.Transport{Protocols: protocols}
		s.t.Cleanup(tr.CloseIdleConnections)
		client := &http.Client{Transport: tr}
		for w := range 12 {
			all.Go(func() {
				for i := range n / 96 {
					res, err := client.Post(fmt.Sprintf("http://%s/live/p%d-%d-%d", s.addr, c, w, i), "application/octet-stream", bytes.NewReader(body))
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
	s.t.Logf("%v", codes)
}

// healthy has viewers that keep up, and fails the test if they lose a frame.
func (s *memoryServer) healthy(ctx context.Context, viewers int, lasts time.Duration) func() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var out bytes.Buffer
		err := execute(ctx, &out, io.Discard, "load", "--url", "http://"+s.addr, "--viewers", strconv.Itoa(viewers), "--duration", lasts.String(), "--json")
		var report load.Report
		_ = json.Unmarshal(out.Bytes(), &report)
		if err != nil || report.Viewers.Connected != viewers || report.Viewers.Lost != 0 || len(report.Viewers.Ended) > 0 {
			s.t.Errorf("healthy viewers: %v %+v", err, report.Viewers)
		}
	}()
	return func() { <-done }
}

// The memory of a server stays within its budget and slack, whatever legal requests come, and viewers that keep up lose
// nothing.
func TestMemoryBudget(t *testing.T) {
	const slack = 64 << 20
	for _, load := range []struct {
		name string
		run  func(s *memoryServer)
	}{
		{"tiny pictures between script data", func(s *memoryServer) {
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() { s.tinyPictures(fmt.Sprint("tiny", i), 5000) })
			}
			all.Wait()
		}},
		{"slow viewers", func(s *memoryServer) { s.slowViewers("large", 150, 4<<20-100, ".flv") }},
		{"short publishes", func(s *memoryServer) { s.shortPublishes(3000) }},
	} {
		t.Run(load.name, func(t *testing.T) {
			t.Parallel()
			const budget = 160 << 20
			s := startMemoryServer(t, "--memory", strconv.Itoa(budget))
			wait := s.healthy(t.Context(), 10, 12*time.Second)
			load.run(s)
			s.report(load.name)
			wait()
			if peak := s.peak(); peak > budget+slack {
				t.Errorf("%d MiB, with a budget of %d MiB", peak>>20, budget>>20)
			}
		})
	}
}
