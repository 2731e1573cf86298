package soak

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"
)

// Bounds of a run. They keep a typing error from becoming an attack on one's own machine.
const (
	minFor     = 3 * time.Second
	maxFor     = 7 * 24 * time.Hour
	maxStreams = 100
	maxViewers = 1000
	minRate    = 200_000
	maxRate    = 100_000_000
)

const (
	// A run has thirty quiet points, which is enough to tell a trend from noise. But a cycle gives clients time to come,
	// stall and catch up, and a long run should not take long to say that something is wrong.
	cyclesWanted = 30
	minCycle     = time.Second
	maxCycle     = 15 * time.Second

	// Restarts take place in the first part of a run. What is left is one life of each server, as long as may be.
	restartPart = 1.0 / 3
)

// Config says what a run consists of.
type Config struct {
	Program []string // how a server is started: path and arguments, to which its flags are added
	Env     []string // added to its environment, as in NAME=value

	For     time.Duration
	Seed    uint64 // seed of the random choices
	Streams int    // to each server; the last of them is plain bytes, the others FLV
	Viewers int    // of each stream; a quarter of them stalls, another comes and goes
	Rate    int    // of a stream, in bits a second
	Redis   string // URL of a Redis that a second server keeps its blobs in; empty: one is started, if it is installed
	// RedisPassword is for Redis if its URL has none. The servers have it from their environment.
	RedisPassword string
	Keep          string // a directory for the servers' logs if the run fails; empty: they are lost

	Cycles     int           // the run ends after so many; 0: when For is over
	Cycle      time.Duration // 0: a thirtieth of For, between 1 s and 15 s
	Settle     time.Duration // how long a quiet point may take to come
	NoRedis    bool          // there is no second server
	NoRestarts bool
}

// Defaults returns the configuration of a run that was asked for nothing special. Program is the caller's to say.
func Defaults() Config {
	return Config{
		For:  10 * time.Minute,
		Seed: 1,
		// What two processors carry while they do something else, clients and servers together.
		Streams: 3,
		Viewers: 8,
		Rate:    4_000_000,
		// Far more than it takes on a machine that is busy with other things. Only a leak waits so long.
		Settle: 30 * time.Second,
	}
}

func (c *Config) check() error {
	for _, b := range []struct {
		flag          string
		val, min, max int64
	}{
		{"streams", int64(c.Streams), 1, maxStreams},
		{"viewers", int64(c.Viewers), 1, maxViewers},
		{"rate", int64(c.Rate), minRate, maxRate},
	} {
		if b.val < b.min || b.val > b.max {
			return fmt.Errorf("soak: --%s is %d, want %d to %d", b.flag, b.val, b.min, b.max)
		}
	}
	if c.For < minFor || c.For > maxFor {
		return fmt.Errorf("soak: --for is %v, want %v to %v", c.For, minFor, maxFor)
	}
	if c.Redis != "" {
		if u, err := url.Parse(c.Redis); err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" {
			return fmt.Errorf("soak: --redis is no redis://, rediss:// or unix:// URL")
		}
	}
	if len(c.Program) == 0 {
		return fmt.Errorf("soak: no program to start")
	}
	if c.Cycle == 0 {
		c.Cycle = min(max(c.For/cyclesWanted, minCycle), maxCycle)
	}
	return nil
}

// reach looks whether what the run needs from outside is there, before it begins: afterwards hours may be lost.
func (c *Config) reach(ctx context.Context) error {
	if c.Keep != "" {
		if err := makeWritable(c.Keep); err != nil {
			return fmt.Errorf("soak: --keep: %w", err)
		}
	}
	if c.Redis != "" && !c.NoRedis {
		return pingRedis(ctx, c)
	}
	return nil
}

// makeWritable makes a directory if there is none, and returns an error if no file can be put there.
func makeWritable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".millrace-soak-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
