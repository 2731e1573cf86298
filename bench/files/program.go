package files

import (
	"context"
	"flag"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program measures a table for each case.
var Program = &measure.Program{
	Name: "files", What: "files over HTTP, under wrk", Rounds: 5,
	Brief: []string{"-rounds", "2", "-seconds", "3", "-long-seconds", "6", "-case", "64KiBx100,1MiBx100,256MiBx8",
		"-contenders", "fileserver,millrace,naive,wrapped-copy,wrapped-millrace,nginx,nginx-cache,nginx-push"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&options.cases, "case", "64KiBx8,64KiBx100,1MiBx8,1MiBx100,256MiBx8,1MiBx100+tls", "SIZExCONNECTIONS[+tls], more with commas")
		f.StringVar(&options.contenders, "contenders", strings.Join(keys(), ","), "one ratio is to the first")
		f.IntVar(&options.seconds, "seconds", 4, "seconds of each turn")
		f.IntVar(&options.longSeconds, "long-seconds", 15, "the same with files of 64 MiB and more")
		f.StringVar(&options.dir, "dir", "", "where the files are made; the system's place for them if empty")
	},
	Run: run,
}

var options struct {
	cases, contenders, dir string
	seconds, longSeconds   int
}

// longFrom is the size from which a turn must be long for every connection to get through one file.
const longFrom = 64 << 20

func run(ctx context.Context, p *measure.Params) error {
	if err := checkWrk(); err != nil {
		return err
	}
	all, err := parseContenders(options.contenders)
	if err != nil {
		return err
	}
	if all, err = measure.Present(all, contender.Name, contender.Check, p.Logf); err != nil {
		return err
	}
	var cases []testCase
	for _, s := range strings.Split(options.cases, ",") {
		c, err := parseCase(strings.TrimSpace(s))
		if err != nil {
			return err
		}
		cases = append(cases, c)
	}
	dir, err := os.MkdirTemp(options.dir, "bench-files-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, c := range cases {
		site, err := makeSite(dir, c)
		if err != nil {
			return err
		}
		turns := make([][]turn, len(all))
		err = measure.Rounds(ctx, len(all), p.Rounds, func(round, i int) error {
			t, err := takeTurn(ctx, all[i], c, site)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c, all[i].Name(), err)
			}
			p.Logf("files: round %d, %s, %s: %.3f CPU s/GB, %d requests, %d errors", round+1, c, all[i].Name(), t.cpuPerGB(),
				t.Requests, t.errors())
			turns[i] = append(turns[i], t)
			return nil
		})
		if err != nil {
			return err
		}
		if err := p.Add(table(c, all, turns, p.Rounds)); err != nil {
			return err
		}
	}
	return nil
}

// A turn is one contender in one round of a case.
type turn struct {
	loaded
	serverCPU time.Duration
	peak      int64 // bytes of resident memory of the server
}

func (t turn) cpuPerGB() float64 { return t.serverCPU.Seconds() / (float64(t.Bytes) / 1e9) }

