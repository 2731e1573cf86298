package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/server"
	"github.com/spf13/pflag"
)

// configFile writes a file for --config.
func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "millrace.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// readServeConfig returns the configuration that millrace serve reads from a command line.
func readServeConfig(t *testing.T, args ...string) *serveConfig {
	t.Helper()
	c := newServeConfig()
	c.flags.StringVar(&c.file, "config", "", "")
	if err := c.flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := c.read(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Each flag can be set in each way. A flag overrides a variable, which overrides the file.
func TestFlagOverridesEnvironmentAndFile(t *testing.T) {
	file := configFile(t, `
max-viewers: 1
max-streams: 1   # the variable counts
keep-bytes: 1MiB # the flag counts
lag-policy: drop
latency: 20ms
demo: true
rtmp: ""
redis: redis://127.0.0.1
redis-password: of the file
`)
	t.Setenv("MILLRACE_MAX_STREAMS", "2")
	t.Setenv("MILLRACE_KEEP_BYTES", "8MiB")
	t.Setenv("MILLRACE_MAX_DOWNLOADS", "") // counts as not set
	t.Setenv("MILLRACE_READ_TOKEN", "seen")
	t.Setenv("MILLRACE_CLUSTER_TOKEN", "for another server")
	t.Setenv("MILLRACE_PORT", "tcp://10.0.0.1:80") // Kubernetes sets it like this for a service
	c := readServeConfig(t, "--config", file, "--keep-bytes", "32MiB")
	if c.MaxViewers != 1 || c.MaxStreams != 2 || c.KeepBytes != 32<<20 || c.MaxDownloads != 4096 ||
		c.LagPolicy != "drop" || c.Latency != 20*time.Millisecond || !c.Demo || c.RTMP != "" ||
		c.RTMPOptional ||
		c.ReadToken != "seen" || c.RedisPassword != "of the file" {
		t.Errorf("%+v, want flags before variables, and variables before the file", c.Config)
	}
	t.Setenv("MILLRACE_CONFIG", file)
	t.Setenv("MILLRACE_MAX_STREAMS", "")
	if c := readServeConfig(t); c.MaxStreams != 1 || c.KeepBytes != 8<<20 {
		t.Errorf("$MILLRACE_CONFIG: %+v", c.Config)
	}
	t.Setenv("MILLRACE_CONFIG", file+".none")
	if err := newServeConfig().read(); err == nil ||
		!strings.HasPrefix(err.Error(), "$MILLRACE_CONFIG: ") {
		t.Errorf("a file that is not there: %v", err)
	}
	if c := readServeConfig(t, "--config", configFile(t, "# nothing\n")); c.MaxStreams != 128 ||
		!c.RTMPOptional {
		t.Errorf("an empty file: %+v", c.Config)
	}
}

// The output of --print-config is read as the same configuration.
func TestPrintedConfigIsRead(t *testing.T) {
	t.Setenv("MILLRACE_CLUSTER_TOKEN", "x") // which is not printed
	const text = "cluster: redis://127.0.0.1:1\nadvertise: http://127.0.0.1:1\nsegments: \"\"\nrtmp: \"\"\nlag-policy: drop\nkeep-bytes: 8MiB\nlatency: 20ms\ncors: \"*\"\ndemo: true\n"
	c := readServeConfig(t, "--config", configFile(t, text))
	var printed bytes.Buffer
	if err := c.print(&printed); err != nil {
		t.Fatal(err)
	}
	again := readServeConfig(t, "--config", configFile(t, printed.String()))
	if again.Segments != "" || again.LagPolicy != "drop" || again.KeepBytes != 8<<20 ||
		again.RTMP != "" ||
		again.Latency != 20*time.Millisecond || again.CORS != "*" || !again.Demo ||
		again.from["segments"] == "" {
		t.Errorf("%s\nwas read as %+v, want the printed configuration", &printed, again.Config)
	}
}

// --push is read again for a reload, is not printed, and is not in errors, because it may have a key.
func TestPushIsSecret(t *testing.T) {
	c := readServeConfig(t, "--push", "live/cam=rtmp://h/app/s3cret", "--push",
		"live/a-*=rtmp://h/app/{name}")
	next, err := c.reread()
	if err != nil || len(next.Push) != 2 || next.Push.String() != c.Push.String() {
		t.Errorf("read again: %v, %v, want %v", &next.Push, err, &c.Push)
	}
	var printed bytes.Buffer
	if err := c.print(&printed); err != nil || strings.Contains(printed.String(), "s3cret") {
		t.Errorf("%v, the configuration is printed as\n%s", err, &printed)
	}
	bad := "live/cam=rtmp://h/s3cret"
	errs := []error{execute(t.Context(), io.Discard, io.Discard, "serve", "--push", bad),
		execute(t.Context(), io.Discard, io.Discard, "serve", "--config", configFile(t, "push: "+bad+"\n"))}
	t.Setenv("MILLRACE_PUSH", bad)
	errs = append(errs, execute(t.Context(), io.Discard, io.Discard, "serve"))
	for i, err := range errs {
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(strings.ToLower(err.Error()), "push") {
			t.Errorf("%d: %v, want an error without the key", i, err)
		}
	}
	t.Setenv("MILLRACE_PUSH", "")
	t.Setenv("MILLRACE_PUSH_KEY_YOUTUBE", "x")
	if names := c.unknownVariables(os.Environ()); slices.Contains(names, "MILLRACE_PUSH_KEY_YOUTUBE") {
		t.Error("the variable of a key is unknown")
	}
}

// Every flag has a variable.
func TestVariables(t *testing.T) {
	c := newServeConfig()
	c.flags.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		switch {
		case value == "" && f.Name == "segments":
			value = "redis"
		case f.Name == "push":
			value = "live/cam=rtmp://host/app/{key}"
		case value == "":
			value = "x"
		}
		t.Setenv(variable(f.Name), value)
	})
	_ = c.read() // it detects that this is not a configuration
	c.flags.VisitAll(func(f *pflag.Flag) {
		if from := c.from[f.Name]; from != "$"+variable(f.Name) {
			t.Errorf("--%s is from %q", f.Name, from)
		}
	})
}

