package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/leaktest"
	"github.com/millrace-io/millrace/internal/load"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// asCommand has the test's binary be the command, for tests that need a process of its own.
const asCommand = "MILLRACE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	leaktest.Main(m)
}

// output is what a command prints, while it prints it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// millrace runs the command.
func millrace(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// A server and a load on it, as a user starts them.
func TestServeAndLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log output
	served := make(chan error, 1)
	go func() { served <- millrace(ctx, io.Discard, &log, "serve", "--demo", "--listen", "127.0.0.1:0") }()
	address := regexp.MustCompile(`address=(\S+)`)
	var url string
	for deadline := time.Now().Add(10 * time.Second); url == ""; time.Sleep(time.Millisecond) {
		if m := address.FindStringSubmatch(log.String()); m != nil {
			url = "http://" + m[1]
		} else if time.Now().After(deadline) {
			t.Fatalf("the server does not say where it listens:\n%s", &log)
		}
	}
	quick := []string{"load", "--url", url, "--viewers", "3", "--ramp", "10ms", "--settle", "10ms", "--duration", "300ms"}

	var out bytes.Buffer
	if err := millrace(ctx, &out, io.Discard, append(quick, "--json")...); err != nil {
		t.Fatal(err)
	}
	var report load.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in:\n%s", err, &out)
	}
	if report.Viewers.Connected != 3 || report.Bytes == 0 || report.Viewers.Lost != 0 {
		t.Errorf("%+v", report)
	}

	out.Reset()
	usage := ""
	if runtime.GOOS == "linux" {
		quick, usage = append(quick, "--server-pid", strconv.Itoa(os.Getpid())), "CPU s a delivered GB"
	}
	if err := millrace(ctx, &out, io.Discard, append(quick, "--no-publish", "--name", "demo")...); err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^viewers  3 of 3 +- +- +- .* - +- +-$`).FindString(out.String()); m == "" {
		t.Errorf("losses of a stream without numbers:\n%s", &out)
	}
	for _, want := range []string{"delivered", "3 of 3", "gap p50", "generator", usage} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, &out)
		}
	}

	out.Reset()
	err := millrace(ctx, &out, io.Discard, append(quick, "--name", "demo", "--name", "mine", "--duration", "2s")...)
	if err == nil || !strings.Contains(err.Error(), "1 of 2 publishers failed") || !strings.Contains(out.String(), "409 Conflict") {
		t.Errorf("with a stream of somebody else: %v\n%s", err, &out)
	}

	// Cut short, it is not the load that was asked for, though there is a report.
	for _, format := range []string{"--json=false", "--json"} {
		out.Reset()
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		err := millrace(short, &out, io.Discard, append(quick, format, "--duration", "1h")...)
		stop()
		if err == nil || !strings.Contains(err.Error(), "interrupted") || exitStatus(err) != 1 ||
			!strings.Contains(out.String(), "interrupted") || !strings.Contains(out.String(), "delivered") && format != "--json" {
			t.Errorf("interrupted with %s: %v\n%s", format, err, &out)
		}
	}
	if strings.Contains(log.String(), "status=400") {
		t.Errorf("a publisher's body had no end:\n%s", &log)
	}

	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
	if !strings.Contains(log.String(), "msg=stopped") {
		t.Errorf("the server's log:\n%s", &log)
	}
}

// Whom nobody watches is not told about viewers, nor what it costs to deliver nothing.
func TestReportOfALoadWithoutViewers(t *testing.T) {
	used := &load.Usage{CPU: 30 * time.Millisecond, RSS: 5e6, PeakRSS: 6e6}
	var out bytes.Buffer
	err := printReport(&out, load.Report{
		Target: "http://127.0.0.1:8080", Measured: 2 * time.Second, Server: used,
		Publishers: load.Publishers{Wanted: 1, Connected: 1, Tags: 7, Bytes: 3000},
	})
	const want = `target     http://127.0.0.1:8080
measured   2s
delivered  0 B (0 B/s)
published  1 of 1 streams, 7 tags, 3 kB, at most 0s late

