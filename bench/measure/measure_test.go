package measure_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// In each cycle of rounds, each contender is first equally often, and follows each other contender
// equally often.
func TestOrderIsBalanced(t *testing.T) {
	for n := range 25 {
		cycle := n * (1 + n%2)
		first := make([]int, n)
		follows := make(map[[2]int]int)
		for round := range 3 * cycle {
			order := measure.Order(n, round)
			for i, v := range slices.Sorted(slices.Values(order)) {
				if v != i {
					t.Fatalf("%d contenders, round %d: %v", n, round, order)
				}
			}
			first[order[0]]++
			for k := range n - 1 {
				follows[[2]int{order[k], order[k+1]}]++
			}
		}
		for i := range n {
			for j := range n {
				if want := 3 * cycle / n; first[i] != want || i != j &&
					follows[[2]int{i, j}] != want {
					t.Errorf("of %d contenders %d is first %d times and follows %d %d times, want %d", n, j, first[j], i,
						follows[[2]int{i, j}], want)
				}
			}
		}
	}
}

func TestSeries(t *testing.T) {
	s := measure.Series{4, 1, 3}
	if s.Median() != 3 || s.Min() != 1 || s.Max() != 4 {
		t.Errorf("median %v, min %v, max %v of %v", s.Median(), s.Min(), s.Max(), []float64(s))
	}
	if m := (measure.Series{1, 2, 3, 4}).Median(); m != 2.5 {
		t.Errorf("the median of four values is %v, want 2.5", m)
	}
	if q := s.Over(measure.Series{2, 2, 2}); q.Median() != 1.5 {
		t.Errorf("ratio %v, want 1.5", q.Median())
	}
	for want, s := range map[string]measure.Series{"10 (0.50 to 1000)": {0.5, 10, 1000}, "-": {},
		"2": {2, 2}} {
		if s.String() != want {
			t.Errorf("%v prints %q, want %q", []float64(s), s, want)
		}
	}
	for want, s := range map[string]measure.Series{"0": {0.02}, "64": {63.95}, "-": nil} {
		if s.Whole() != want {
			t.Errorf("%v is %q in whole, want %q", []float64(s), s.Whole(), want)
		}
	}
}

var kept []byte

