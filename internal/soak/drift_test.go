package soak

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const mib = 1 << 20

// series makes the quiet points of a life, a second from each other.
func series(n int, f func(i int, p *Point)) (points []Point) {
	for i := range n {
		p := Point{At: time.Duration(i) * time.Second, Sample: Sample{
			Goroutines: 8, Descriptors: 27, Threads: 10, RSS: 40 * mib, Anonymous: 20 * mib, Heap: 3 * mib, PoolIdle: mib,
		}}
		f(i, &p)
		points = append(points, p)
	}
	return points
}

// judge returns everything that is wrong with one life.
func judge(rules []rule, points []Point) (reasons []string) {
	for _, r := range rules {
		reasons = slices.Concat(reasons, r.judge(points))
	}
	return reasons
}

func TestDrift(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name string
		n    int
		f    func(i int, p *Point)
		says string // "": nothing
	}{
		{"nothing", 30, func(int, *Point) {}, ""},
		{"a goroutine a cycle", 5, func(i int, p *Point) { p.Goroutines += int64(i) },
			"goroutines: 11 at quiet point 4, after 10 at quiet point 3"},
		{"one goroutine, once", 30,
			func(i int, p *Point) { p.Goroutines += int64(i / 29) }, "goroutines: 9 at quiet point 30, after 8"},
		{"goroutines that end", 30, func(i int, p *Point) { p.Goroutines -= int64(i / 10) }, ""},
		{"goroutines that end and come back", 30, func(i int, p *Point) { p.Goroutines -= int64(i % 20 / 19) },
			"goroutines: 8 at quiet point 21, after 7 at quiet point 20"},
		{"goroutines while it warms up", 30, func(i int, p *Point) { p.Goroutines += int64(max(0, 3*warmUp-3*i)) }, ""},
		{"a descriptor a cycle", 30, func(i int, p *Point) { p.Descriptors += int64(i) }, "descriptors: "},
		{"blobs that are kept open", 30, func(i int, p *Point) { p.Descriptors += int64(i % blobKeys) }, ""},
		{"a block that is not released", 1, func(i int, p *Point) { p.PoolInUse = 4096 },
			"pool in use: 0.0 MiB at quiet point 1, want none"},
		{"files that are kept open", 30, func(i int, p *Point) { p.FilesOpen = int64(i % (len(files) + 1)) }, ""},
		{"a file more than there are", 1, func(i int, p *Point) { p.FilesOpen = int64(len(files)) + 1 },
			"files open: 7 at quiet point 1, want at most 6"},
		{"RSS that grows slowly", 30, func(i int, p *Point) { p.RSS += int64(i) * mib }, "RSS grows: by 27.0 MiB in 27s"},
		{"RSS that grows more slowly than can be told", 30, func(i int, p *Point) { p.RSS += int64(i) * mib / 4 }, ""},
		{"RSS that grows a little of a lot", 30, func(i int, p *Point) { p.RSS += 2000*mib + int64(i)*mib }, ""},
		{"RSS of too few points", warmUp + minTrend - 1, func(i int, p *Point) { p.RSS += int64(i) * 100 * mib }, ""},
		{"RSS while it warms up", 30, func(i int, p *Point) { p.RSS += int64(min(i, warmUp)) * 50 * mib }, ""},
		{"RSS that wavers", 30, func(i int, p *Point) { p.RSS += noise.Int64N(40 * mib) }, ""},
		{"RSS as a sawtooth", 30, func(i int, p *Point) { p.RSS += int64(i%5) * 10 * mib }, ""},
		{"RSS that is high now and then", 30, func(i int, p *Point) { p.RSS += int64(i%4/3) * 400 * mib }, ""},
		{"RSS that grows and wavers", 30, func(i int, p *Point) { p.RSS += int64(i)*2*mib + noise.Int64N(20*mib) }, "RSS grows"},
		{"anonymous memory that grows", 30, func(i int, p *Point) { p.Anonymous += int64(i) * mib },
			"anonymous grows: by 27.0 MiB in 27s"},
		{"anonymous memory that grows more slowly than can be told", 30, func(i int, p *Point) { p.Anonymous += int64(i) * mib / 2 }, ""},
		{"a heap that grows", 30, func(i int, p *Point) { p.Heap += int64(i) * mib / 4 }, "heap grows"},
		{"threads that grow", 60, func(i int, p *Point) { p.Threads += int64(i) }, "threads grows"},
		{"threads that are started now and then", 60, func(i int, p *Point) { p.Threads += int64(i / 6) }, ""},
		{"a pool that grows", 60, func(i int, p *Point) { p.PoolIdle += int64(i) * mib }, "pool idle grows"},
	} {
		reasons := strings.Join(judge(rules(false), series(test.n, test.f)), "\n")
		if test.says == "" && reasons != "" || !strings.Contains(reasons, test.says) {
			t.Errorf("%s: %q, want %q", test.name, reasons, test.says)
		}
	}
}

