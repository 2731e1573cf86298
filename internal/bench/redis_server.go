package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

// A redisServer is a redis-server that runs for the benchmark, in a directory of its own, and keeps nothing on disk.
type redisServer struct {
	socket  string
	version string

	dir  string
	cmd  *exec.Cmd
	said complaint
}

const (
	// redisWithin is how long the server may take to answer.
	redisWithin = 10 * time.Second
	// redisMemory bounds what it keeps: a few values of each size.
	redisMemory = "256mb"
)

func startRedis(ctx context.Context) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, &missingError{"redis-server is not installed (Debian: apt install redis-server, macOS: brew install redis)"}
	}
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return nil, err
	}
	s := &redisServer{dir: dir, socket: filepath.Join(dir, "redis.sock"), version: redisVersion(path)}
	s.cmd = exec.Command(path, "--port", "0", "--unixsocket", s.socket, "--unixsocketperm", "700", "--save", "",
		"--appendonly", "no", "--daemonize", "no", "--dir", dir, "--maxmemory", redisMemory)
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	s.cmd.SysProcAttr = endsWithParent()
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		s.stop() // nothing writes to said any more
		return nil, fmt.Errorf("%w\n%s", err, &s.said)
	}
	return s, nil
}

// redisVersion is what a server calls itself, in two words.
func redisVersion(path string) string {
	out, _ := exec.Command(path, "--version").Output() // "Redis server v=7.0.15 sha=..."
	for _, word := range bytes.Fields(out) {
		if v, ok := bytes.CutPrefix(word, []byte("v=")); ok {
			return "redis-server " + string(v)
		}
	}
	return "redis-server"
}

// await waits until the server answers.
func (s *redisServer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisWithin)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket, MaxRetries: -1})
	defer rdb.Close()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redis-server does not answer: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the server and removes what it had.
func (s *redisServer) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(stopWithin, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}
