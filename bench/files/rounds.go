package files

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/internal/crossover"
)

// longFrom is the size from which a file is so large that a turn must be long
// for every connection to get through one.
const longFrom = 64 << 20

// A Plan is a benchmark: every contender does every round of every case, in
// turns.
type Plan struct {
	Cases       []Case
	Contenders  []Contender
	Rounds      int
	Seconds     int    // of a turn
	LongSeconds int    // of one with files of 64 MiB and more
	Dir         string // where the files are made
	Threads     int    // of wrk
	ServerCPUs  string // as taskset has them; "" for any
	LoadCPUs    string // the same for wrk
	Log         func(format string, args ...any)
}

// A Turn is one contender in one round of a case.
type Turn struct {
	Case      string  `json:"case"`
	Contender string  `json:"contender"` // its name
	Round     int     `json:"round"`
	Requests  int64   `json:"requests"` // that were completed
	Errors    int64   `json:"errors"`   // of sockets, and answers that are not 200
	Bytes     int64   `json:"bytes"`    // that arrived
	Seconds   float64 `json:"seconds"`
	CPU       float64 `json:"cpu_seconds"` // of the server's processes
	LoadCPU   float64 `json:"load_cpu_seconds"`
	P99       float64 `json:"p99_seconds"` // of a request; 0 if none was completed
	Peak      int64   `json:"peak_rss_bytes"`
}

// Run returns the turns in the order in which they were taken, as far as it
// came.
func (p Plan) Run(ctx context.Context) ([]Turn, error) {
	if err := checkWrk(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(p.Dir, "bench-files-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var turns []Turn
	for _, c := range p.Cases {
		site, err := makeSite(dir, c)
		if err != nil {
			return turns, err
		}
		site.CPUs = p.ServerCPUs
		done, err := p.runCase(ctx, c, site)
		turns = append(turns, done...)
		if err != nil {
			return turns, err
		}
	}
	return turns, nil
}

func (p Plan) runCase(ctx context.Context, c Case, s Site) (turns []Turn, err error) {
	for round := range p.Rounds {
		for _, i := range crossover.Order(len(p.Contenders), round) {
			who := p.Contenders[i]
			t, err := p.turn(ctx, who, c, s)
			if err != nil {
				return turns, fmt.Errorf("%s, %s: %w", c, who.Name(), err)
			}
			t.Case, t.Contender, t.Round = c.String(), who.Name(), round
			p.Log("round %d, %s, %s: %.3f CPU s/GB, %d requests, %.2f GB, p99 %.1f ms, %d errors", round+1, c,
				who.Name(), t.cpuPerGB(), t.Requests, float64(t.Bytes)/1e9, t.P99*1e3, t.Errors)
			turns = append(turns, t)
		}
	}
	return turns, nil
}

func (p Plan) turn(ctx context.Context, who Contender, c Case, s Site) (Turn, error) {
	dir, err := os.MkdirTemp("", "bench-files-")
	if err != nil {
		return Turn{}, err
	}
	defer os.RemoveAll(dir)
	srv, err := who.Start(ctx, dir, s)
	if err != nil {
		return Turn{}, err
	}
	defer srv.Stop()
	url := srv.URL + c.file()
	if err := warmUp(ctx, s, url, c.Size); err != nil {
		return Turn{}, err
	}
	before, err := use(srv.PIDs)
	if err != nil {
		return Turn{}, err
	}
	l, err := wrk{p.Threads, p.LoadCPUs}.run(ctx, dir, url, c.Conns, p.seconds(c))
	if err != nil {
		return Turn{}, err
	}
	after, err := use(srv.PIDs)
	return Turn{
		Requests: l.Requests, Errors: l.errors(), Bytes: l.Bytes, Seconds: float64(l.Micros) / 1e6,
		CPU: (after.cpu - before.cpu).Seconds(), LoadCPU: l.cpu.Seconds(),
		P99: float64(l.P99) / 1e6, Peak: after.peak,
	}, err
}

// seconds is how long a turn is.
func (p Plan) seconds(c Case) int {
	if c.Size >= longFrom {
		return p.LongSeconds
	}
	return p.Seconds
}

// file is the name of the case's file.
func (c Case) file() string { return fmt.Sprintf("%d.bin", c.Size) }

// makeSite makes what a case needs in dir, unless it is there already.
func makeSite(dir string, c Case) (Site, error) {
	s := Site{Dir: filepath.Join(dir, "root")}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return Site{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for nginx's workers
		return Site{}, err
	}
	if c.TLS {
		var err error
		if s.Cert, s.Key, err = makeCertificate(dir); err != nil {
			return Site{}, err
		}
	}
	name := filepath.Join(s.Dir, c.file())
	if _, err := os.Stat(name); err == nil {
		return s, nil
	}
	return s, makeFile(name, c.Size)
}

// makeFile makes a file of random bytes, the same ones each time, and has it
// written to the disk, so that nobody measures that.
func makeFile(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{}), size); err != nil {
		return err
	}
	return f.Sync()
}

// warmUp gets the file a few times, and checks its length.
func warmUp(ctx context.Context, s Site, url string, size int64) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		n, err := get(ctx, client, url, io.Discard)
		if err != nil {
			return err
		}
		if n != size {
			return fmt.Errorf("files: %s gives %d bytes of %d", url, n, size)
		}
	}
	return nil
}

// get copies what is at url to w.
func get(ctx context.Context, client *http.Client, url string, w io.Writer) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("files: %s answers %s", url, res.Status)
	}
	return io.Copy(w, res.Body)
}
