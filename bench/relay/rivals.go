package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

// The versions of the relays that npm and cargo install.
const (
	nodeVersion = "4.4.3"
	xiuVersion  = "0.14.0"
)

// installTime is the time limit for one installation. Cargo builds some 400 crates for xiu.
const installTime = 30 * time.Minute

func cached(pkg, file string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s %w: %w", pkg, measure.ErrMissing, err)
	}
	return filepath.Join(cache, "millrace-bench", pkg, file), nil
}

// install puts a package in the user's cache directory, unless the given file of the package
// already exists. The function installCmd returns the command line that installs the package in
// dir. If the command is missing or fails, the error wraps measure.ErrMissing.
func install(ctx context.Context, pkg, file string, installCmd func(dir string) []string) error {
	path, err := cached(pkg, file)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	dir, err := cached(pkg, "")
	if err != nil {
		return err
	}
	part := dir + ".part"
	line := installCmd(part)
	if _, err := exec.LookPath(line[0]); err != nil {
		return fmt.Errorf("%s %w: %w", pkg, measure.ErrMissing, err)
	}
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "relay: %s installs %s to %s, once\n", line[0], pkg, dir)
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	if msg, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %w: %s: %w: %s", pkg, measure.ErrMissing, line[0], err,
			msg[max(0, len(msg)-1000):])
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

func ports(n int) (all []json.Number, err error) {
	for range n {
		addr, err := measure.FreeAddr()
		if err != nil {
			return nil, err
		}
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		all = append(all, json.Number(port))
	}
	return all, nil
}

// node returns a contender that runs Node-Media-Server as an RTMP server. The console, passwords
// and recordings are off. Other settings have their defaults.
func node() contender {
	const (
		pkg = "node-media-server-" + nodeVersion
		app = "node_modules/node-media-server/bin/app.js"
	)
	return contender{
		name: "node-media-server " + nodeVersion, in: rtmpName, out: rtmpName,
		prepare: func(ctx context.Context) error {
			if _, err := measure.Find("node", "nodejs npm"); err != nil {
				return err
			}
			return install(ctx, pkg, app, func(dir string) []string {
				return []string{"npm", "install", "--no-audit", "--no-fund", "--prefix", dir,
					"node-media-server@" + nodeVersion}
			})
		},
		start: func(ctx context.Context, dir string, c load.Config) (*instance, error) {
			port, err := ports(1)
			if err != nil {
				return nil, err
			}
			config, err := json.Marshal(map[string]any{
				"bind":   "127.0.0.1",
				"rtmp":   map[string]any{"port": port[0]},
				"auth":   map[string]any{"play": false, "publish": false},
				"store":  map[string]any{"path": filepath.Join(dir, "data")},
				"record": map[string]any{"auto": false},
			})
			if err != nil {
				return nil, err
			}
			conf := filepath.Join(dir, "node.json")
			if err := os.WriteFile(conf, config, 0o644); err != nil {
				return nil, err
			}
			path, err := cached(pkg, app)
			if err != nil {
				return nil, err
			}
			addr := "127.0.0.1:" + port[0].String()
			s, err := measure.StartServer(ctx, addr,
				exec.Command("node", path, "--no-admin", "-c", conf))
			c.Protocol = &rtmp.Server{Addr: addr}
			return &instance{s, c}, err
		},
	}
}

// xiuConf is xiu's example config_rtmp.toml with the log switched off. The HTTP API cannot be
// switched off.
const xiuConf = `[rtmp]
enabled = true
port = %s

[httpapi]
port = %s

[authsecret]
key = ""
password = ""

[log]
level = "off"
`

// xiu returns a contender that runs xiu, an RTMP server written in Rust.
func xiu() contender {
	const (
		pkg = "xiu-" + xiuVersion
		bin = "bin/xiu"
	)
	return contender{
		name: "xiu " + xiuVersion, in: rtmpName, out: rtmpName,
		prepare: func(ctx context.Context) error {
			return install(ctx, pkg, bin, func(dir string) []string {
				return []string{"cargo", "install", "--quiet", "--root", dir, "--version",
					xiuVersion, "xiu"}
			})
		},
		start: func(ctx context.Context, dir string, c load.Config) (*instance, error) {
			port, err := ports(2)
			if err != nil {
				return nil, err
			}
			conf := filepath.Join(dir, "xiu.toml")
			if err := os.WriteFile(conf, fmt.Appendf(nil, xiuConf, port[0], port[1]),
				0o644); err != nil {
				return nil, err
			}
			path, err := cached(pkg, bin)
			if err != nil {
				return nil, err
			}
			addr := "127.0.0.1:" + port[0].String()
			s, err := measure.StartServer(ctx, addr, exec.Command(path, "-c", conf))
			c.Protocol = retryProtocol{&rtmp.Server{Addr: addr}}
			return &instance{s, c}, err
		},
	}
}

// A retryProtocol is for a server that disconnects viewers if the stream does not exist yet. The
// viewers connect again until they receive a tag.
type retryProtocol struct{ load.Protocol }

const retryDelay = 100 * time.Millisecond

func (p retryProtocol) Watch(ctx context.Context, name string) (load.Subscription, error) {
	for {
		s, err := p.Protocol.Watch(ctx, name)
		if err == nil {
			begun := &begunSubscription{Subscription: s, waits: true}
			if err := s.Next(&begun.first); err == nil {
				return begun, nil
			}
			s.Close()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(retryDelay):
		}
	}
}

// A begunSubscription is a Subscription from which Watch has already read the first tag.
type begunSubscription struct {
	load.Subscription
	first load.Arrival
	waits bool // whether Next must still return the first tag
}

func (s *begunSubscription) Next(a *load.Arrival) error {
	if s.waits {
		*a, s.waits = s.first, false
		return nil
	}
	return s.Subscription.Next(a)
}
