//go:build unix

package main

import (
	"bufio"
	"bytes"
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

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live/record"
	"github.com/millrace-io/millrace/server/internal/server"
)

// A replaceable is a millrace serve that other processes may replace. All are in one process group,
// and write to one log.
type replaceable struct {
	t    testing.TB
	path string // of the program: a link
	log  string // name of a file
	pid  int    // of the serving process
	addr string
}

// startCommand starts millrace serve and waits until it listens.
func startCommand(t testing.TB, env []string, args ...string) *replaceable {
	t.Helper()
	dir := t.TempDir()
	c := &replaceable{t: t, path: filepath.Join(dir, "millrace"), log: filepath.Join(dir, "log")}
	c.link()
	// This is not a pipe, because Wait would wait until the last process has closed it.
	log, err := os.Create(c.log)
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the process group
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

// link replaces the program's link by another file.
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

// logged waits until the log contains text.
func (c *replaceable) logged(text string) {
	c.t.Helper()
	eventually(c.t, "the log to say "+text, func() bool { return strings.Contains(c.said(), text) })
}

func (c *replaceable) signal(sig syscall.Signal) {
	c.t.Helper()
	if c.pid <= 1 { // which mean a whole group, or all processes
		c.t.Fatalf("the process has the number %d", c.pid)
	}
	if err := syscall.Kill(c.pid, sig); err != nil {
		c.t.Fatal(err)
	}
}

// replace starts another process that takes over.
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

// The second signal ends the server at once, even if a shell has made it ignore SIGINT.
func TestSecondSignalEndsTheServer(t *testing.T) {
	root := t.TempDir()
	large, err := os.Create(filepath.Join(root, "large"))
	if err == nil {
		err = errors.Join(large.Truncate(1<<30), large.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, signals := range [][2]syscall.Signal{
		{syscall.SIGINT, syscall.SIGINT}, {syscall.SIGTERM, syscall.SIGINT},
		{syscall.SIGINT, syscall.SIGTERM},
	} {
		t.Run(fmt.Sprint(signals[0], ", ", signals[1]), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log, err := os.Create(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			cmd := exec.Command("/bin/sh", "-c", `trap "" INT; exec "$0" "$@"`, os.Args[0], "serve",
				"--listen", "127.0.0.1:0", "--rtmp", "", "--root", root, "--drain-timeout", "10m")
			cmd.Env = append(os.Environ(), asCommand+"=1")
			cmd.Stderr = log
			var guard childproc.Guard
			if err := guard.Start(cmd); err != nil {
				t.Fatal(err)
			}
			defer guard.Release()
			c := &replaceable{t: t, log: log.Name(), pid: cmd.Process.Pid}
			c.logged("msg=listening")
			addr := regexp.MustCompile(
				`msg=listening address=(\S+)`).FindStringSubmatch(c.said())[1]
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET /files/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			c.signal(signals[0])
			c.logged("shutting down")
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			eventually(t, "the end", func() bool {
				// The second signal may arrive before it is handled.
				_ = syscall.Kill(c.pid, signals[1])
				return len(ended) > 0
			})
			var status *exec.ExitError
			if err := <-ended; !errors.As(err, &status) ||
				status.ExitCode() != 128+int(signals[1]) {
				t.Errorf("%v, want status %d", err, 128+int(signals[1]))
			}
		})
	}
}

// The server continues when the program that reads its log has ended.
func TestServerSurvivesClosedLog(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "serve", "--listen", "127.0.0.1:0", "--rtmp", "",
		"--viewer-wait", "0")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stdout, cmd.Stderr = w, w
	var guard childproc.Guard
	if err := guard.Start(cmd); err != nil {
		t.Fatal(err)
	}
	defer guard.Release()
	_ = w.Close()
	log := bufio.NewReader(r)
	addr := ""
	for addr == "" {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(
			`msg=listening address=(\S+)`).FindStringSubmatch(line); m != nil {
			addr = m[1]
		}
	}
	_ = r.Close()
	// The first two are logged.
	for _, path := range []string{"/live/none", "/live/none", "/healthz"} {
		res, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(path, err)
		}
		_ = res.Body.Close()
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The default budget is half of the memory that the process may use, and at least MinMemory.
func TestBudgetOfASmallContainer(t *testing.T) {
	for _, tt := range []struct{ given, most, want int64 }{
		{0, 0, 0}, {0, 1 << 30, 512 << 20}, {0, 100 << 20, server.MinMemory},
		{2 << 30, 1 << 30, 2 << 30}, {1 << 30, 0, 1 << 30},
	} {
		if got := memoryBudget(tt.given, tt.most); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt, got, tt.want)
		}
	}
}

// While the process is replaced ten times, no request is refused: on new connections, on keep-alive
// connections, of viewers, and over RTMP. A viewer's response ends properly.
func TestReplacementRefusesNoClient(t *testing.T) {
	t.Parallel()
	replacements := 10
	if testing.Short() {
		replacements = 3
	}
	rtmp := nettest.FreeAddr(t)
	c := startCommand(t, nil, "--demo", "--listen", "127.0.0.1:0", "--rtmp", rtmp,
		"--drain-timeout", "3s")
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
		loop(&viewers, func() error { // until the end of the stream, which ends with its process
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
		eventually(t, "requests to be served", func() bool {
			return served.Load() > before+20 || t.Failed()
		})
		if i%2 == 0 { // otherwise there would be three at a time
			eventually(t, "the viewers to move", func() bool {
				return viewersAt(c.addr) == 3 || t.Failed()
			})
		}
	}
	eventually(t, "the processes to end", func() bool {
		return strings.Count(c.said(), "msg=stopped") == replacements
	})
	clients.stop.Store(true)
	clients.Wait()
	eventually(t, "the viewers to be back", func() bool {
		return viewersAt(c.addr) == 3 || t.Failed()
	})
	viewers.stop.Store(true)
	c.signal(syscall.SIGTERM)
	viewers.Wait()
	c.logged("msg=stopped")
	if watched.Load() < int64(replacements) {
		t.Errorf("%d viewers saw the end of their stream", watched.Load())
	}
	t.Logf("%d requests were served, and %d viewers saw the end of their stream", served.Load(),
		watched.Load())
}

// clientLoops are clients of a server that repeat their requests until stop.
type clientLoops struct {
	sync.WaitGroup
	stop atomic.Bool
}

// viewersAt returns the number of viewers of a server.
func viewersAt(addr string) (viewers int) {
	for _, s := range (&node{addr: addr}).api().Streams {
		viewers += s.Viewers
	}
	return viewers
}

// A process that cannot serve does not replace the running one.
func TestFailedReplacementKeepsServing(t *testing.T) {
	t.Parallel()
	file := configFile(t, "latency: 20ms\n")
	c := startCommand(t, nil, "--listen", "127.0.0.1:0", "--rtmp=", "--config", file, "--record",
		t.TempDir(), "--blobs", t.TempDir())
	if err := os.WriteFile(file, []byte("latency: soon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.signal(syscall.SIGUSR2)
	c.logged("no other process can replace this one")
	if got := status("http://" + c.addr + "/healthz"); got != http.StatusOK {
		t.Errorf("it answers %d", got)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.replace()
}

// While the process is replaced, with directories for recordings and blobs, all video frames that a
// viewer gets are in a recording, recordings are complete, and no request for a blob fails. A
// process that does not replace another gets neither directory.
func TestReplacementTakesOverDirectories(t *testing.T) {
	t.Parallel()
	records, blobs := t.TempDir(), t.TempDir()
	c := startCommand(t, nil, "--listen", "127.0.0.1:0", "--rtmp=", "--record", records, "--blobs",
		blobs)
	startEncoder(t, "cam", c.addr)
	var clients clientLoops
	var served atomic.Int64
	for i := range 4 {
		clients.Go(func() {
			for n := 0; !clients.stop.Load(); n++ {
				if err := useBlob(c.addr, fmt.Sprint("key", i), n); err != nil {
					t.Error(err)
					return
				}
				served.Add(1)
			}
		})
	}
	var viewers []*watcher
	for range 3 {
		w := watch(t, c.addr, "cam")
		w.sees(2 * groupOf)
		viewers = append(viewers, w)
		body, send := io.Pipe()
		uploaded := make(chan error, 1)
		go func() {
			status, err := put(c.addr, "slow", body)
			if err == nil && status != http.StatusCreated && status != http.StatusNoContent {
				err = fmt.Errorf("status %d", status)
			}
			uploaded <- err
		}()
		_, _ = send.Write(make([]byte, 1<<20))
		before := served.Load()
		c.replace()
		_ = send.Close()
		if err := <-uploaded; err != nil {
			t.Errorf("an upload that was under way: %v", err)
		}
		eventually(t, "blobs to be served", func() bool {
			return served.Load() > before+20 || t.Failed()
		})
	}
	c.replace() // directly: the previous process may not have its directory yet
	last := watch(t, c.addr, "cam")
	last.sees(2 * groupOf)
	clients.stop.Store(true)
	clients.Wait()
	for flag, dir := range map[string]string{"--record": records, "--blobs": blobs} {
		err := execute(t.Context(), io.Discard, io.Discard, "serve", "--listen", "127.0.0.1:0",
			"--rtmp=", flag, dir)
		if err == nil || !strings.Contains(err.Error(), flag+": ") ||
			!strings.Contains(err.Error(), "another process") {
			t.Errorf("another process with %s: %v", flag, err)
		}
	}
	if got := (&node{addr: c.addr}).metric("millrace_recordings_lost_total"); got != 0 {
		t.Errorf("%v fragments are lost", got)
	}
	c.signal(syscall.SIGTERM)
	eventually(t, "the processes to end", func() bool {
		return strings.Count(c.said(), "msg=stopped") == 5
	})
	recorded := recordedPictures(t, records, "cam")
	for i, w := range append(viewers, last) {
		<-w.done
		if w.gaps+w.repeats > 0 || len(w.problems) > 0 {
			t.Errorf("viewer %d: %d gaps, %d repeats, %q", i, w.gaps, w.repeats, w.problems)
		}
		for n := w.last - w.pictures + 1; n <= w.last; n++ {
			if !recorded[n] {
				t.Errorf("viewer %d saw %d video frames up to %d, and %d is not recorded", i,
					w.pictures, w.last, n)
				break
			}
		}
	}
	t.Logf("%d video frames are recorded, and blobs were used %d times", len(recorded),
		served.Load())
}

// put uploads a blob on a new connection.
func put(addr, key string, body io.Reader) (status int, err error) {
	req, err := http.NewRequest(http.MethodPut, "http://"+addr+"/blobs/"+key, body)
	if err != nil {
		return 0, err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// useBlob puts a blob and gets it.
func useBlob(addr, key string, n int) error {
	value := bytes.Repeat([]byte{byte(n)}, 1+n*7919%(256<<10))
	if status, err := put(addr, key, bytes.NewReader(value)); err != nil ||
		status != http.StatusCreated && status != http.StatusNoContent {
		return fmt.Errorf("PUT of %s: %d, %w", key, status, err)
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/blobs/"+key, nil)
	if err != nil {
		return err
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !bytes.Equal(got, value) {
		return fmt.Errorf("GET of %s: %s, %d bytes, want %d, %w", key, res.Status, len(got),
			len(value), err)
	}
	return nil
}

// recordedPictures returns the numbers of an encoder's video frames that are in the recordings of a
// stream. The recordings must have ended, and consist of whole fragments. Within a recording no
// video frame may be missing, and each recording must continue after the previous one.
func recordedPictures(t *testing.T, dir, name string) map[int]bool {
	t.Helper()
	archive, err := record.Open(record.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if st := archive.Stats(); st.Repaired != 0 {
		t.Errorf("%d recordings were unfinished", st.Repaired)
	}
	_ = archive.Close(t.Context())
	files, err := filepath.Glob(filepath.Join(dir, name, "*.mp4"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all, last := make(map[int]bool), -1
	for _, file := range files { // the names are times
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		init := bytes.Index(b, []byte("moof")) - 4
		if init < 0 {
			t.Fatalf("%s has no fragment", file)
		}
		movie, err := mp4.ReadMovie(b[:init])
		if err != nil {
			t.Fatal(err)
		}
		for first, rest := true, b[init:]; len(rest) > 0; {
			f, need, err := movie.ReadFragment(rest)
			if err != nil || need > 0 || f.Size > len(rest) {
				t.Fatalf("%s: at byte %d: %+v, need %d: %v", file, len(b)-len(rest), f, need, err)
			}
			size := len(pictureData(0)) - 5
			for sample := rest[f.Head:f.Size]; len(sample) > 0; sample = sample[size:] {
				number := int(binary.BigEndian.Uint64(sample[5:]) &^ (1 << 63))
				if !bytes.Equal(sample[:size], pictureData(number)[5:]) || number <= last ||
					!first && number != last+1 {
					t.Fatalf("%s: video frame %d after %d", file, number, last)
				}
				all[number], last, first = true, number, false
			}
			rest = rest[f.Size:]
		}
	}
	return all
}

// In a cluster, the process that replaces an owner has the same address. The encoder returns to it,
// and viewers at another node stay.
func TestReplacementInACluster(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	addr := nettest.FreeAddr(t)
	c := startCommand(t, nil, "--listen", addr, "--rtmp=", "--advertise", "http://"+addr,
		"--cluster", redisURL(redis),
		"--cluster-token", clusterToken, "--takeover", "never")
	other := startNodes(t, 1, redisURL(redis))[0]
	startEncoder(t, "cam", addr)
	edge := watch(t, other.addr, "cam")
	edge.sees(groupOf)
	for range 3 {
		c.replace()
		edge.sees(groupOf)
		eventually(t, "one process to be left", func() bool {
			return strings.Count(c.said(), "msg=stopped") == strings.Count(c.said(),
				"another process replaces")
		})
		edge.sees(groupOf)
		here := watch(t, addr, "cam")
		here.sees(groupOf)
		here.stop()
	}
	gaps, repeats, longest := edge.flaws()
	t.Logf("pictures were missing %d times, came again %d times, and the longest pause was %v",
		gaps, repeats, longest)
}

// SIGHUP reads the file again. Tokens and limits change, and settings that cannot change are named.
// An invalid file changes nothing.
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
	name := filepath.Join(nettest.PlainDir(t), "notify")
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
	c := startCommand(t, []string{"NOTIFY_SOCKET=" + name}, "--demo", "--listen", "127.0.0.1:0",
		"--rtmp=", "--config", file)
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
	got := status("http://" + c.addr + "/live/demo.flv?token=two")
	if got != http.StatusServiceUnavailable {
		t.Errorf("a second viewer gets %d", got)
	}
	reload("read-token: three\nlatency: soon\n")
	answers("two", 200)
	c.logged("the one before is in force")
	c.logged(filepath.Base(file) + ":2: latency is") // the log may quote the rest of the path
	write("")
	c.replace()
	told("MAINPID=" + strconv.Itoa(c.pid))
}