// takeTurn starts the contender, compares what it delivers with the file, and puts load on it.
func takeTurn(ctx context.Context, who contender, c testCase, s site) (t turn, err error) {
	dir, err := os.MkdirTemp("", "bench-files-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	srv, err := who.Start(ctx, dir, s)
	if err != nil {
		return t, err
	}
	defer srv.Stop()
	url := s.URL(srv.Addr) + c.file()
	if err := warmUp(ctx, s, url, c.Size); err != nil {
		return t, err
	}
	before, err := measure.UsageOf(srv.PIDs)
	if err != nil {
		return t, err
	}
	seconds := options.seconds
	if c.Size >= longFrom {
		seconds = options.longSeconds
	}
	if t.loaded, err = runWrk(ctx, dir, url, c.Conns, seconds); err != nil {
		return t, err
	}
	after, err := measure.UsageOf(srv.PIDs)
	t.serverCPU, t.peak = after.CPU-before.CPU, after.Peak
	return t, err
}

// table compares with the first contender, and with chunk.FileServer: behind a middleware for contenders that are.
func table(c testCase, all []contender, turns [][]turn, rounds int) *measure.Table {
	get := func(i int, f func(turn) float64) (s measure.Series) {
		for _, t := range turns[i] {
			s = append(s, f(t))
		}
		return s
	}
	ours := func(key string) measure.Series {
		us := "millrace"
		if strings.HasPrefix(key, "wrapped-") {
			us = "wrapped-millrace"
		}
		for i, who := range all {
			if who.Key() == us {
				return get(i, turn.cpuPerGB)
			}
		}
		return nil
	}
	t := measure.NewTable("files-"+c.String(), fmt.Sprintf("Files of %s over HTTP, %d rounds", c.Title(), rounds), "contender",
		"server CPU s/GB", "work a CPU s, x "+all[0].Name(), "CPU, x chunk.FileServer", "MB/s", "requests/s", "p99 ms", "peak RSS MB",
		"errors", "wrk's CPU s/GB")
	t.Bar = 1
	t.Note = "wrk runs on the same CPUs as the server. x chunk.FileServer is how many times as much CPU time the contender needs; a " +
		"contender behind a middleware is compared with chunk.FileServer behind it."
	base := get(0, turn.cpuPerGB)
	for i, who := range all {
		cpu := get(i, turn.cpuPerGB)
		p99 := any(get(i, func(t turn) float64 { return float64(t.P99) / 1e3 }))
		if p99.(measure.Series).Min() == 0 {
			p99 = "-" // no request was completed
		}
		t.Row(who.Name(), cpu, base.Over(cpu), cpu.Over(ours(who.Key())),
			get(i, func(t turn) float64 { return float64(t.Bytes) / float64(t.Micros) }),
			get(i, func(t turn) float64 { return float64(t.Requests) / float64(t.Micros) * 1e6 }), p99,
			get(i, func(t turn) float64 { return float64(t.peak) / (1 << 20) }).Median(),
			get(i, func(t turn) float64 { return float64(t.errors()) }).Max(),
			get(i, func(t turn) float64 { return t.cpu.Seconds() / (float64(t.Bytes) / 1e9) }).Median())
	}
	return t
}

// file is the name of the case's file.
func (c testCase) file() string { return fmt.Sprintf("%d.bin", c.Size) }

// makeSite makes what a case needs in dir, unless it is there already.
func makeSite(dir string, c testCase) (site, error) {
	s := site{Dir: filepath.Join(dir, "root")}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return site{}, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // for nginx's workers
		return site{}, err
	}
	if c.TLS {
		var err error
		if s.Cert, s.Key, err = makeCertificate(dir); err != nil {
			return site{}, err
		}
	}
	name := filepath.Join(s.Dir, c.file())
	if _, err := os.Stat(name); err == nil {
		return s, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return site{}, err
	}
	defer f.Close()
	if _, err := io.CopyN(f, content(), c.Size); err != nil {
		return site{}, err
	}
	return s, f.Sync() // so that the disk is idle while servers are measured
}

// content gives random bytes, the same ones each time.
func content() io.Reader { return rand.NewChaCha8([32]byte{}) }

// sums are the checksums of files by their size.
var sums = make(map[int64]uint32)

func sumOf(size int64) uint32 {
	sum, ok := sums[size]
	if !ok {
		h := crc32.NewIEEE()
		io.CopyN(h, content(), size)
		sum = h.Sum32()
		sums[size] = sum
	}
	return sum
}

// warmUp gets the file a few times, and fails unless each answer is the file.
func warmUp(ctx context.Context, s site, url string, size int64) error {
	client, err := s.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		h := crc32.NewIEEE()
		n, err := get(ctx, client, url, h)
		if err != nil {
			return err
		}
		if n != size || h.Sum32() != sumOf(size) {
			return fmt.Errorf("files: %s gives %d bytes that are not the file's %d", url, n, size)
		}
	}
	return nil
}

func get(ctx context.Context, client *http.Client, url string, h hash.Hash) (int64, error) {
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
	return io.Copy(h, res.Body)
}
