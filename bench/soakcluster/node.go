package soakcluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/sleep"
)

// A node runs as one process after the other, at the same addresses.
type node struct {
	*site
	number            int
	addr, rtmp, admin string
	logFile           *os.File
	proc              *measure.Process // the newest process that this program has started

	mu     sync.Mutex
	pid    int   // of the current process
	read   int64 // bytes of the log that were read
	maxRSS int64
	lost   map[int]int64 // lost frames and disconnected viewers, by process id
	starts int
}

func newNode(s *site, number int) (n *node, err error) {
	n = &node{site: s, number: number, lost: make(map[int]int64)}
	for _, addr := range []*string{&n.addr, &n.rtmp, &n.admin} {
		if *addr, err = measure.FreeAddr(); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{n.blobDir(), n.recordDir()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
	}
	n.logFile, err = os.OpenFile(filepath.Join(s.dir, n.name()+".log"),
		os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	return n, err
}

func (n *node) name() string      { return "node" + strconv.Itoa(n.number) }
func (n *node) blobDir() string   { return filepath.Join(n.dir, n.name()+".blobs") }
func (n *node) recordDir() string { return filepath.Join(n.dir, n.name()+".records") }

// isTLS reports whether viewers and other nodes reach the node over TLS only.
func (n *node) isTLS() bool { return n.number == numNodes-1 }

func (n *node) url() string {
	if n.isTLS() {
		return "https://" + n.addr
	}
	return "http://" + n.addr
}

func (n *node) start(ctx context.Context) (err error) {
	args := []string{"serve", "--listen", n.addr, "--rtmp", n.rtmp, "--admin", n.admin,
		"--cluster", n.redisURL(), "--cluster-token", "soak", "--advertise", n.url(),
		"--cluster-ca", n.cert, "--segments", "redis", "--segments-keep", "10s",
		"--hook", n.hook.URL, "--hook-timeout", "3s", "--root", filepath.Join(n.dir, "files"),
		"--blobs", n.blobDir(), "--record", n.recordDir(), "--record-streams", "soak-?",
		"--record-bytes", "256MiB", "--record-every", "5m", "--max-streams", "1000",
		"--memory", fmt.Sprint(n.cfg.Memory), "--log-format", "json", "--log-level", "debug",
		"--drain-timeout", "2s"}
	args = append(args, n.pushFlags()...)
	if n.isTLS() {
		args = append(args, "--tls-cert", n.cert, "--tls-key", n.key)
	}
	cmd := exec.Command(n.cfg.Program, args...)
	cmd.Stdout, cmd.Stderr = n.logFile, n.logFile
	if n.proc, err = measure.Start(cmd); err != nil {
		return err
	}
	n.mu.Lock()
	n.pid, n.starts = cmd.Process.Pid, n.starts+1
	n.mu.Unlock()
	for deadline := time.Now().Add(timeout); ; sleep.For(ctx, pollEvery) {
		if err = n.ask(ctx, "/healthz", func(io.Reader) error { return nil }); err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) || !alive(cmd.Process.Pid) {
			return fmt.Errorf("%s does not start: %w", n.name(), err)
		}
	}
}

// kill kills the node and starts it again after down.
func (n *node) kill(ctx context.Context, down time.Duration) error {
	n.note()
	pid := n.current()
	if !alive(pid) {
		return fmt.Errorf("%s has ended by itself", n.name())
	}
	n.events.add(n.number, "kill")
	kill(pid, syscall.SIGKILL)
	for alive(pid) {
		time.Sleep(time.Millisecond)
	}
	n.events.add(n.number, "killed")
	sleep.For(ctx, down)
	err := n.start(ctx)
	n.events.add(n.number, "started")
	return err
}

// upgrade makes another process replace the node's process.
func (n *node) upgrade(ctx context.Context) error {
	n.note()
	old := n.current()
	n.events.add(n.number, "upgrade")
	kill(old, syscall.SIGUSR2)
	for deadline := time.Now().Add(timeout); n.current() == old || alive(old); n.note() {
		sleep.For(ctx, pollEvery)
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("%s: no process has replaced %d", n.name(), old)
		}
	}
	n.events.add(n.number, "upgraded")
	return nil
}

func (n *node) current() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pid
}

// end kills the node's process.
func (n *node) end() {
	if pid := n.current(); pid != 0 {
		kill(pid, syscall.SIGKILL)
	}
	if n.proc != nil {
		n.proc.Kill()
	}
	_ = n.logFile.Close()
}

