package measure

import (
	"context"
	"net"
	"os/exec"
)

// StartRedis starts a redis-server at addr, a loopback address, with the working directory dir. The
// server saves nothing to disk.
func StartRedis(ctx context.Context, dir, addr string) (*Server, error) {
	path, err := Find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return StartServer(ctx, addr, exec.Command(path, "--save", "", "--appendonly", "no", "--dir",
		dir, "--bind", host, "--daemonize", "no", "--port", port))
}
