//go:build unix

package main

import (
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

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// A replaceable is a millrace serve that may be replaced by others: processes in one group, which write to one log.
type replaceable struct {
	t    testing.TB
	path string // of the program, a link
	log  string // the name of a file
	pid  int    // of the process that serves
	addr string
}

// startCommand starts millrace serve and waits until it listens.
func startCommand(t testing.TB, env []string, args ...string) *replaceable {
	t.Helper()
	dir := t.TempDir()
	c := &replaceable{t: t, path: filepath.Join(dir, "millrace"), log: filepath.Join(dir, "log")}
	c.link()
	log, err := os.Create(c.log) // not a pipe, which Wait would wait for until the last process ends
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(c.path, append([]string{"serve"}, args...)...)
	cmd.Env = append(append(os.Environ(), asCommand+"=1"), env...)
	cmd.Stdout, cmd.Stderr = log, log
	var guard childproc.Guard
	if err := guard.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group
		_ = cmd.Wait()
		guard.Release()
		if t.Failed() {
			t.Logf("the log:\n%s", c.said())
		}
	})
	c.pid = cmd.Process.Pid
	c.logged("msg=listening")
	c.addr = regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(c.said())[1]
	return c
}

// link puts another file in the place of the program.
func (c *replaceable) link() {
	c.t.Helper()
	if err := os.Symlink(os.Args[0], c.path+".new"); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(c.path+".new", c.path); err != nil {
		c.t.Fatal(err)
	}
}

func (c *replaceable) said() string {
	text, _ := os.ReadFile(c.log)
	return string(text)
}

// logged waits until the log has a text.
func (c *replaceable) logged(text string) {
	c.t.Helper()
	eventually(c.t, "the log to say "+text, func() bool { return strings.Contains(c.said(), text) })
}

func (c *replaceable) signal(sig syscall.Signal) {
	c.t.Helper()
	if c.pid <= 1 { // which stand for all processes of a group, or of the machine
		c.t.Fatalf("the process has the number %d", c.pid)
	}
	if err := syscall.Kill(c.pid, sig); err != nil {
		c.t.Fatal(err)
	}
}

// replace has another process take over.
func (c *replaceable) replace() {
	c.t.Helper()
	const says = `msg="another process replaces this one" pid=`
	n := strings.Count(c.said(), says)
	c.link()
	c.signal(syscall.SIGUSR2)
	eventually(c.t, "another process", func() bool { return strings.Count(c.said(), says) > n })
	text := c.said()
	pid, _, _ := strings.Cut(text[strings.LastIndex(text, says)+len(says):], "\n")
	var err error
	if c.pid, err = strconv.Atoi(pid); err != nil {
		c.t.Fatal(err)
	}
}