// An error in the file is reported with its line, and one in the environment with its variable.
// Both end the command with status 2.
func TestFileErrorsNameTheLine(t *testing.T) {
	for _, tt := range []struct{ text, says string }{
		{"listen: :8080\nmax-viewer: 5\n", ":2: millrace serve has no flag --max-viewer"},
		{"\nconfig: other.yaml\n", ":2: millrace serve has no flag --config"},
		{"max-viewers: many\n", `:1: max-viewers is "many", want a whole number`},
		{"max-viewers: 5\nlisten: :1\nmax-viewers: 6\n", ":3: max-viewers is in line 1 already"},
		{"demo: yes\n", `:1: demo is "yes", want true or false`},
		{"latency: 5\n", `:1: latency is "5", want a time with its unit`},
		{"keep-bytes: lots\n", `:1: keep-bytes is "lots", want a whole number of bytes`},
		{"lag-policy: wait\n", ":1: lag-policy is \"wait\", want skip or drop"},
		{"listen: [a, b]\n", ":1: listen is a list"},
		{"listen: {a: b}\n", ":1: listen is a list, a mapping"},
		{"rtmp:\n", `:1: rtmp has no value: write "" for none`},
		{"- listen\n", ":1: want lines such as"},
		{"listen: :1\n---\nlisten: :2\n", "want one document"},
		{"listen: :1\n  rtmp: :2\n", "line 2: "},
		{"\t\n: :\n", "millrace.yaml: "},
		{"max-streams: 0\n", "--max-streams is 0, want at least 1 (max-streams: "},
		{"tls-cert: a\n", "millrace.yaml:1)"},
		{"listen: 8080\n", "millrace.yaml:1)"},
		{"\nlog-level: loud\n", "millrace.yaml:2)"},
		{"files-listing: true\n", "--files-listing has no effect without --root (files-listing: "},
		{strings.Repeat("# long\n", maxConfig/7+1), "is longer than 1MiB"},
	} {
		file := configFile(t, tt.text)
		err := execute(t.Context(), io.Discard, io.Discard, "serve", "--config", file)
		if err == nil || !strings.Contains(err.Error(), tt.says) || exitStatus(err) != 2 ||
			!strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%.100q: %v, want %q", tt.text, err, tt.says)
		}
	}
	if err := execute(t.Context(), io.Discard, io.Discard, "serve", "--config",
		"/nowhere"); err == nil || exitStatus(err) != 2 ||
		!strings.Contains(err.Error(), "--config: open /nowhere") {
		t.Errorf("no file: %v", err)
	}
	t.Setenv("MILLRACE_MAX_VIEWERS", "many")
	if err := execute(t.Context(), io.Discard, io.Discard, "serve"); err == nil ||
		exitStatus(err) != 2 ||
		!strings.Contains(err.Error(), `$MILLRACE_MAX_VIEWERS is "many", want a whole number`) {
		t.Errorf("a variable: %v, want an error that names it, and status 2", err)
	}
}

