package redis

import (
	"errors"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// benchmark returns where redis-benchmark is.
func benchmark(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-benchmark")
	if err != nil {
		missing(t, ErrNoRedisBenchmark)
	}
	return path
}

// TestRedisBenchmarkMovesValues checks that it makes as many calls as it is told, with values of the size.
func TestRedisBenchmarkMovesValues(t *testing.T) {
	const calls, clients, size = 20, 3, 70_000
	path := benchmark(t)
	for _, unix := range []bool{false, true} {
		srv := start(t, unix)
		site, err := srv.site(t.Context(), size, "")
		if err != nil {
			t.Fatal(err)
		}
		rdb := newGoRedis(site)
		defer rdb.Close()
		for _, c := range floorCalls {
			if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			them := rival{path: path, site: site, clients: clients, args: c.args(site)}
			if _, _, err := them.run(t.Context(), calls); err != nil {
				t.Fatal(err)
			}
			info := rdb.Info(t.Context(), "commandstats", "stats").Val()
			if n := number(info, "cmdstat_"+strings.ToLower(c.call)+":calls="); n != calls*clients {
				t.Errorf("%s: %d calls, want %d", c.call, n, calls*clients)
			}
			moved := map[string]string{"GET": "total_net_output_bytes:", "SET": "total_net_input_bytes:"}[c.call]
			if n := number(info, moved); n < calls*clients*size || n > calls*clients*(size+1000) {
				t.Errorf("%s: %d bytes in %d calls with %d", c.call, n, calls*clients, size)
			}
		}
	}
}

// number is the one that follows a name in a server's INFO, 0 if there is none.
func number(info, name string) int {
	_, rest, _ := strings.Cut(info, name)
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	n, _ := strconv.Atoi(rest[:digits])
	return n
}

func TestFloorTable(t *testing.T) {
	benchmark(t)
	p := &Plan{
		Server: start(t, true), Sizes: []int{1000, 70_000}, Goroutines: []int{1, 3}, Rounds: 2,
		Turn: 4 * time.Millisecond, Log: t.Logf,
	}
	all, err := p.RunFloor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 8 {
		t.Errorf("%d cases, want 2 calls with 2 sizes and 2 numbers of clients", len(all))
	}
	for _, f := range all {
		for _, c := range []Cost{f.Theirs, f.Ours} {
			if len(c.Nanos) != p.Rounds || len(c.CPU) != p.Rounds || c.Nanos.Min() <= 0 {
				t.Errorf("%s, %d: %+v", f.Call, f.Size, c)
			}
		}
	}
	var b strings.Builder
	p.WriteFloor(&b, all)
	if rows := strings.Count(b.String(), "\n| GET ") + strings.Count(b.String(), "\n| SET "); rows != len(all) {
		t.Errorf("%d rows of %d:\n%s", rows, len(all), b.String())
	}
}

func TestNoRedisBenchmark(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := new(Plan).RunFloor(t.Context()); !errors.Is(err, ErrNoRedisBenchmark) {
		t.Errorf("%v, want %v", err, ErrNoRedisBenchmark)
	}
}

// TestRedisBenchmarkFails has it find nobody.
func TestRedisBenchmarkFails(t *testing.T) {
	nobody := &Site{Network: "unix", Addr: filepath.Join(t.TempDir(), "nobody")}
	them := rival{path: benchmark(t), site: nobody, clients: 1, args: []string{"GET", key}}
	if _, _, err := them.run(t.Context(), 1); err == nil {
		t.Error("no error without a server")
	}
}

func TestParseRate(t *testing.T) {
	const head = `"test","rps","avg_latency_ms"` + "\n"
	for said, want := range map[string]float64{
		head + `"GET a","62500.00","0.013"` + "\n": 62500,
		head + `"SET","inf","0.013"` + "\n":        math.Inf(1),
	} {
		if got, err := parseRate(said); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", said, got, err, want)
		}
	}
	for _, said := range []string{
		"", head, "GET: 62500.00 requests per second", `"GET","62500.00"`, head + `"GET","0"`, head + `"GET","nan"`,
		head + `"GET","-1","0.013"`, head + `"GET"`, `"test","mean"` + "\n" + `"GET","1"`,
	} {
		if got, err := parseRate(said); err == nil {
			t.Errorf("%q is %v", said, got)
		}
	}
}
