package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
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

// redisPatience is how long somebody's Redis may take to answer.
const redisPatience = 10 * time.Second

// pingRedis returns an error if the Redis of cfg does not answer. The error has no password in it.
func pingRedis(ctx context.Context, cfg *Config) error {
	opt, err := redis.ParseURL(cfg.Redis)
	if err != nil {
		return errors.New("soak: --redis is no URL of a Redis")
	}
	if opt.Password == "" {
		opt.Password = cfg.RedisPassword
	}
	opt.MaxRetries, opt.DialerRetries = -1, 1
	// Only Redis Enterprise knows of such notifications.
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	rdb := redis.NewClient(opt)
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("soak: --redis does not answer: %w", err)
	}
	return nil
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