// The printed configuration has no secrets, and can be read back.
func TestPrintConfig(t *testing.T) {
	t.Setenv("MILLRACE_PUBLISH_TOKEN", "s3cret-p")
	t.Setenv("MILLRACE_MAX_STREAMS", "7")
	file := configFile(t, `
read-token: s3cret-r
root: /srv/a # b
files-listing: true
record-streams: "*: cam"
record: "/srv/\n'x"
cluster-lease: 7s
cluster-token: s3cret-c
cluster: redis+cluster://user:s3cret-u@h1:1,h2:2
advertise: http://10.0.0.5:8080
redis: redis://:s3cret-v@127.0.0.1/1
redis-password: s3cret-w
`)
	var out bytes.Buffer
	if err := execute(t.Context(), &out, io.Discard, "serve", "--print-config", "--config", file,
		"--listen", ":9000", "--rtmp="); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "s3cret") ||
		strings.Count(text, ": hidden, from ") != 6 ||
		!strings.Contains(text, "# publish-token: hidden, from $MILLRACE_PUBLISH_TOKEN\n") ||
		!strings.Contains(text, "\nlisten: :9000 # the command line\n") ||
		!strings.Contains(text, "\n# max-viewers: 4096\n") {
		t.Errorf("it prints\n%s", text)
	}
	t.Setenv("MILLRACE_MAX_STREAMS", "")
	again := configFile(t, out.String()+`
read-token: s3cret-r
cluster-token: s3cret-c
cluster: redis+cluster://user:s3cret-u@h1:1,h2:2
redis: redis://:s3cret-v@127.0.0.1/1
redis-password: s3cret-w
`)
	t.Setenv("MILLRACE_PUBLISH_TOKEN", "")
	before := readServeConfig(t, "--config", file, "--listen", ":9000", "--rtmp=", "--max-streams",
		"7")
	after := readServeConfig(t, "--config", again)
	before.flags.VisitAll(func(f *pflag.Flag) {
		if got := after.flags.Lookup(f.Name).Value.String(); f.Name != "config" &&
			got != f.Value.String() {
			t.Errorf("%s is %q, and was %q", f.Name, got, f.Value)
		}
	})
	if after.RTMPOptional {
		t.Error("the address of RTMP is taken for the default")
	}
}

// Misspelled variables are reported at the start. Those of Kubernetes are not.
func TestUnknownVariables(t *testing.T) {
	c := newServeConfig()
	got := c.unknownVariables([]string{
		"MILLRACE_LISTEN=:1", "MILLRACE_MAX_VIEWERS=1", "MILLRACE_CONFIG=x",
		"MILLRACE_REDIS_PASSWORD=x", "PATH=/bin", "MILLRACE=x",
		"MILLRACE_PORT=tcp://10.0.0.1:80", "MILLRACE_SERVICE_HOST=10.0.0.1",
		"MILLRACE_SERVICE_PORT_HTTP=80", "MILLRACE_RTMP_PORT_1935_TCP_ADDR=10.0.0.1",
		"MILLRACE_LISTN=:1", "MILLRACE_MAXVIEWERS=1", "MILLRACE_MAX-VIEWERS=1",
		"millrace_listen=:1", "MILLRACE_TOKEN=s3cret", "MILLRACE_=x",
		"MILLRACE_RTMP_PORT=1935", "MILLRACE_PORT=8080", "MILLRACE_LIVE_PORT=udp://10.0.0.1:80",
	})
	want := []string{"MILLRACE_", "MILLRACE_LISTN", "MILLRACE_MAX-VIEWERS", "MILLRACE_MAXVIEWERS",
		"MILLRACE_PORT",
		"MILLRACE_RTMP_PORT", "MILLRACE_TOKEN", "millrace_listen"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	t.Setenv("MILLRACE_LISTN", "s3cret")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log output
	if err := execute(ctx, &out, &log, "serve", "--listen", "127.0.0.1:0", "--rtmp",
		""); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.Contains(got, "variable=MILLRACE_LISTN") ||
		strings.Contains(got, "s3cret") {
		t.Errorf("the log has\n%s", got)
	}
}

// deploy/millrace.yaml works unchanged, and with every commented line.
func TestTheDeployedConfiguration(t *testing.T) {
	const file = "../../../deploy/millrace.yaml"
	if c := readServeConfig(t, "--config", file); len(c.from) != 0 &&
		!slices.Equal(slices.Collect(maps.Keys(c.from)), []string{"config"}) {
		t.Errorf("it sets %v", c.from)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^# ([a-z-]+: \S)`).ReplaceAllString(string(text), "$1")
	c := readServeConfig(t, "--config", configFile(t, shown))
	for line := range strings.Lines(shown) {
		name, _, _ := strings.Cut(line, ":")
		if line[0] == '#' || line[0] == '\n' {
			continue
		}
		marked := strings.Contains(line, "[reload]")
		if marked != (slices.Contains(server.Reloadable, name) || name == "tls-cert") {
			t.Errorf("%s: marked as one that is read again: %t", name, marked)
		}
	}
	if len(c.from) < 30 || c.RecordBytes != 100e9 || c.RTMPS != ":1936" {
		t.Errorf("%d flags, %+v, want what the file says", len(c.from), c.Config)
	}
}