// Redis' connections come and go, up to a number.
func TestDriftOfConnections(t *testing.T) {
	points := series(10, func(i int, p *Point) { p.Descriptors += min(int64(i)*20, redisSlack) })
	if reasons := judge(rules(true), points); reasons != nil {
		t.Error(reasons)
	}
	points = series(10, func(i int, p *Point) { p.Descriptors += int64(i) * 20 })
	if reasons := judge(rules(true), points); len(reasons) != 1 {
		t.Error(reasons)
	}
}

// A connection to Redis has buffers, which are on the heap. As many as there may be are no trend, and more are.
func TestDriftOfConnectionBuffers(t *testing.T) {
	for mibs, says := range map[int64]string{6: "", 8: "heap grows"} {
		points := series(30, func(i int, p *Point) { p.Heap += int64(i) * mibs * mib / 27 })
		if reasons := strings.Join(judge(rules(true), points), "\n"); says == "" && reasons != "" || !strings.Contains(reasons, says) {
			t.Errorf("%d MiB: %q, want %q", mibs, reasons, says)
		}
	}
}

// Each process is a life of its own: what one before it has had says nothing.
func TestDriftAfterARestart(t *testing.T) {
	before := series(20, func(i int, p *Point) {})
	after := series(20, func(i int, p *Point) { p.Goroutines, p.RSS = 20, 200*mib })
	if reasons := append(judge(rules(false), before), judge(rules(false), after)...); reasons != nil {
		t.Error(reasons)
	}
	if reasons := judge(rules(false), slices.Concat(before, after)); len(reasons) == 0 {
		t.Error("as one life they would have to be found")
	}
}

// The slope is that of all pairs, however many points there are.
func TestSlope(t *testing.T) {
	line := func(n int, spoil int) (x, y []float64) {
		for i := range n {
			x, y = append(x, float64(i)), append(y, 5+2*float64(i))
			if spoil > 0 && i%spoil == 0 {
				y[i] += 1e6
			}
		}
		return x, y
	}
	for _, n := range []int{2, 3, 30, maxSlopePoints, maxSlopePoints + 1, 10 * maxSlopePoints} {
		if x, y := line(n, 0); math.Abs(slope(x, y)-2) > 1e-9 {
			t.Errorf("%d points: %v", n, slope(x, y))
		}
	}
	if x, y := line(30, 7); math.Abs(slope(x, y)-2) > 1e-9 {
		t.Errorf("with points far off: %v", slope(x, y))
	}
	if slope(nil, nil) != 0 || slope([]float64{1}, []float64{1}) != 0 || slope([]float64{1, 1}, []float64{1, 2}) != 0 {
		t.Error("a slope of no two moments")
	}
}

// Each metric is the quantity that it is of, and one that is missing is an error.
func TestMeasures(t *testing.T) {
	const text = `# HELP go_goroutines Number of goroutines.
go_goroutines 14
go_threads 9
go_memstats_heap_alloc_bytes 3.145728e+06
go_memstats_alloc_bytes_total 12345
go_gc_duration_seconds{quantile="1"} 0.5
go_gc_duration_seconds_count 6
millrace_streams 1
millrace_viewers{path="writev"} 2
millrace_viewers{path="write"} 1
millrace_files_downloads 10
millrace_files_open 3
millrace_blobs_downloads 20
millrace_blobs_uploads 30
millrace_pool_idle_bytes 1.048576e+06
millrace_pool_in_use_bytes 4096
millrace_frames_lost_total{reason="lag_bytes"} 7
millrace_viewers_dropped_total{reason="stalled"} 5
`
	sample := func(text string) (Sample, error) {
		m, err := readMeasures(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return m.sample()
	}
	want := Sample{
		Threads: 9, Heap: 2 * mib, PoolInUse: 4096, PoolIdle: mib, FilesOpen: 3,
		allocated: 12345, collected: 6, lost: 7, dropped: 5, busy: 64,
	}
	if got, err := sample(text); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, name := range []string{
		"go_threads", "go_memstats_heap_alloc_bytes", "go_memstats_alloc_bytes_total", "go_gc_duration_seconds_count",
		"millrace_streams", "millrace_viewers", "millrace_files_downloads", "millrace_files_open", "millrace_blobs_downloads",
		"millrace_blobs_uploads", "millrace_pool_idle_bytes", "millrace_pool_in_use_bytes", "millrace_frames_lost_total",
		"millrace_viewers_dropped_total",
	} {
		without := regexp.MustCompile(`(?m)^`+name+`[ {].*\n`).ReplaceAllString(text, "")
		if _, err := sample(without); err == nil || !strings.Contains(err.Error(), name+": missing") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := sample(strings.Replace(text, "go_threads 9", "go_threads 0", 1)); err == nil {
		t.Error("a process without a thread")
	}
	if _, err := readMeasures(strings.NewReader("name x\n")); err == nil {
		t.Error("a value that is no number")
	}
}