// TestCompare uses two contenders. The second allocates memory and runs the collector.
func TestCompare(t *testing.T) {
	const size = 1 << 20
	turns := 0
	costs, err := measure.Compare(t.Context(), []measure.Contender{
		{Name: "waits", Turn: func(n int) (measure.Turn, error) {
			turn := measure.Take(n,
				func() { time.Sleep(time.Duration(n) * 100 * time.Microsecond) })
			turn.More = map[string]float64{"held": 7}
			return turn, nil
		}},
		{Name: "allocates", Turn: func(n int) (measure.Turn, error) {
			turns++
			return measure.Take(n, func() {
				for range n {
					kept = make([]byte, size)
					runtime.GC()
				}
			}), nil
		}},
	}, 3, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	waits, allocates := costs[0], costs[1]
	if len(waits.Nanos) != 3 || waits.Nanos.Min() < 100e3 || waits.More["held"].Median() != 7 {
		t.Errorf("what waits 100 µs: %+v", waits)
	}
	if b := allocates.Bytes; b.Min() < size || b.Max() > 2*size || allocates.GCs.Min() < 1e6 ||
		allocates.Allocs.Min() < 1 {
		t.Errorf("1 MiB and a collection: %+v", allocates)
	}
	broken := errors.New("broken")
	_, err = measure.Compare(t.Context(), []measure.Contender{{Name: "x",
		Turn: func(int) (measure.Turn, error) {
			return measure.Turn{}, broken
		}}}, 1, time.Millisecond)
	if !errors.Is(err, broken) {
		t.Errorf("error %v of a turn that fails", err)
	}
}

// TestProgram runs a program like its command line, and checks its output and files.
func TestProgram(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	extra := ""
	p := &measure.Program{
		Name: "example", Rounds: 3, Turn: time.Millisecond, Parts: []string{"one", "two"},
		Flags: func(f *flag.FlagSet) { f.StringVar(&extra, "extra", "", "") },
		Run: func(_ context.Context, p *measure.Params) error {
			if p.Rounds != 5 || !p.Wants("two") || p.Wants("one") || extra != "x" {
				t.Errorf("%+v, extra %q, want the flags that were given", p, extra)
			}
			table := measure.NewTable("example-two", "An <example>", "name", "ns")
			table.Bar = 1
			table.Row("a", measure.Series{1, 1.234, 2})
			table.Row("longer", 2)
			return p.Add(table)
		},
	}
	var out strings.Builder
	args := []string{"-rounds", "5", "-only", "two", "-out", dir, "-extra", "x"}
	if err := p.Main(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	markdown, err := os.ReadFile(filepath.Join(dir, "example-two.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"`go run ./cmd/bench example -rounds 5 -only two -extra x`",
		"| a      | 1.23 (1 to 2) |", "commit "} {
		if !strings.Contains(string(markdown), want) || !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s\nor\n%s", want, markdown, &out)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "example-two.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table measure.Table
	if err := json.Unmarshal(text, &table); err != nil || *table.Rows[0][1].Low != 1 ||
		table.Machine.CPUs != runtime.NumCPU() {
		t.Errorf("the table that was written: %+v, %v", table, err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"An &lt;example&gt;", `<rect width="200"`,
		`<rect width="123.4"`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("there is no %q in\n%s", want, page)
		}
	}
	for _, bad := range [][]string{{"-only", "three"}, {"-rounds", "0"}, {"-turn", "0s"},
		{"more"}} {
		if err := p.Main(t.Context(), bad, io.Discard, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestPresent(t *testing.T) {
	broken := errors.New("broken")
	ready := func(name string) error {
		switch name {
		case "absent":
			_, err := measure.Find("no-such-program", "no-such-package")
			return err
		case "broken":
			return broken
		}
		return nil
	}
	name := func(s string) string { return s }
	var said []string
	log := func(_ string, args ...any) { said = append(said, args[0].(string)) }
	if there, err := measure.Present([]string{"a", "absent", "b"}, name, ready, log); err != nil ||
		!slices.Equal(there, []string{"a", "b"}) {
		t.Errorf("present are %v, %v, want a and b", there, err)
	}
	if !slices.Equal(said, []string{"absent"}) {
		t.Errorf("left out: %q", said)
	}
	if _, err := measure.Present([]string{"absent"}, name, ready, log); !errors.Is(err,
		measure.ErrMissing) {
		t.Errorf("with no contender left: %v", err)
	}
	if _, err := measure.Present([]string{"a", "broken"}, name, ready, log); err != broken {
		t.Errorf("with a broken contender: %v", err)
	}
}

var listening = measure.RegisterChild("test-listen", func(args []string) error {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	for { // until it is stopped
		if _, err := l.Accept(); err != nil {
			return err
		}
	}
})

// TestServer starts this program as a server and reads its resource use.
func TestServer(t *testing.T) {
	addr, err := measure.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := measure.Self(listening, addr)
	if err != nil {
		t.Fatal(err)
	}
	s, err := measure.StartServer(t.Context(), addr, cmd)
	if err != nil {
		t.Fatal(err)
	}
	if u, err := measure.UsageOf(s.PIDs); runtime.GOOS == "linux" &&
		(err != nil || u.Peak < 1<<20) {
		t.Errorf("%+v, %v, want the memory of a process", u, err)
	}
	s.Stop()
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("it accepts connections after Stop")
	}
	if _, err := measure.UsageOf(s.PIDs); err == nil {
		t.Error("a process that has ended has a usage")
	}
}

var echoing = measure.RegisterChild("test-echo", func(args []string) error {
	_, err := io.Copy(os.Stdout, os.Stdin)
	return errors.Join(err, errors.New(args[0]))
})

// TestChild sends requests to a child process, which ends when its input is closed.
func TestChild(t *testing.T) {
	cmd, err := measure.Self(echoing, "as a failure")
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	c, err := measure.StartChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"a", "", "b c"} {
		if got, err := c.Ask(line); err != nil || got != line+"\n" {
			t.Errorf("%q is echoed as %q, %v", line, got, err)
		}
	}
	for range 2 {
		if err := c.Close(); err == nil || !strings.Contains(said.String(), "as a failure") {
			t.Errorf("a child that fails ends with %v, and says %q", err, &said)
		}
	}
	if _, err := c.Ask("d"); err == nil {
		t.Error("a child that has ended answers")
	}
}

var stubborn = measure.RegisterChild("test-stubborn", func([]string) error {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
})

// TestStop stops a process that ignores SIGTERM.
func TestStop(t *testing.T) {
	cmd, err := measure.Self(stubborn)
	if err != nil {
		t.Fatal(err)
	}
	c, err := measure.StartChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Line(); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(time.Millisecond); err == nil || cmd.ProcessState == nil {
		t.Errorf("a process that ignores SIGTERM is stopped with %v, state %v", err,
			cmd.ProcessState)
	}
	c.Close()
}

func TestServersThatDoNotStart(t *testing.T) {
	cmd, err := measure.Self(echoing, "as a failure")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if _, err := measure.StartServer(t.Context(), "127.0.0.1:1", cmd); err == nil {
		t.Error("a server that ends at once has started")
	}
	if _, err := measure.StartServer(t.Context(), "127.0.0.1:1",
		exec.Command("/no/such/program")); err == nil {
		t.Error("a program that does not exist has started")
	}
	if _, err := measure.Build(t.Context(), t.TempDir(), "no/such/package"); err == nil {
		t.Error("a package that does not exist is built")
	}
}

// TestNginx starts an nginx and finds its worker process.
func TestNginx(t *testing.T) {
	s, err := measure.StartNginx(t.Context(), t.TempDir(), func(addr string) string {
		return "events { }\nhttp { access_log off; server { listen " + addr + "; } }\n"
	})
	benchtest.Need(t, err)
	defer s.Stop()
	if u, err := measure.UsageOf(s.PIDs); err != nil || len(s.PIDs) != 1 || u.Peak == 0 {
		t.Errorf("processes %v: %+v, %v, want one with its memory", s.PIDs, u, err)
	}
}

func TestUntilStopped(t *testing.T) {
	ctx, stop := measure.UntilStopped()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("SIGTERM does not end the context")
	}
}

func TestSizes(t *testing.T) {
	for s, want := range map[string]int{"1": 1, "1000001": 1000001, "64KiB": 64 << 10,
		"10MiB": 10 << 20} {
		if n, err := measure.ParseSize(s); err != nil || n != want || measure.SizeName(n) != s {
			t.Errorf("%q is %d (%s), %v, want the same text again", s, n, measure.SizeName(n), err)
		}
	}
	for _, s := range []string{"", "0", "-1", "KiB", "1KB", "1GiB", "1.5MiB"} {
		if n, err := measure.ParseSize(s); err == nil {
			t.Errorf("%q is accepted as %d", s, n)
		}
	}
}