// note reads the new lines of the log. It records a fault if one reports a fault of the server.
func (n *node) note() {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := bufio.NewReader(io.NewSectionReader(n.logFile, n.read, 1<<62-n.read))
	for {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		n.read += int64(len(text))
		var l struct {
			Level   string `json:"level"`
			Message string `json:"msg"`
			PID     int    `json:"pid"`
		}
		_ = json.Unmarshal(text, &l) // the text of a panic is not JSON
		if l.Message == "another process replaces this one" {
			n.pid, n.starts = l.PID, n.starts+1
		}
		if l.Level == "ERROR" || bytes.HasPrefix(text, []byte("panic:")) ||
			bytes.HasPrefix(text, []byte("fatal error:")) || bytes.Contains(text,
			[]byte("DATA RACE")) {
			n.faults.add("%s: its log says: %s", n.name(), bytes.TrimSpace(text))
		}
	}
}

// adminClient closes its connection after each response.
var adminClient = &http.Client{Timeout: 10 * time.Second,
	Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

func (n *node) ask(ctx context.Context, path string, f func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+path, nil)
	if err != nil {
		return err
	}
	res, err := adminClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, res.Status)
	}
	return f(res.Body)
}

func (n *node) metrics(ctx context.Context) (map[string]int64, error) {
	m := make(map[string]int64)
	return m, n.ask(ctx, "/metrics", func(r io.Reader) error { return measure.ReadMetrics(r, m) })
}

// watch observes the nodes every second: their memory, logs and counters of lost frames.
func (s *site) watch(ctx context.Context) {
	for second := 1; sleep.For(ctx, time.Second); second++ {
		for _, n := range s.nodes {
			n.note()
			pid := n.current()
			if rss := residentMemory(pid); rss > 0 {
				n.mu.Lock()
				n.maxRSS = max(n.maxRSS, rss)
				n.mu.Unlock()
				if limit := s.cfg.Memory + 64<<20; rss > limit {
					s.faults.add("%s has %d MiB of resident memory, more than --memory and 64 MiB",
						n.name(), rss>>20)
				}
			}
			m, err := n.metrics(ctx)
			if err != nil || n.current() != pid {
				continue
			}
			lost := m["millrace_frames_lost_total"] + m["millrace_viewers_dropped_total"]
			if n.countLost(pid, lost) {
				s.events.add(n.number, "lost")
			}
		}
		if second%10 == 0 {
			s.log(s.line())
		}
	}
}

// countLost stores the number of losses that a process has counted. It reports whether the number
// has grown.
func (n *node) countLost(pid int, lost int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if lost <= n.lost[pid] {
		return false
	}
	n.lost[pid] = lost
	return true
}

func residentMemory(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib int64
	_, _ = fmt.Sscan(rest, &kib)
	return kib << 10
}

// releaseTime is how long after its clients have left a node may hold something for them. Nodes
// cache objects of HLS for a minute.
const releaseTime = 2 * time.Minute

// checkReleased waits until no node holds anything that belonged to a client.
func (s *site) checkReleased(ctx context.Context) {
	for _, n := range s.nodes {
		var err error
		for deadline := time.Now().Add(releaseTime); ; sleep.For(ctx, 100*time.Millisecond) {
			if err = n.released(ctx); err == nil || time.Now().After(deadline) || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			s.faults.add("%s, %v after all clients have left: %v", n.name(), releaseTime, err)
		}
	}
}

func (n *node) released(ctx context.Context) error {
	m, err := n.metrics(ctx)
	if err != nil {
		return err
	}
	var held []error
	for _, name := range []string{"pool_in_use_bytes", "streams", "viewers", "hls_streams",
		"files_downloads", "blobs_downloads", "blobs_uploads"} {
		v, ok := m["millrace_"+name]
		if !ok {
			return fmt.Errorf("the metrics have no %s", name)
		}
		if v != 0 {
			held = append(held, fmt.Errorf("%s is %d", name, v))
		}
	}
	if len(held) > 0 {
		return errors.Join(append(held, n.owners(ctx))...)
	}
	return n.ask(ctx, "/debug/pprof/goroutineleak?debug=1", measure.CheckLeaks)
}

// owners returns an error that lists the owners of the node's memory.
func (n *node) owners(ctx context.Context) error {
	var owners []error
	err := n.ask(ctx, "/metrics", func(r io.Reader) error {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "millrace_memory_") {
				owners = append(owners, errors.New(lines.Text()))
			}
		}
		return lines.Err()
	})
	return errors.Join(append(owners, err)...)
}

// terminate stops the nodes with SIGTERM, and waits until they have ended.
func (s *site) terminate() {
	for _, n := range s.nodes {
		pid := n.current()
		kill(pid, syscall.SIGTERM)
		for deadline := time.Now().Add(timeout); alive(pid); time.Sleep(pollEvery) {
			if time.Now().After(deadline) {
				s.faults.add("%s has not ended %v after SIGTERM", n.name(), timeout)
				break
			}
		}
		n.note()
	}
}
