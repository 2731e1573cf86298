package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
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

	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/spf13/pflag"
)

// asCommand makes the test binary act as the command, for tests that need a child process.
const asCommand = "MILLRACE_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	leaktest.Main(m)
}

// output collects the output of a running command.
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

// execute runs the command.
func execute(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// A server and a load on it are started as a user starts them.
func TestServeAndLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log output
	served := make(chan error, 1)
	go func() {
		served <- execute(ctx, io.Discard, &log, "serve", "--demo", "--listen", "127.0.0.1:0",
			"--takeover", "never")
	}()
	address := regexp.MustCompile(`address=(\S+)`)
	var url string
	for deadline := time.Now().Add(time.Minute); url == ""; time.Sleep(time.Millisecond) {
		if m := address.FindStringSubmatch(log.String()); m != nil {
			url = "http://" + m[1]
		} else if time.Now().After(deadline) {
			t.Fatalf("the server does not say where it listens:\n%s", &log)
		}
	}
	quick := []string{"load", "--url", url, "--viewers", "3", "--ramp", "10ms", "--settle", "10ms",
		"--duration", "1s"}

	var out bytes.Buffer
	if err := execute(ctx, &out, io.Discard, append(quick, "--json")...); err != nil {
		t.Fatal(err)
	}
	var report load.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v in the report:\n%s", err, &out)
	}
	if report.Viewers.Connected != 3 || report.Bytes == 0 || report.Viewers.Lost != 0 {
		t.Errorf("%+v, want three viewers with bytes, and none lost", report)
	}

	out.Reset()
	usage := ""
	if runtime.GOOS == "linux" {
		quick, usage = append(quick, "--server-pid", strconv.Itoa(os.Getpid())), "s CPU"
	}
	if err := execute(ctx, &out, io.Discard, append(quick, "--no-publish", "--name",
		"demo")...); err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(
		`(?m)^viewers  3 of 3 +- +- +- .* - +- +-$`).FindString(out.String()); m == "" {
		t.Errorf("losses of a stream without numbers:\n%s", &out)
	}
	for _, want := range []string{"delivered", "3 of 3", "gap p50", "generator", usage} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, &out)
		}
	}

	out.Reset()
	err := execute(ctx, &out, io.Discard, append(quick, "--name", "demo", "--name", "mine",
		"--duration", "2s")...)
	if err == nil || !strings.Contains(err.Error(), "1 of 2 publishers failed") ||
		!strings.Contains(out.String(), "409 Conflict") {
		t.Errorf("with a name that is taken: %v\n%s", err, &out)
	}

	// An interrupted load is an error, because it is not the requested load, but it still prints a
	// report.
	for _, format := range []string{"--json=false", "--json"} {
		out.Reset()
		short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		err := execute(short, &out, io.Discard, append(quick, format, "--duration", "1h")...)
		stop()
		if err == nil || !strings.Contains(err.Error(), "interrupted") || exitStatus(err) != 1 ||
			!strings.Contains(out.String(), "interrupted") ||
			!strings.Contains(out.String(), "delivered") && format != "--json" {
			t.Errorf("interrupted with %s: %v\n%s", format, err, &out)
		}
	}
	if strings.Contains(log.String(), "status=400") {
		t.Errorf("a publisher's body had no end:\n%s", &log)
	}

	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v, want nil", err)
	}
	if !strings.Contains(log.String(), "msg=stopped") {
		t.Errorf("the server's log:\n%s", &log)
	}
}

// A load without viewers has no line about viewers, and no cost per gigabyte.
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