// While the process is replaced ten times, no request is refused: those on connections of their own, those on connections
// that are kept open, viewers of a stream, and connections of RTMP. A viewer sees its answer end properly.
func TestAReplacementRefusesNoClient(t *testing.T) {
	t.Parallel()
	replacements := 10
	if testing.Short() {
		replacements = 3
	}
	rtmp := freeAddr(t)
	c := startCommand(t, nil, "--demo", "--listen", "127.0.0.1:0", "--rtmp", rtmp, "--drain-timeout", "3s")
	var clients, viewers clientLoops
	var served, watched atomic.Int64
	loop := func(l *clientLoops, client func() error) {
		l.Go(func() {
			for !l.stop.Load() {
				if err := client(); err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	get := func(client *http.Client, path string, read func(io.Reader) error) error {
		res, err := client.Get("http://" + c.addr + path)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if err := read(res.Body); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s, %w", path, res.Status, err)
		}
		return nil
	}
	all := func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	kept := &http.Client{Transport: &http.Transport{}}
	defer kept.CloseIdleConnections()
	loop(&clients, func() error { return get(once, "/healthz", all) })
	loop(&clients, func() error { return get(kept, "/api/streams", all) })
	loop(&clients, func() error {
		return get(once, "/live/demo.flv", func(r io.Reader) error {
			_, err := io.CopyN(io.Discard, r, 1000)
			return err
		})
	})
	for range 3 {
		loop(&viewers, func() error { // to the end of the stream, which is that of its process
			return get(once, "/live/demo.flv", func(r io.Reader) error {
				watched.Add(1)
				return all(r)
			})
		})
	}
	loop(&clients, func() error {
		conn, err := net.Dial("tcp", rtmp)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	for i := range replacements {
		before := served.Load()
		c.replace()
		eventually(t, "requests to be served", func() bool { return served.Load() > before+20 || t.Failed() })
		if i%2 == 0 { // else there are three at a time
			eventually(t, "the viewers to move", func() bool { return viewersAt(c.addr) == 3 || t.Failed() })
		}
	}
	eventually(t, "the processes to end", func() bool { return strings.Count(c.said(), "msg=stopped") == replacements })
	clients.stop.Store(true)
	clients.Wait()
	eventually(t, "the viewers to be back", func() bool { return viewersAt(c.addr) == 3 || t.Failed() })
	viewers.stop.Store(true)
	c.signal(syscall.SIGTERM)
	viewers.Wait()
	c.logged("msg=stopped")
	if watched.Load() < int64(replacements) {
		t.Errorf("%d viewers saw the end of their stream", watched.Load())
	}
	t.Logf("%d requests were served, and %d viewers saw the end of their stream", served.Load(), watched.Load())
}

// clientLoops are clients of a server, each of which comes again and again until stop.
type clientLoops struct {
	sync.WaitGroup
	stop atomic.Bool
}

// viewersAt returns how many viewers a server has.
func viewersAt(addr string) (viewers int) {
	for _, s := range (&node{addr: addr}).api().Streams {
		viewers += s.Viewers
	}
	return viewers
}

// What cannot serve replaces nothing.
func TestAFailedReplacement(t *testing.T) {
	t.Parallel()
	c := startCommand(t, nil, "--listen", "127.0.0.1:0", "--rtmp=", "--blobs", t.TempDir()) // which one process has
	c.signal(syscall.SIGUSR2)
	c.logged("no other process can replace this one")
	if got := status("http://" + c.addr + "/healthz"); got != http.StatusOK {
		t.Errorf("it answers %d", got)
	}
}

// In a cluster the process that replaces an owner has its address: the encoder comes back to it, and viewers at another
// node stay.
func TestAReplacementInACluster(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	addr := freeAddr(t)
	c := startCommand(t, nil, "--listen", addr, "--rtmp=", "--advertise", "http://"+addr, "--cluster", redisURL(redis),
		"--cluster-token", clusterToken, "--takeover", "never")
	other := startNodes(t, 1, redisURL(redis))[0]
	startEncoder(t, "cam", addr)
	edge := watch(t, other.addr, "cam")
	edge.sees(groupOf)
	for range 3 {
		c.replace()
		edge.sees(groupOf)
		eventually(t, "one process to be left", func() bool {
			return strings.Count(c.said(), "msg=stopped") == strings.Count(c.said(), "another process replaces")
		})
		edge.sees(groupOf)
		here := watch(t, addr, "cam")
		here.sees(groupOf)
		here.stop()
	}
	gaps, repeats, longest := edge.flaws()
	t.Logf("pictures were missing %d times, came again %d times, and the longest pause was %v", gaps, repeats, longest)
}

// SIGHUP reads the file again: tokens and limits change, and what cannot change is named. A file that cannot be used
// changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "millrace.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("read-token: one\nlatency: 20ms\n")
	name := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	told := func(want string) {
		t.Helper()
		_ = systemd.SetReadDeadline(time.Now().Add(patience))
		p := make([]byte, 200)
		n, err := systemd.Read(p)
		if !regexp.MustCompile("^" + want + "$").Match(p[:n]) {
			t.Errorf("systemd is told %q, want %s: %v", p[:n], want, err)
		}
	}
	c := startCommand(t, []string{"NOTIFY_SOCKET=" + name}, "--demo", "--listen", "127.0.0.1:0", "--rtmp=", "--config", file)
	told("READY=1")
	answers := func(token string, want int) {
		t.Helper()
		if got := status("http://" + c.addr + "/api/streams?token=" + token); got != want {
			t.Errorf("with %q: %d, want %d", token, got, want)
		}
	}
	answers("one", 200)
	answers("two", 403)
	reload := func(text string) {
		t.Helper()
		write(text)
		c.signal(syscall.SIGHUP)
		told("RELOADING=1\nMONOTONIC_USEC=[0-9]+")
		told("READY=1")
	}
	reload("read-token: two\nlatency: 30ms\nmax-stream-viewers: 1\n")
	answers("one", 403)
	answers("two", 200)
	c.logged(`changed="[read-token max-stream-viewers]"`)
	c.logged("need a restart\" flags=[latency]")
	res, err := http.Get("http://" + c.addr + "/live/demo.flv?token=two")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	defer res.Body.Close()
	if got := status("http://" + c.addr + "/live/demo.flv?token=two"); got != http.StatusServiceUnavailable {
		t.Errorf("a second viewer gets %d", got)
	}
	reload("read-token: three\nlatency: soon\n")
	answers("two", 200)
	c.logged("the one before is in force")
	c.logged(file + `:2: latency is`)
	write("")
	c.replace()
	told("MAINPID=" + strconv.Itoa(c.pid))
}
