package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/sleep"
)

const (
	// timeout is the time limit for short operations, such as connecting. It is long enough for a
	// busy machine.
	timeout   = time.Minute
	pollEvery = 20 * time.Millisecond
	// smallWindow is the size in bytes of the viewers' receive buffers, and the value of the
	// server's --unsent flag. It is small, so that a server soon notices that a viewer stalls.
	smallWindow = 32 << 10
)

// A target is a server and the HTTP clients that connect to it. The server is restarted now and
// then.
type target struct {
	*run
	name  string
	dir   string // directory of its log
	flags []string
	blobs []*blob

	http1, http2 *http.Client // for viewers
	requests     *http.Client // for all other requests

	// Only the goroutine of the cycle uses these fields.
	proc   *process
	rules  []rule
	points []point // quiet points of proc

	mu    sync.Mutex
	url   string
	admin string
	up    context.Context // ends when proc is being stopped
	down  context.CancelFunc
}

func newTarget(r *run, name, dir string, rules []rule, flags []string) *target {
	return &target{
		run: r, name: name, dir: dir, rules: rules, flags: flags, blobs: newBlobs(name),
		http1: newClient(smallWindow, false), http2: newClient(smallWindow, true),
		requests: newClient(0, false),
	}
}

// newClient returns a client with receive buffers of window bytes, or of the default size if window
// is 0.
func newClient(window int, http2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Client{Transport: authorized{&http.Transport{
		Protocols:             protocols,
		HTTP2:                 &http.HTTP2Config{MaxReceiveBufferPerStream: window},
		DisableCompression:    true,
		MaxIdleConnsPerHost:   32,
		ExpectContinueTimeout: timeout,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
			if tcp, ok := conn.(*net.TCPConn); ok && window > 0 {
				err = tcp.SetReadBuffer(window)
			}
			return conn, err
		},
	}}}
}

// token lets clients publish and write at an address that other machines could reach.
const token = "soak"

// An authorized transport sends the token.
type authorized struct{ *http.Transport }

func (a authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return a.Transport.RoundTrip(req)
}

func (t *target) hangUp() {
	for _, c := range []*http.Client{t.http1, t.http2, t.requests} {
		c.CloseIdleConnections()
	}
}

// start launches a server process and waits until the server listens. The server's timeouts are too
// long to expire on a busy machine. Its lag limit is short, so that it skips tags for viewers that
// stall.
func (t *target) start(ctx context.Context) error {
	args := []string{t.cfg.Program, "serve", "--listen", net.JoinHostPort(t.cfg.Hosts.Server, "0"),
		"--admin", "127.0.0.1:0", "--log-format", "json", "--publish-token", token,
		"--drain-timeout", "1s", "--stall-timeout", "1m", "--header-timeout", "1m", "--lag-time",
		"500ms",
		"--unsent", fmt.Sprint(smallWindow), "--publisher-return", "0s"}
	proc, err := startProcess(t.logName(), t.cfg.Env, append(args, t.flags...)...)
	if err != nil {
		return err
	}
	var port, admin string
	for deadline := time.Now().Add(timeout); port == "" || admin == ""; {
		if err = proc.alive(); err == nil && time.Now().After(deadline) {
			err = errors.New("it has not said where it listens")
		} else if err == nil && !sleep.For(ctx, pollEvery) {
			err = ctx.Err()
		}
		if err != nil {
			err = fmt.Errorf("server %s: %w\n%s", t.name, err, proc.tail())
			proc.kill()
			return err
		}
		proc.eachLine(func(l logLine, _ []byte) {
			switch l.Message {
			case "listening":
				_, port, _ = net.SplitHostPort(l.Address)
			case "admin listening":
				admin = "http://" + l.Address
			}
		})
	}
	t.proc, t.points = proc, nil
	t.mu.Lock()
	defer t.mu.Unlock()
	t.url, t.admin = "http://"+net.JoinHostPort(t.cfg.Hosts.Others, port), admin
	t.up, t.down = context.WithCancel(context.Background())
	return nil
}

// await waits until the server runs. It returns the address of the server, and a context that ends
// when the process is being stopped.
func (t *target) await(ctx context.Context) (url string, up context.Context, err error) {
	for {
		t.mu.Lock()
		url, up := t.url, t.up
		t.mu.Unlock()
		if up != nil && up.Err() == nil {
			return url, up, nil
		}
		if !sleep.For(ctx, pollEvery) {
			return "", nil, ctx.Err()
		}
	}
}

func (t *target) restart(ctx context.Context, sig syscall.Signal) error {
	t.down()
	var err error
	if sig == syscall.SIGTERM {
		t.done.add(bySIGTERM, 1)
		err = t.proc.terminate()
	} else {
		t.done.add(bySIGKILL, 1)
		err = t.proc.alive()
	}
	if err == nil {
		err = t.proc.complaint()
	}
	t.proc.kill()
	t.hangUp()
	return errors.Join(err, t.start(ctx))
}

func (t *target) stop() {
	if t.proc != nil {
		t.down()
		t.proc.kill()
	}
	t.hangUp()
}

func (t *target) logName() string { return filepath.Join(t.dir, t.name+".log") }

func (t *target) keepLog(dir string) error {
	text, err := os.ReadFile(t.logName())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, t.name+".log"), text, 0o600)
}

// A process is a server process. Its output is appended to log.
type process struct {
	*measure.Process
	log  *os.File
	read int64 // number of bytes of log that were read
}

func startProcess(logName string, env []string, args ...string) (*process, error) {
	out, err := os.OpenFile(logName, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{log: out}
	if p.read, err = out.Seek(0, io.SeekEnd); err == nil {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = out, out
		p.Process, err = measure.Start(cmd)
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return p, nil
}

func (p *process) alive() error {
	select {
	case <-p.Ended:
		return fmt.Errorf("the process has ended by itself (%v)", p.Cmd.ProcessState)
	default:
		return nil
	}
}

// terminate sends SIGTERM. It returns an error unless the process ends with exit status 0.
func (p *process) terminate() error {
	err := p.alive()
	if err == nil {
		if err = p.Stop(timeout); err != nil {
			err = fmt.Errorf("after SIGTERM: %w", err)
		}
	}
	return err
}

// kill kills the process and waits until it has ended. It may be called more than once.
func (p *process) kill() {
	p.Kill()
	_ = p.log.Close()
}

type logLine struct {
	Level   string `json:"level"`
	Message string `json:"msg"`
	Address string `json:"address"`
}

// eachLine calls f with each complete line that was added to the log since the last call.
func (p *process) eachLine(f func(l logLine, text []byte)) {
	r := bufio.NewReader(io.NewSectionReader(p.log, p.read, 1<<62-p.read))
	for {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return // the next call reads the incomplete line
		}
		p.read += int64(len(text))
		var l logLine
		_ = json.Unmarshal(text, &l) // the text of a panic is not JSON
		f(l, text)
	}
}

// complaint reads the new lines of the log. It returns an error with the first line that reports a
// server fault, such as a panic.
func (p *process) complaint() (err error) {
	p.eachLine(func(l logLine, text []byte) {
		if err == nil && (l.Level == "ERROR" || bytes.HasPrefix(text, []byte("panic:")) ||
			bytes.HasPrefix(text, []byte("fatal error:")) ||
			bytes.Contains(text, []byte("DATA RACE"))) {
			err = fmt.Errorf("its log says: %s", bytes.TrimSpace(text))
		}
	})
	return err
}

func (p *process) tail() string {
	text, _ := io.ReadAll(io.NewSectionReader(p.log, 0, 1<<62))
	return string(text[max(0, len(text)-4<<10):])
}
