package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	goredis "github.com/redis/go-redis/v9"
)

// A Server is a redis-server that runs for the benchmark, in a directory of its own, on loopback.
type Server struct {
	Network, Addr string // where clients dial
	Dir           string // that is removed in the end
	Version       string // of redis-server

	cmd *exec.Cmd
}

// ErrNoServer says that redis-server is not installed.
var ErrNoServer = measure.Missing("redis-server", "redis-server")

// startWithin is how long a server may take to answer.
const startWithin = 5 * time.Second

// StartServer starts a server on a free port or, if unix is set, on a socket in its directory. It keeps nothing on disk.
func StartServer(ctx context.Context, unix bool) (*Server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoServer
	}
	dir, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{Network: "tcp", Dir: dir, Version: version(path)}
	args := []string{"--save", "", "--appendonly", "no", "--dir", dir, "--bind", "127.0.0.1", "--daemonize", "no"}
	if unix {
		s.Network, s.Addr = "unix", filepath.Join(dir, "redis.sock")
		args = append(args, "--port", "0", "--unixsocket", s.Addr)
	} else {
		port, err := freePort()
		if err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		args = append(args, "--port", port)
	}
	s.cmd = exec.Command(path, args...)
	s.cmd.SysProcAttr = dieWithParent()
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("redis: %w", err)
	}
	if err := s.await(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// version is what a server calls itself, in two words.
func version(path string) string {
	out, _ := exec.Command(path, "--version").Output() // "Redis server v=7.0.15 sha=..."
	for _, word := range bytes.Fields(out) {
		if v, ok := bytes.CutPrefix(word, []byte("v=")); ok {
			return "redis-server " + string(v)
		}
	}
	return "redis-server"
}

// freePort is a port that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// await waits until the server answers.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	rdb := goredis.NewClient(&goredis.Options{Network: s.Network, Addr: s.Addr})
	defer rdb.Close()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redis: %s does not answer: %w", s.Addr, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop ends the server and removes what it had.
func (s *Server) Stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(5*time.Second, func() { s.cmd.Process.Kill() })
	defer kill.Stop()
	s.cmd.Wait()
	os.RemoveAll(s.Dir)
}

// site prepares the server for values of a size: one that can be read, also as a file. Sink may be empty.
func (s *Server) site(ctx context.Context, size int, sink string) (*Site, error) {
	site := &Site{Network: s.Network, Addr: s.Addr, Size: size, Sink: sink, File: filepath.Join(s.Dir, "value")}
	value := site.value()
	if err := os.WriteFile(site.File, value, 0o600); err != nil {
		return nil, err
	}
	rdb := newGoRedis(site)
	defer rdb.Close()
	return site, rdb.Set(ctx, key, value, 0).Err()
}
