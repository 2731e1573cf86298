package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
)

var (
	seedFlag      = flag.Uint64("seed", 0, "play the history of this seed, and print its trace")
	replaysFlag   = flag.Int("replays", 1, "with -seed: play it so often, and count the failures")
	fromFlag      = flag.Uint64("from", 1, "the first seed")
	resultFlag    = flag.String("result", "", "with -seed: play here, and write the result to a file")
	historiesFlag = flag.Int("histories", 0, "number of histories; 0: a few")
)

// manyHistories is the number of histories in which every kind of failure happens.
const manyHistories = 100

// play plays the history of a seed in a separate process, so that earlier histories do not affect
// it. With the runtime of tools/simoverlay, a seed usually has the same history each time.
func play(t *testing.T, seed uint64) (r *Result) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "result.json")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClusterKeepsItsPromises$",
		"-seed", fmt.Sprint(seed), "-result", to)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	out, failed := cmd.CombinedOutput()
	b, err := os.ReadFile(to)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil && failed != nil && len(r.Failures) == 0 {
		err = failed
	}
	if err != nil {
		t.Fatalf("seed %d: %v, %v\n%s", seed, failed, err, out)
	}
	return r
}

// playHere plays the history of a seed in this process, and writes its Result to the file to.
func playHere(t *testing.T, seed uint64, to string) {
	cryptotest.SetGlobalRandom(t, seed)
	r := &Result{Seed: seed}
	before := millrace.DefaultPool().Stats().InUse
	func() {
		defer func() {
			if cause := recover(); cause != nil {
				r.Failures = append(r.Failures, fmt.Sprint(cause, "\n", bubbleStacks()))
			}
		}()
		synctest.Test(t, func(*testing.T) { r = Play(seed) })
	}()
	if after := millrace.DefaultPool().Stats().InUse; after != before {
		r.Failures = append(r.Failures, fmt.Sprintf("%d bytes of blocks were not released",
			after-before))
	}
	b, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bubbleStacks returns the stacks of the goroutines in bubbles.
func bubbleStacks() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var list []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "synctest bubble") {
			list = append(list, stack)
		}
	}
	return strings.Join(list, "\n\n")
}

// report makes the test fail if the history has failed.
func (r *Result) report(t *testing.T) {
	t.Helper()
	if len(r.Failures) > 0 {
		t.Errorf("seed %d:\n\t%s\nto see what happened:\n\t"+
			"scripts/simulate -seed %[1]d", r.Seed, strings.Join(r.Failures, "\n\t"))
	}
}

// A cluster keeps the promises that Check checks, even if nodes, links or Redis fail.
func TestClusterKeepsItsPromises(t *testing.T) {
	switch {
	case *resultFlag != "":
		playHere(t, *seedFlag, *resultFlag)
		return
	case *seedFlag != 0:
		replay(t)
		return
	}
	count := *historiesFlag
	switch {
	case count > 0:
	case testing.Short():
		count = 4
	default:
		count = 40
	}
	events := make(map[string]int)
	var counts Counts
	began := time.Now()
	for i := range count {
		r := play(t, *fromFlag+uint64(i))
		r.report(t)
		counts.add(&r.Counts)
		for name, n := range r.Events {
			events[name] += n
		}
		if t.Failed() && i < count-1 && *historiesFlag == 0 {
			break
		}
	}
	for _, name := range slices.Sorted(maps.Keys(events)) {
		t.Logf("%8d %s", events[name], name)
	}
	t.Logf("%d histories, %v each: %+v", count, time.Since(began)/time.Duration(count), counts)
	if count < manyHistories {
		return
	}
	for _, f := range faults {
		if events[f.name] == 0 {
			t.Errorf("in %d histories this has not happened: %s", count, f.name)
		}
	}
	for row, causes := range tableOfFailures {
		for _, cause := range causes {
			if events[cause] == 0 {
				t.Errorf("in %d histories this has not happened: %s (%s)", count, row, cause)
			}
		}
	}
}

// replay plays the history of -seed, and prints the trace of a replay that has failed, if there is
// one.
func replay(t *testing.T) {
	failed, same := 0, 0
	var first, shown *Result
	for range *replaysFlag {
		r := play(t, *seedFlag)
		if first == nil {
			first, shown = r, r
		}
		if slices.Equal(r.Trace, first.Trace) {
			same++
		}
		if len(r.Failures) > 0 {
			if failed++; failed == 1 {
				shown = r
				r.report(t)
			}
		}
	}
	fmt.Println(strings.Join(shown.Trace, "\n"))
	fmt.Printf("%d of %d replays failed; %d have the trace of the first one\n", failed,
		*replaysFlag, same)
}

// failedSeeds are seeds of histories that have found a fault. A change of this package changes the
// histories of all seeds.
var failedSeeds = []struct {
	seed  uint64
	found string
}{
	{60154, "a node whose publisher has left takes the stream from the node of the publisher"},
	{60064, "dates overlap after a takeover, because the open segment began after a pause"},
	{30124, "a node goes on reading from an owner that is gone"},
	{10, "frames are repeated after a refused publisher"},
	{1795798067402, "a node that was replaced restores its ownership in an empty Redis"},
	{200071, "a node whose publisher has left takes a stream whose lease has expired"},
	{3110, "a node goes on reading from a dead owner after an outage of Redis"},
	{6453, "a request whose player has left keeps a processor busy"},
	{1795828694422, "the target duration changes in a playlist of which the store lacks segments"},
	{1795833689200, "a node whose publisher has left takes a stream whose publisher has returned"},
	{100452, "a player waits for the playlist of a stream whose publisher comes and goes"},
	{7127, "players get 404 for each segment, because their node has the end of an earlier stream"},
	{1795862027455, "a node that becomes the owner late sends frames from before another owner"},
}

// A fault that a history has found does not come back.
func TestSeedsThatFailed(t *testing.T) {
	for _, s := range failedSeeds {
		r := play(t, s.seed)
		r.report(t)
		if t.Failed() {
			t.Logf("this seed once found: %s", s.found)
		}
	}
}

// tableOfFailures has the first column of the table in docs/cluster.md, and the events that are
// such a failure.
var tableOfFailures = map[string][]string{
	"the owner dies":            {"a node is killed", "a node loses its power"},
	"another node dies":         {"a node is killed", "a node loses its power"},
	"a node shuts down":         {"a node shuts down", "a node is upgraded"},
	"the stream ends":           {"a stream ends"},
	"Redis is unreachable":      {"Redis is unreachable", "Redis is slow"},
	"Redis restarts empty":      {"Redis restarts empty", "Redis fails over"},
	"a node loses Redis":        {"a node loses Redis"},
	"two nodes lose each other": {"two nodes lose each other", "connections between two nodes break"},
	"a process is suspended":    {"a node is suspended"},
}

// The histories have every failure of which the page says what happens.
func TestEveryDocumentedFailureIsSimulated(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## What happens when something fails\n")
	_, table, _ = strings.Cut(table, "\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	if len(rows) != len(tableOfFailures) {
		t.Errorf("the table has %d rows, the test knows %d", len(rows), len(tableOfFailures))
	}
	for _, row := range rows {
		failure := strings.TrimSpace(strings.Split(row, "|")[1])
		if tableOfFailures[failure] == nil {
			t.Errorf("the histories have no failure %q", failure)
		}
	}
}
