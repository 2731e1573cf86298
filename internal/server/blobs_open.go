package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/blob"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// pingTimeout is how long a server waits for Redis before it begins without: streams and files need none.
const pingTimeout = 2 * time.Second

// dials is how often a call tries to connect. Calls are tried again as well, so that a client need not wait for more.
const dials = 1

// openVault returns nil if the configuration names no store. The call that ends a vault's life is close.
func openVault(s *Server) (*vault, error) {
	cfg := &s.cfg
	switch {
	case cfg.Blobs != "":
		d, err := blob.OpenDirectory(cfg.Blobs)
		if err != nil {
			return nil, fmt.Errorf("--blobs: %w", err)
		}
		return newVault(s, d, cfg.Blobs), nil
	case cfg.Redis == "" && cfg.RedisCluster == "":
		return nil, nil
	}
	rdb, where, err := cfg.redisClient()
	if err != nil {
		return nil, err
	}
	store, err := blob.OpenRedis(rdb, cfg.RedisPrefix)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if err := store.Ping(ctx); err != nil {
		s.log.Warn("Redis cannot be used: blobs get 503 until it can", "redis", where, "reason", err)
	}
	return newVault(s, store, where), nil
}

// redisClient returns a client for --redis or --redis-cluster, and a name for the log, which has no password.
func (c *Config) redisClient() (redis.UniversalClient, string, error) {
	// Only Redis Enterprise knows of such notifications.
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if c.RedisCluster == "" {
		opt, err := redis.ParseURL(c.Redis)
		if err != nil {
			return nil, "", fmt.Errorf("--redis: %w: want redis://HOST:PORT, rediss:// or unix://", withoutURL(err))
		}
		if opt.Password == "" {
			opt.Password = c.RedisPassword
		}
		opt.MaintNotificationsConfig, opt.DialerRetries = quiet, dials
		return redis.NewClient(opt), "redis://" + opt.Addr, nil
	}
	opt := &redis.ClusterOptions{Addrs: strings.Split(c.RedisCluster, ",")}
	if strings.Contains(c.RedisCluster, "://") {
		var err error
		if opt, err = redis.ParseClusterURL(c.RedisCluster); err != nil {
			return nil, "", fmt.Errorf("--redis-cluster: %w: want HOST:PORT,… or redis://HOST:PORT?addr=…", withoutURL(err))
		}
	}
	if opt.Password == "" {
		opt.Password = c.RedisPassword
	}
	opt.MaintNotificationsConfig, opt.DialerRetries = quiet, dials
	return redis.NewClusterClient(opt), "cluster " + strings.Join(opt.Addrs, ","), nil
}

// withoutURL leaves a URL, which may hold a password, out of the error of parsing it.
func withoutURL(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// checkBlobs refuses what cannot work, naming the field by its flag.
func (c *Config) checkBlobs() error {
	stores := 0
	for _, s := range []string{c.Blobs, c.Redis, c.RedisCluster} {
		if s != "" {
			stores++
		}
	}
	switch {
	case stores > 1:
		return errors.New("--blobs, --redis and --redis-cluster are places for the same blobs: want one of them")
	case c.MaxBlobBytes > maxMaxBlobBytes:
		return fmt.Errorf("--max-blob-bytes is %d, want at most %d", c.MaxBlobBytes, int64(maxMaxBlobBytes))
	case c.Blobs == "" && stores > 0 && c.MaxBlobBytes > blob.MaxRedisValue:
		return fmt.Errorf("--max-blob-bytes is %d, and Redis takes %d at most", c.MaxBlobBytes, blob.MaxRedisValue)
	}
	return nil
}

// maxMaxBlobBytes is more than any disk has, and can be added to.
const maxMaxBlobBytes = 1 << 60