server  - CPU s a delivered GB (30ms in all), 5 MB resident, at most 6 MB
`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant:\n%s", err, &out, want)
	}
	out.Reset()
	if err := printReport(&out, load.Report{Stalled: load.Viewers{Wanted: 2}, Bytes: 1, Server: used}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "\nviewers ") || !strings.Contains(text, "\nstalled  0 of 2 ") ||
		!strings.Contains(text, "server  0.00 CPU s") {
		t.Errorf("all viewers stall:\n%s", text)
	}
}

func TestLoadBar(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out)
	b.show(load.Progress{Total: 4 * time.Second, Publishers: 2, Viewers: 6})
	b.show(load.Progress{Total: 4 * time.Second, Elapsed: time.Second, Measuring: true, Publishers: 2, Viewers: 6,
		Bytes: 12_300_000, Lost: 5, Ended: 1})
	for _, want := range []string{"starting: 2 publishers, 6 viewers", "measuring: 2 publishers, 6 viewers, 12.3 MB, 5 tags lost, 1 disconnects", "25%"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, &out)
		}
	}
	b.show(load.Progress{Total: 4 * time.Second, Elapsed: 5 * time.Second, Measuring: true})
	b.close()
}

func TestMistakesAreToldByTheirFlag(t *testing.T) {
	for _, tt := range []struct{ args, says string }{
		{"serve --max-streams 0", "--max-streams"},
		{"serve --lag-policy wait", "want skip or drop"},
		{"serve --keep-bytes lots", "number of bytes"},
		{"serve --keep-bytes 1K", "--keep-bytes"},
		{"serve --log-format xml", "--log-format"},
		{"serve --log-level loud", "--log-level"},
		{"serve --listen nonsense", `--listen is "nonsense", want HOST:PORT, as in 127.0.0.1:8080`},
		{"serve --listen=", `--listen is "", want HOST:PORT`},
		{"serve --admin ::1:3", `--admin is "::1:3", want HOST:PORT`},
		{"serve --latency -1s", "--latency is -1s, want at least 0s"},
		{"serve --keep-bytes 1K", "is 1024, want at least 65536"},
		{"serve now", "takes no argument"},
		{"serve --files-listing", "--files-listing has no effect without --root"},
		{"serve --redis-prefix x --blobs dir", "--redis-prefix has no effect without --redis or --redis-cluster"},
		{"serve --max-uploads 3 --root dir", "--max-uploads has no effect without --blobs, --redis or --redis-cluster"},
		{"get 127.0.0.1:8080/files/x x", "begins with http:// or https://"},
		{"cut", "usage: millrace cut FILE"},
		{"load --viewers -1", "viewers"},
		{"load --url http://example.org", "--remote"},
		{"load --server-pid 1073741824", "--server-pid 1073741824"},
		{"load --server-pid= --url http://127.0.0.1:1", "there is no such process"},
		{"load --server-pid 1,millrace", `"millrace" is not a process number`},
		{"dance", "unknown command"},
	} {
		err := millrace(t.Context(), io.Discard, io.Discard, strings.Fields(tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("millrace %s: %v, want %q", tt.args, err, tt.says)
		}
	}
}

// A script tells what was typed wrong from what has gone wrong, whatever the command; and nobody has to read Go.
func TestACommandLineThatCannotBeRead(t *testing.T) {
	const number, aTime = "want a whole number, as in 100", "want a time with its unit, as in 90s, 5m or 1h30m"
	for args, says := range map[string]string{
		"dance":                              `unknown command "dance"`,
		"help dance":                         `unknown command "dance" for "millrace"`,
		"help serve dance":                   `unknown command "dance" for "millrace serve"`,
		"load --dance":                       "unknown flag: --dance",
		"get --retries":                      "flag needs an argument: --retries",
		"get one two three":                  "usage: millrace get URL FILE",
		"serve now":                          "takes no argument",
		"serve --log-level loud":             "--log-level",
		"serve --files-listing":              "--files-listing has no effect without --root",
		"bench dance":                        `"dance" is no suite`,
		"put --ttl foo x":                    `--ttl is "foo", ` + aTime,
		"soak --for 1":                       `--for is "1", ` + aTime,
		"soak --seed -1":                     `--seed is "-1", want a whole number, 0 or more, as in 100`,
		"doctor --viewers x":                 `--viewers is "x", ` + number,
		"load --viewers 1e3":                 `--viewers is "1e3", ` + number,
		"load --json=x":                      `--json is "x", want true or false, or nothing, which is true`,
		"load --viewers 9999999999999999999": "--viewers is 9999999999999999999, which is out of range",
		"load --server-pid 1,x":              `--server-pid is "1,x", "x" is not a process number`,
		"cut --json --fixed 4 -":             "exclude each other",
		"serve --listen nonsense":            "want HOST:PORT",
		"cut --size lots":                    `--size is "lots", want a number of bytes, as in 4096, 128KiB or 16MiB`,
	} {
		var out bytes.Buffer
		err := millrace(t.Context(), &out, &out, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), says) || exitStatus(err) != 2 || out.Len() > 0 ||
			strings.Contains(err.Error(), "strconv") {
			t.Errorf("millrace %s: %v, want status 2 and %q\n%s", args, err, says, &out)
		}
	}
	var help, usage bytes.Buffer
	if err := millrace(t.Context(), &help, io.Discard, "help", "load"); err != nil {
		t.Error(err)
	}
	if err := millrace(t.Context(), &usage, io.Discard, "load", "--help"); err != nil || help.String() != usage.String() {
		t.Errorf("%v\n%s\nwant:\n%s", err, &help, &usage)
	}
}

// Whoever has a server already is told how to start another one.
func TestPortInUse(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its error has no name in package syscall")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, args := range [][]string{
		{"serve", "--listen", ln.Addr().String()},
		{"serve", "--listen", "127.0.0.1:0", "--admin", ln.Addr().String()},
	} {
		const says = "choose another port, as in --listen 127.0.0.1:8081"
		err := millrace(t.Context(), io.Discard, io.Discard, args...)
		if err == nil || !strings.Contains(err.Error(), says) || exitStatus(err) != 1 {
			t.Errorf("millrace %s: %v", args, err)
		}
	}
}

func TestBytes(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "4096": 4096, "1K": 1 << 10, "64KiB": 64 << 10, "64kb": 64 << 10, "16MiB": 16 << 20, "2G": 2 << 30,
	} {
		var got int64
		if err := setBytes(s, &got); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", s, got, err, want)
		}
		var again int64
		if err := setBytes(formatBytes(want), &again); err != nil || again != want {
			t.Errorf("%d is printed as %s", want, formatBytes(want))
		}
	}
	for _, s := range []string{"", "K", "-1", "1T", "1.5M", "KiB5", "99999999999G"} {
		if err := setBytes(s, new(int64)); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if err := millrace(t.Context(), &out, io.Discard, "version"); err != nil || !strings.HasPrefix(out.String(), "millrace ") {
		t.Errorf("%q, %v", &out, err)
	}
	var flag bytes.Buffer
	if err := millrace(t.Context(), &flag, io.Discard, "--version"); err != nil || flag.String() != out.String() {
		t.Errorf("--version: %q, %v; want %q", &flag, err, &out)
	}
}

// The user's page tells of every flag of serve and of load with its default, each in its section, and of no other.
func TestThePageTellsOfEveryFlag(t *testing.T) {
	doc, err := os.ReadFile("../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	for heading, cmd := range map[string]*cobra.Command{"Flags": serveCommand(), "Load": loadCommand()} {
		_, section, _ := strings.Cut(string(doc), "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		flags := 0
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			flags++
			value := f.DefValue
			if value == "" || value == "false" || value == "[]" {
				value = "–"
			}
			if row := "| `--" + f.Name + "` | " + value + " |"; !strings.Contains(section, row) {
				t.Errorf("docs/serve.md has no row in %q that begins %q", heading, row)
			}
		})
		for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)`").FindAllStringSubmatch(section, -1) {
			if cmd.Flags().Lookup(m[1]) == nil {
				t.Errorf("docs/serve.md tells of --%s in %q, which there is not", m[1], heading)
			}
		}
		if flags < 15 {
			t.Errorf("%s has %d flags", cmd.Name(), flags)
		}
	}
}