server  30ms CPU, 5 MB resident, at most 6 MB
`
	if err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant:\n%s", err, &out, want)
	}
	out.Reset()
	if err := printReport(&out, load.Report{Stalled: load.Viewers{Wanted: 2}, Bytes: 1,
		Server: &load.Usage{CPUPerGB: 0.5}}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "\nviewers ") ||
		!strings.Contains(text, "\nstalled  0 of 2 ") ||
		!strings.Contains(text, "server  0s CPU (0.50 s a delivered GB)") {
		t.Errorf("all viewers stall:\n%s", text)
	}
}

// Viewers that read nothing during the measurement have no gaps. A gap of 0s would mean that they
// were served without a pause.
func TestReportWithoutMeasurements(t *testing.T) {
	var out bytes.Buffer
	err := printReport(&out, load.Report{
		Viewers: load.Viewers{Wanted: 1, Connected: 1, Numbered: true,
			Gap: load.Spread{Count: 1, P50: time.Second, P99: time.Second, Max: time.Second}},
		Stalled: load.Viewers{Wanted: 2, Connected: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"viewers": "viewers 1 of 1 0 0 0 1s 1s 1s - - -",
		"stalled": "stalled 2 of 2 - - - - - - - - -",
	} {
		got := ""
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, name) {
				got = strings.Join(strings.Fields(line), " ")
			}
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	p := load.Progress{Total: 4 * time.Second, Elapsed: 5 * time.Second, Measuring: true,
		Publishers: 2, Viewers: 6, Bytes: 12_300_000, Lost: 5, Ended: 1}
	want := "4s of 4s, measuring: 2 publishers, 6 viewers, 12.3 MB, 5 tags lost, 1 disconnects"
	if got := progressLine(p); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An invalid value is reported with its flag, and ends every command with status 2. Any other
// failure ends it with status 1.
func TestErrorsNameTheFlag(t *testing.T) {
	const number, aTime = "want a whole number, as in 100",
		"want a time with its unit, as in 90s, 5m or 1h30m"
	for _, tt := range []struct {
		args, says string
		status     int
	}{
		{"dance", `unknown command "dance"`, 2},
		{"help dance", `unknown command "dance" for "millrace"`, 2},
		{"help serve dance", `unknown command "dance" for "millrace serve"`, 2},
		{"load --dance", "unknown flag: --dance: see millrace load --help", 2},
		{"serve -d", "unknown shorthand flag: 'd' in -d: see millrace serve --help", 2},
		{"serve --listen", "flag needs an argument: --listen: see millrace serve --help", 2},
		{"serve now", "takes no argument", 2},
		{"serve --max-streams 0", "--max-streams is 0, want at least 1", 2},
		{"serve --keep-frames 9999999", "--keep-frames is 9999999, want at most 1048576", 2},
		{"serve --lag-policy wait", "want skip or drop", 2},
		{"serve --takeover perhaps", "want always, stalled or never", 2},
		{"serve --publisher-return -1s", "--publisher-return is -1s", 2},
		{"serve --keep-bytes lots", "--keep-bytes is \"lots\", want a whole number of bytes", 2},
		{"serve --keep-bytes 1K", "--keep-bytes is 1KiB, want at least 64KiB", 2},
		{"serve --unsent 2GiB", "want less than 2GiB", 2},
		{"serve --log-format xml", "--log-format", 2},
		{"serve --log-level loud", "--log-level", 2},
		{"serve --listen 8080", `--listen is "8080", want HOST:PORT, as in 127.0.0.1:8080`, 2},
		{"serve --listen=", `--listen is "", want HOST:PORT`, 2},
		{"serve --admin ::1:3", `--admin is "::1:3", want HOST:PORT`, 2},
		{"serve --listen 127.0.0.1:99999", `--listen is "127.0.0.1:99999", want a port from 0 to 65535`, 2},
		{"serve --rtmp :1935a", `--rtmp is ":1935a", want a port from 0 to 65535`, 2},
		{"serve --admin 127.0.0.1:-1", `--admin is "127.0.0.1:-1", want a port from 0 to 65535`, 2},
		{"serve --listen 192.0.2.1:80", "this machine has no such address", 1},
		{"serve --latency 5s", "--latency is 5s, want at most 1s", 2},
		{"serve --latency -1s", "--latency is -1s, want at least 0s", 2},
		{"serve --latency 5", `--latency is "5", ` + aTime, 2},
		{"serve --tls-cert cert.pem", "--tls-cert and --tls-key", 2},
		{"serve --rtmp 1935", `--rtmp is "1935", want HOST:PORT, as in 127.0.0.1:1935, or :1935 for all addresses`, 2},
		{"serve --rtmps :1936", "--rtmps needs --tls-cert and --tls-key", 2},
		{"serve --redis http://127.0.0.1", "--redis", 2},
		{"serve --redis redis://127.0.0.1 --redis-prefix {x}", "--redis-prefix", 2},
		{"serve --redis redis://127.0.0.1 --blobs dir", "want one of them", 2},
		{"serve --files-listing", "--files-listing has no effect without --root", 2},
		{"serve --redis-prefix x --blobs dir", "--redis-prefix has no effect without --redis", 2},
		{"serve --max-uploads 3 --root dir", "--max-uploads has no effect without --blobs or --redis", 2},
		{"serve --root /nowhere/to/be/found", "no such file", 1},
		{"serve --blobs /nowhere/to/be/found", "no such file", 1},
		{"serve --tls-cert /nowhere --tls-key /nowhere", "no such file", 1},
		{"load --viewers -1", "viewers", 2},
		{"load --url http://example.org", "--remote", 2},
		{"load --server-pid 1073741824", "--server-pid 1073741824", 2},
		{"load --server-pid= --url http://127.0.0.1:1", "no such process", 2},
		{"load --server-pid 1,millrace", `"millrace" is not a process number`, 2},
		{"load --ramp 1", `--ramp is "1", ` + aTime, 2},
		{"doctor --viewers x", `--viewers is "x", ` + number, 2},
		{"load --viewers 1e3", `--viewers is "1e3", ` + number, 2},
		{"load --json=x", `--json is "x", want true or false, or nothing, which is true`, 2},
		{"load --viewers 9999999999999999999",
			"--viewers is 9999999999999999999, which is out of range", 2},
	} {
		var out bytes.Buffer
		err := execute(t.Context(), &out, &out, strings.Fields(tt.args)...)
		if err == nil || !strings.Contains(err.Error(), tt.says) || exitStatus(err) != tt.status ||
			tt.status == 2 && out.Len() > 0 || strings.Contains(err.Error(), "strconv") {
			t.Errorf("millrace %s: %v, want status %d and %q\n%s", tt.args, err, tt.status, tt.says,
				&out)
		}
	}
}

func TestHelp(t *testing.T) {
	var about bytes.Buffer
	if err := execute(t.Context(), &about, io.Discard, "--help"); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"RTMP", "HLS", "records", "cluster", "OBS", "files", "blobs"} {
		if !strings.Contains(about.String(), word) {
			t.Errorf("millrace --help does not mention %s", word)
		}
	}
	var help, usage bytes.Buffer
	if err := execute(t.Context(), &help, io.Discard, "help", "load"); err != nil {
		t.Error(err)
	}
	if err := execute(t.Context(), &usage, io.Discard, "load", "--help"); err != nil ||
		help.String() != usage.String() {
		t.Errorf("%v\n%s\nwant:\n%s", err, &help, &usage)
	}
}

// The error for a port in use names the flag, and says how to choose another port.
func TestPortInUse(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its error has no name in package syscall")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	for _, args := range [][]string{
		{"serve", "--rtmp=", "--listen", ln.Addr().String()},
		{"serve", "--listen", "127.0.0.1:0", "--rtmp=", "--admin", ln.Addr().String()},
		{"serve", "--listen", "127.0.0.1:0", "--rtmp", ln.Addr().String()},
	} {
		says := fmt.Sprintf("choose another port, as in %s 127.0.0.1:%d, or", args[len(args)-2],
			port%math.MaxUint16+1)
		err := execute(t.Context(), io.Discard, io.Discard, args...)
		if err == nil || !strings.Contains(err.Error(), says) || exitStatus(err) != 1 {
			t.Errorf("millrace %s: %v, want an error that names the port, and status 1", args, err)
		}
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if err := execute(t.Context(), &out, io.Discard, "version"); err != nil ||
		!strings.HasPrefix(out.String(), "millrace ") {
		t.Errorf("version prints %q, %v", &out, err)
	}
	var flag bytes.Buffer
	if err := execute(t.Context(), &flag, io.Discard, "--version"); err != nil ||
		flag.String() != out.String() {
		t.Errorf("--version: %q, %v; want %q", &flag, err, &out)
	}
}

var update = flag.Bool("update", false, "write docs/flags.md instead of comparing it")

// docs/flags.md is generated from the flags.
func TestFlagsPage(t *testing.T) {
	const file = "../../../docs/flags.md"
	var want bytes.Buffer
	newServeConfig().writePage(&want)
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/flags.md is not what the flags say: go test ./server/cmd/millrace -run TestFlagsPage -update")
	}
}

// The documentation of load lists each of its flags with its default, and no other flags.
func TestLoadPageListsEveryFlag(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/load.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## Flags\n")
	section, _, _ = strings.Cut(section, "\n## ")
	flags := loadCommand().Flags()
	flags.VisitAll(func(f *pflag.Flag) {
		value := f.DefValue
		if value == "" || value == "false" || value == "[]" {
			value = "–"
		}
		if row := "| `--" + f.Name + "` | " + value + " |"; !strings.Contains(section, row) {
			t.Errorf("docs/load.md has no row under Flags that begins %q", row)
		}
	})
	for _, m := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)`").FindAllStringSubmatch(section,
		-1) {
		if flags.Lookup(m[1]) == nil {
			t.Errorf("docs/load.md tells of --%s, which there is not", m[1])
		}
	}
}

// The output of pidof for one or several processes is a valid list.
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
				t.Errorf("%q: %v, want it accepted", s, err)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.set, got, tt.want)
		}
	}
}
