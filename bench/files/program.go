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

// Program runs the benchmark. It produces one table for each case.
var Program = &measure.Program{
	Name: "files", What: "files over HTTP, under wrk", Rounds: 5,
	Brief: []string{"-rounds", "2", "-seconds", "3", "-long-seconds", "6", "-case",
		"64KiBx100,1MiBx100,256MiBx8",
		"-contenders", "fileserver,millrace,naive,wrapped-copy,wrapped-millrace,nginx,nginx-cache,nginx-push"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&options.cases, "case", "64KiBx8,64KiBx100,1MiBx8,1MiBx100,256MiBx8",
			"SIZExCONNECTIONS, more with commas")
		f.StringVar(&options.contenders, "contenders", strings.Join(keys(), ","),
			"one ratio is to the first")
		f.IntVar(&options.seconds, "seconds", 4, "seconds of each turn")
		f.IntVar(&options.longSeconds, "long-seconds", 15, "the same with files of 64 MiB and more")
	},
	Run: run,
}

var options struct {
	cases, contenders    string
	seconds, longSeconds int
}

// Files of at least longFileSize bytes are measured for options.longSeconds. In a shorter time,
// some connections might not receive a complete file.
const longFileSize = 64 << 20

func run(ctx context.Context, p *measure.Params) error {
	if err := checkWrk(); err != nil {
		return err
	}
	all, err := parseContenders(options.contenders)
	if err != nil {
		return err
	}
	if all, err = measure.Present(all, func(c contender) string { return c.name },
		func(c contender) error { return c.check() }, p.Logf); err != nil {
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
	dir, err := os.MkdirTemp("", "bench-files-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, c := range cases {
		root, err := makeFile(dir, c.size)
		if err != nil {
			return err
		}
		turns := make([][]turn, len(all))
		err = measure.Rounds(ctx, len(all), p.Rounds, func(round, i int) error {
			t, err := takeTurn(ctx, all[i], c, root)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c, all[i].name, err)
			}
			p.Logf("files: round %d, %s, %s: %.3f CPU s/GB, %d requests, %d errors", round+1, c,
				all[i].name, t.cpuPerGB(),
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

type turn struct {
	wrkResult
	serverCPU time.Duration
	peak      int64 // peak resident memory of the server, in bytes
}

func (t turn) cpuPerGB() float64 { return t.serverCPU.Seconds() / (float64(t.Bytes) / 1e9) }

func takeTurn(ctx context.Context, who contender, c testCase, root string) (t turn, err error) {
	dir, err := os.MkdirTemp("", "bench-files-")
	if err != nil {
		return t, err
	}
	defer os.RemoveAll(dir)
	srv, err := who.start(ctx, dir, root)
	if err != nil {
		return t, err
	}
	defer srv.Stop()
	url := "http://" + srv.Addr + "/" + fileName(c.size)
	if err := warmUp(ctx, url, c.size); err != nil {
		return t, err
	}
	before, err := measure.UsageOf(srv.PIDs)
	if err != nil {
		return t, err
	}
	seconds := options.seconds
	if c.size >= longFileSize {
		seconds = options.longSeconds
	}
	if t.wrkResult, err = runWrk(ctx, dir, url, c.conns, seconds); err != nil {
		return t, err
	}
	after, err := measure.UsageOf(srv.PIDs)
	t.serverCPU, t.peak = after.CPU-before.CPU, after.Peak
	return t, err
}

// table compares the CPU time of each contender with the CPU time of the first contender and of
// chunk.FileServer. A contender behind a middleware is compared with chunk.FileServer behind the
// same middleware.
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
			if who.key == us {
				return get(i, turn.cpuPerGB)
			}
		}
		return nil
	}
	t := measure.NewTable("files-"+c.String(),
		fmt.Sprintf("Files of %s over HTTP, %d connections, %d rounds", measure.SizeName(c.size),
			c.conns, rounds), "contender",
		"server CPU s/GB", "work a CPU s, x "+all[0].name, "CPU, x chunk.FileServer", "MB/s",
		"requests/s", "p99 ms", "peak RSS MB",
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
		t.Row(who.name, cpu, base.Over(cpu), cpu.Over(ours(who.key)),
			get(i, func(t turn) float64 { return float64(t.Bytes) / float64(t.Micros) }),
			get(i, func(t turn) float64 { return float64(t.Requests) / float64(t.Micros) * 1e6 }),
			p99,
			get(i, func(t turn) float64 { return float64(t.peak) / (1 << 20) }).Median(),
			get(i, func(t turn) float64 { return float64(t.errors()) }).Max(),
			get(i, func(t turn) float64 {
				return t.cpu.Seconds() / (float64(t.Bytes) / 1e9)
			}).Median())
	}
	return t
}

func fileName(size int) string { return fmt.Sprintf("%d.bin", size) }

// makeFile makes a file of the given size in a directory under dir, unless the file exists. It
// returns the directory.
func makeFile(dir string, size int) (root string, err error) {
	root = filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // so that nginx's workers can read the file
		return "", err
	}
	name := filepath.Join(root, fileName(size))
	if _, err := os.Stat(name); err == nil {
		return root, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.CopyN(f, content(), int64(size)); err != nil {
		return "", err
	}
	return root, f.Sync() // Sync, so that the disk is idle while servers are measured
}

// content returns a reader of random bytes, which are the same at each call.
func content() io.Reader { return rand.NewChaCha8([32]byte{}) }

// warmUp requests the file for a short time. It returns an error if a response differs from the
// file.
func warmUp(ctx context.Context, url string, size int) error {
	want := crc32.NewIEEE()
	io.CopyN(want, content(), int64(size))
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		h := crc32.NewIEEE()
		n, err := get(ctx, client, url, h)
		if err != nil {
			return err
		}
		if n != int64(size) || h.Sum32() != want.Sum32() {
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
