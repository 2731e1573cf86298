package relay

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Millrace is millrace serve with a latency bound.
type Millrace struct {
	Builder Builder
	Latency time.Duration
	Args    []string // more of them, for serve
}

// Name implements Contender.
func (m Millrace) Name() string { return fmt.Sprintf("millrace, %v", m.Latency) }

// Prepare builds the server.
func (m Millrace) Prepare(ctx context.Context) error {
	_, err := m.build(ctx)
	return err
}

func (m Millrace) build(ctx context.Context) (string, error) {
	return m.Builder.Build(ctx, "github.com/millrace-io/millrace/cmd/millrace")
}

// Start implements Contender.
func (m Millrace) Start(ctx context.Context, _ string, _ Case) (*Server, error) {
	bin, err := m.build(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--listen", addr, "--latency", m.Latency.String(), "--log-level", "warn"}, m.Args...)
	s, err := start(ctx, addr, bin, args...)
	if err != nil {
		return nil, err
	}
	s.Config.URL = "http://" + addr
	s.Metrics = "http://" + addr + "/metrics"
	return s, nil
}

// countedBehind reads from millrace's metrics how often viewers were found too far behind, what became of them, and why.
func countedBehind(ctx context.Context, metrics string) (map[string]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, metrics, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	counted := make(map[string]int)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		metric, reason, _ := strings.Cut(strings.TrimSuffix(name, `"}`), `{reason="`)
		what, ok := map[string]string{
			"millrace_viewers_behind_total":  "found behind",
			"millrace_viewers_dropped_total": "dropped",
			"millrace_frames_lost_total":     "frames passed over",
		}[metric]
		if n, err := strconv.Atoi(value); ok && err == nil && n > 0 {
			counted[what+" ("+reason+")"] = n
		}
	}
	return counted, lines.Err()
}
