package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
)

const filesWhat = "Files in the page cache over loopback, the server in a process of its own, the clients in this one"

// fileSizes are those of the files: one response leaves with its header, one fills a socket's buffer, one many times over.
var fileSizes = []struct {
	key, name string
	size      int64
}{
	{"16KiB", "16 KiB", 16 << 10},
	{"1MiB", "1 MiB", 1 << 20},
	{"16MiB", "16 MiB", 16 << 20},
}

// recordedSize is the file of the load that is recorded, by its place in fileSizes.
const recordedSize = 1

func filesLength(e Effort) time.Duration {
	turns := len(fileSizes) * len(fileHandlers) * e.Rounds
	return time.Duration(turns)*e.FilesTurn + 2*e.Record
}

func runFiles(ctx context.Context, s *session) error {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	servers, stop, err := startFileServers(s.cfg, dir)
	if err != nil {
		return err
	}
	for i, f := range fileSizes {
		if err = makeFile(filepath.Join(dir, f.key), f.size); err == nil {
			err = s.runFile(ctx, i, servers)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = s.recordFiles(ctx, servers)
	}
	return errors.Join(err, stop())
}

// startFileServers starts one for each handler. They run until stop: a server that is not asked costs nothing.
func startFileServers(cfg Config, dir string) (servers []*process, stop func() error, err error) {
	stop = func() (err error) {
		for _, p := range servers {
			err = errors.Join(err, p.stop())
		}
		return err
	}
	for _, h := range fileHandlers {
		p, err := cfg.startProcess(order{Handler: h.key, Dir: dir})
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("%s: %w", h.name, err), stop())
		}
		servers = append(servers, p)
	}
	return servers, stop, nil
}

// makeFile makes a file of random bytes, the same ones each time.
func makeFile(name string, size int64) error {
	p := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(p)
	return os.WriteFile(name, p, 0o600)
}

// A filesTurn is a server under load for a while.
type filesTurn struct {
	rate float64 // requests a second
	cpu  float64 // CPU seconds of the server for 10^9 bytes
}

func (s *session) runFile(ctx context.Context, file int, servers []*process) error {
	turns := make([][]filesTurn, len(servers))
	err := inTurns(ctx, s.effort.Rounds, len(servers), func(_, i int) error {
		t, err := s.filesTurn(ctx, file, servers[i])
		if err != nil {
			return fmt.Errorf("%s: %w", fileHandlers[i].name, err)
		}
		turns[i] = append(turns[i], t)
		s.step("files of "+fileSizes[file].name, s.effort.FilesTurn)
		return nil
	})
	s.reportFiles(file, turns)
	return err
}

func (s *session) filesTurn(ctx context.Context, file int, p *process) (filesTurn, error) {
	f := fileSizes[file]
	d, err := openDownloads(ctx, p.addr, f.key, f.size, s.effort.Clients, nil)
	if err != nil {
		return filesTurn{}, err
	}
	defer d.close()
	before, err := p.cpu()
	if err != nil {
		return filesTurn{}, err
	}
	got, err := d.fetch(ctx, s.effort.FilesTurn)
	if err != nil {
		return filesTurn{}, err
	}
	after, err := p.cpu()
	return filesTurn{
		rate: float64(got.requests) / got.took.Seconds(),
		cpu:  (after - before).Seconds() / (float64(got.requests*f.size) / 1e9),
	}, err
}

// reportFiles adds the figures of the rounds that all servers have done.
func (s *session) reportFiles(file int, turns [][]filesTurn) {
	rounds := complete(turns)
	if rounds == 0 {
		return
	}
	f := fileSizes[file]
	for _, m := range []struct {
		key, what, unit string
		better          Better
		of              func(filesTurn) float64
	}{
		{"rate", "requests a second", "requests/s", Higher, func(t filesTurn) float64 { return t.rate }},
		{"cpu", "the server's CPU time", "CPU s/GB", Lower, func(t filesTurn) float64 { return t.cpu }},
	} {
		all := make([]Measured, len(turns))
		for i := range turns {
			values := make(Series, rounds)
			for r := range values {
				values[r] = m.of(turns[i][r])
			}
			all[i] = measured(fileHandlers[i].name, values)
		}
		for i, rival := range fileHandlers[1:] {
			figure := Figure{
				Name: "files/" + f.key + "-" + m.key + "/" + rival.key, Suite: s.suite,
				What: fmt.Sprintf("%s, %d connections: %s", f.name, s.effort.Clients, m.what), Unit: m.unit, Better: m.better,
				Measured: all[0],
			}
			figure.against(all[i+1])
			s.add(figure)
		}
	}
}

// recordFiles has ours and the first rival under load once more, and records them.
func (s *session) recordFiles(ctx context.Context, servers []*process) error {
	f := fileSizes[recordedSize]
	for i := range 2 {
		d, err := openDownloads(ctx, servers[i].addr, f.key, f.size, s.effort.Clients, nil)
		if err != nil {
			return err
		}
		d.record = new(observe.Latencies)
		err = s.recordServer(servers[i], Recording{
			Suite: s.suite, Key: fileHandlers[i].key, Contender: fileHandlers[i].name,
			What: fmt.Sprintf("Files of %s to %d connections", f.name, s.effort.Clients), Operation: "requests",
		}, d.record.Load, func() error {
			_, err := d.fetch(ctx, s.effort.Record)
			return err
		})
		d.close()
		if err != nil {
			return err
		}
		s.step("recording", s.effort.Record)
	}
	return nil
}
