package redis

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

type server struct {
	*measure.Server
	dir     string // removed by stop
	version string
}

// startServer starts a server on a free port. The server saves nothing to disk.
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

// version returns a server's name and version, such as "redis-server 7.0.15".
func version(path string) string {
	out, _ := exec.Command(path, "--version").Output() // prints "Redis server v=7.0.15 sha=..."
	for _, word := range strings.Fields(string(out)) {
		if v, ok := strings.CutPrefix(word, "v="); ok {
			return "redis-server " + v
		}
	}
	return "redis-server"
}

// newFixture stores a value of the given size on the server and connects the clients. The caller
// must close the fixture.
func (s *server) newFixture(ctx context.Context, size int) (*fixture, error) {
	f := &fixture{addr: s.Addr, size: size}
	err := f.open()
	if err == nil {
		err = f.goredis.Set(ctx, key, f.value(), 0).Err()
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}
