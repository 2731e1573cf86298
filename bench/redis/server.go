package redis

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// A server is a redis-server for the benchmark, in a new directory, on loopback.
type server struct {
	*measure.Server
	dir     string // removed in the end
	version string
}

// startServer starts a server on a free port. It keeps nothing on disk.
func startServer(ctx context.Context) (*server, error) {
	path, err := measure.Find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	addr, err := measure.FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, version: version(path)}
	s.Server, err = measure.StartRedis(ctx, dir, addr)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	s.Stop()
	os.RemoveAll(s.dir)
}

// version returns a server's name and version, in two words.
func version(path string) string {
	out, _ := exec.Command(path, "--version").Output() // "Redis server v=7.0.15 sha=..."
	for _, word := range strings.Fields(string(out)) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			return "redis-server " + v
		}
	}
	return "redis-server"
}

// site prepares the server for values of a size: one that can be read. The caller closes it.
func (s *server) site(ctx context.Context, size int) (*site, error) {
	site := &site{addr: s.Addr, size: size}
	err := site.open()
	if err == nil {
		err = site.goredis.Set(ctx, key, site.value(), 0).Err()
	}
	if err != nil {
		site.close()
		return nil, err
	}
	return site, nil
}
