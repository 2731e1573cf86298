package soak

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
)

// redisPrograms are the servers that are looked for in the path.
var redisPrograms = []string{"redis-server", "valkey-server"}

// startRedis starts a Redis on a Unix socket in dir that keeps nothing on disk. It returns nil, and no error, if none is
// installed.
func startRedis(ctx context.Context, dir string) (c *child, url string, err error) {
	for _, name := range redisPrograms {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		socket := filepath.Join(dir, "redis.sock")
		c, err := startChild(filepath.Join(dir, "redis.log"), nil, program,
			"--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
		if err != nil {
			return nil, "", err
		}
		if err := awaitSocket(ctx, c, socket); err != nil {
			defer c.close()
			return nil, "", fmt.Errorf("soak: %s: %w\n%s", name, err, c.tail())
		}
		return c, "unix://" + socket, nil
	}
	return nil, "", nil
}

func awaitSocket(ctx context.Context, c *child, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			return conn.Close()
		}
		if dead := c.alive(); dead != nil {
			return dead
		}
		if !pause(ctx, pollEvery) {
			return err
		}
	}
}
