package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// nodePackage is what npm installs.
const nodePackage = "node-media-server@4.4.3"

// Node is Node-Media-Server over HTTP-FLV, with its defaults but for the console and what asks for a password.
type Node struct{ Builder Builder }

// Name implements Contender.
func (Node) Name() string { return "node-media-server" }

// Prepare installs the package from the npm registry, for this run.
func (n Node) Prepare(ctx context.Context) error {
	for _, program := range []string{"node", "npm"} {
		if _, err := measure.Find(program, "nodejs npm"); err != nil {
			return err
		}
	}
	install := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--prefix", n.dir(), nodePackage)
	if msg, err := install.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(msg), "\n")
		return fmt.Errorf("%s %w: npm install: %v: %s", nodePackage, measure.ErrMissing, err, first)
	}
	return nil
}

func (n Node) dir() string { return filepath.Join(n.Builder.Dir, "node") }

// Start implements Contender.
func (n Node) Start(ctx context.Context, dir string, _ Case) (*Server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"bind":  "127.0.0.1",
		"http":  map[string]any{"port": number},
		"auth":  map[string]any{"play": false, "publish": false},
		"store": map[string]any{"path": filepath.Join(dir, "data")},
	})
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "node.json")
	if err := os.WriteFile(conf, config, 0o644); err != nil {
		return nil, err
	}
	app := filepath.Join(n.dir(), "node_modules", "node-media-server", "bin", "app.js")
	s, err := start(ctx, addr, "node", app, "--no-admin", "-c", conf)
	if err != nil {
		return nil, err
	}
	s.Config.URL = "http://" + addr
	s.Config.Ending = ".flv"
	return s, nil
}