// Chunks end where lines or values do, and are told with offset and length.
func TestCut(t *testing.T) {
	for _, test := range []struct{ args, in, want, err string }{
		{"--lines --size 8 -", "one\ntwo\nthree\n", "0 8\n8 6\n", ""},
		{"--json --size 8 -", `{"a":1}[2, 3]"x"`, "0 7\n7 6\n13 3\n", ""},
		{"--lines --size 1KiB --max-record 1M -", "one\ntwo\n", "0 8\n", ""},
		{"--lines --size 3GiB -", "", "", "--size is 3GiB, want at most 1GiB"},
		{"--fixed 4 --size 9 -", "123456781234", "0 8\n8 4\n", ""},
		{"--lines --size 2 --max-record 4 -", "a\nlonger\n", "0 2\n", "limit"},
		{"--fixed 4 -", "12345", "0 4\n4 1\n", "EOF"},
		{"--lines --json -", "", "", "--lines, --json and --fixed exclude each other"},
		{"--json --fixed 3 -", "", "", "exclude each other"},
		{"--fixed 0 -", "", "", "1 or more"},
		{"no-such-file", "", "", "no such file"},
	} {
		var out, errs bytes.Buffer
		root := command()
		root.SetArgs(append([]string{"cut"}, strings.Fields(test.args)...))
		root.SetIn(strings.NewReader(test.in))
		root.SetOut(&out)
		root.SetErr(&errs)
		err := root.ExecuteContext(t.Context())
		if out.String() != test.want {
			t.Errorf("cut %s: %q, want %q", test.args, out.String(), test.want)
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("cut %s: error %v, want one with %q", test.args, err, test.err)
		}
	}
}

// What pidof prints for one process or for several is a list of them.
func TestServerPIDs(t *testing.T) {
	for _, tt := range []struct {
		set  []string
		want []int
	}{
		{[]string{"12"}, []int{12}},
		{[]string{"12 345"}, []int{12, 345}},
		{[]string{"12,345", "6\n"}, []int{12, 345, 6}},
	} {
		var got pidsValue
		for _, s := range tt.set {
			if err := got.Set(s); err != nil {
				t.Errorf("%q: %v", s, err)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.set, got, tt.want)
		}
	}
}
