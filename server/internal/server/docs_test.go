package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/ops"
)

// userPage returns a page of the user's documentation.
func userPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/metrics.md lists exactly the fields of /api/streams, and docs/admin.md those of viewers.
func TestTheDocumentedAPI(t *testing.T) {
	page := userPage(t, "metrics.md") + userPage(t, "admin.md")
	for heading, of := range map[string]reflect.Type{
		"| field of a stream |": reflect.TypeFor[live.StreamInfo](),
		"| field of `server` |": reflect.TypeFor[ops.ServerReport](),
		"| field of a viewer |": reflect.TypeFor[live.ViewerInfo](),
	} {
		_, table, ok := strings.Cut(page, heading)
		table, _, _ = strings.Cut(table, "\n\n")
		if !ok {
			t.Fatalf("there is no table %q", heading)
		}
		var documented, real []string
		for row := range strings.Lines(table) {
			fields, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
			for _, field := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(fields,
				-1) {
				documented = append(documented, field[1])
			}
		}
		for i := range of.NumField() {
			if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" {
				real = append(real, name)
			}
		}
		slices.Sort(documented)
		slices.Sort(real)
		if !slices.Equal(documented, real) {
			t.Errorf("%s: documented are\n%q, the server has\n%q", heading, documented, real)
		}
	}
}

// A client of /api/streams that was written for the first documented version still finds its
// fields, with their types. This list only grows.
func TestTheAPIIsStable(t *testing.T) {
	f := serve(t, func(c *Config) { c.Demo = true })
	f.published("demo", 1)
	var got struct {
		Server  map[string]any
		Streams []map[string]any
	}
	if err := json.Unmarshal([]byte(f.Get("/api/streams").Body), &got); err != nil ||
		len(got.Streams) != 1 {
		t.Fatalf("%v, %+v, want one stream", err, got)
	}
	for what, check := range map[string]struct {
		object                  map[string]any
		numbers, texts, answers string
	}{
		"server": {got.Server, "uptime_seconds streams viewers bytes_out rtmp rtmps",
			"version files publish read",
			"blobs loopback rtmp_loopback rtmps_loopback"},
		"stream": {got.Streams[0], "waiting_seconds returns takeovers silent_seconds uptime_seconds bits_per_second viewers " +
			"viewers_mp4 viewers_rtmp viewers_hls lag_seconds_max behind_live_seconds_max key_interval_seconds mp4_time_seconds " +
			"kept_bytes further_tracks groups_cut frames_lost stalled",
			"name format video audio publisher", ""},
	} {
		for _, field := range strings.Fields(check.numbers) {
			if _, ok := check.object[field].(float64); !ok {
				t.Errorf("%s: %s is %v, want a number", what, field, check.object[field])
			}
		}
		for _, field := range strings.Fields(check.texts) {
			if _, ok := check.object[field].(string); !ok {
				t.Errorf("%s: %s is %v, want a text", what, field, check.object[field])
			}
		}
		for _, field := range strings.Fields(check.answers) {
			if _, ok := check.object[field].(bool); !ok {
				t.Errorf("%s: %s is %v, want true or false", what, field, check.object[field])
			}
		}
	}
}

// With the configurations for proxies in docs/deploy.md, streams and blobs pass without delay, even
// above nginx's default limit of 1 MiB.
func TestBehindAProxy(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy", "caddy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := need.Program(t, name)
			f := serve(t, func(c *Config) { c.PublishToken, c.Blobs = "secret", t.TempDir() })
			passes(t, f, startDocumentedProxy(t, name, program, f.Addr))
		})
	}
}

// passesStream reports an error if a proxy delays a stream of f.
func passesStream(t *testing.T, f *fixture, client *http.Client) {
	t.Helper()
	stream := random(3 << 20)
	body, send := io.Pipe()
	published := make(chan string, 1)
	go func() {
		published <- exchanged(client, "POST", "http://example.org/live/cam?token=secret",
			body)
	}()
	first, rest := stream[:1<<20], stream[1<<20:]
	_, _ = send.Write(first)
	f.published("cam", len(first))
	res, err := client.Get("http://example.org/live/cam?token=secret")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = send.Write(rest)
	got := make([]byte, len(rest))
	if n, err := io.ReadFull(res.Body, got); err != nil { // while the publisher's body has no end
		t.Fatalf("a viewer has %d bytes: %v", n, err)
	}
	same(t, "the stream", got, rest)
	_ = send.Close()
	if got := <-published; !strings.HasPrefix(got, "200") {
		t.Errorf("the publisher: %s", got)
	}
}

// passes reports an error if a proxy delays streams or blobs of f.
func passes(t *testing.T, f *fixture, client *http.Client) {
	t.Helper()
	passesStream(t, f, client)
	value := random(3 << 20)
	if got := exchanged(client, "PUT", "http://example.org/blobs/a?token=secret",
		bytes.NewReader(value)); !strings.HasPrefix(got, "201") {
		t.Errorf("PUT: %s, want 201", got)
	}
	if got := exchanged(client, "GET", "http://example.org/blobs/a",
		nil); got != "200 "+string(value) {
		t.Errorf("GET: %.100q, want the value", got)
	}
	if got := exchanged(client, "PUT", "http://example.org/blobs/b",
		bytes.NewReader(value)); !strings.HasPrefix(got, "401") {
		t.Errorf("PUT without the token: %s", got)
	}
}

// startDocumentedProxy starts a proxy with its configuration in docs/deploy.md for a server at
// addr, and returns a client of the proxy.
func startDocumentedProxy(t *testing.T, name, program, addr string) *http.Client {
	t.Helper()
	language := map[string]string{"nginx": "nginx", "haproxy": "haproxy",
		"caddy": "caddyfile"}[name]
	_, config, _ := strings.Cut(userPage(t, "deploy.md"), "```"+language+"\n")
	config, _, _ = strings.Cut(config, "```")
	dir := nettest.PlainDir(t)
	socket := filepath.Join(dir, "http")
	replace := func(old, new string) {
		t.Helper()
		if !strings.Contains(config, old) {
			t.Fatalf("docs/deploy.md has no %q for %s: %q", old, name, config)
		}
		config = strings.ReplaceAll(config, old, new)
	}
	replace("127.0.0.1:8080", addr)
	conf := filepath.Join(dir, "conf")
	cmd := exec.Command(program, "-db", "-f", conf)
	switch name {
	case "haproxy":
		replace("bind :80", "bind "+socket)
	case "caddy":
		replace("example.org {", "{\nadmin off\n}\nhttp:// {\nbind unix/"+socket)
		cmd = exec.Command(program, "run", "--adapter", "caddyfile", "--config", conf)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	case "nginx":
		return startNginx(t, program, dir, socket, config)
	}
	if err := os.WriteFile(conf, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return startProxy(t, cmd, socket)
}

// startNginx starts an nginx with a location block on a Unix socket, and returns a client of it.
// The text before the block applies to all servers.
func startNginx(t *testing.T, program, dir, socket, config string) *http.Client {
	t.Helper()
	common, location, _ := strings.Cut(config, "location ")
	conf := filepath.Join(dir, "nginx.conf")
	text := "daemon off; pid " + dir + "/pid; error_log stderr; events {}\nhttp { access_log off;\n"
	if os.Geteuid() == 0 {
		text = "user root;\n" + text // otherwise its workers could not read the directory
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	text += common + "server { listen unix:" + socket + ";\nlocation " + location + "} }\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startProxy(t, exec.Command(program, "-c", conf, "-p", dir), socket)
}

// startProxy starts a proxy that listens on a Unix socket, and returns a client of it.
func startProxy(t *testing.T, cmd *exec.Cmd, socket string) *http.Client {
	t.Helper()
	var said logBook
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", cmd.Path, &said)
		}
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	eventually(t, cmd.Path+" to listen", func() bool {
		conn, err := dial(t.Context(), "", "")
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	tr := &http.Transport{DialContext: dial}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// The command for a test video in docs/publish.md publishes a stream that viewers can watch.
func TestDocumentedTestVideo(t *testing.T) {
	need.Program(t, "ffmpeg")
	command := regexp.MustCompile("(?m)^ffmpeg -re -f lavfi .*$").FindString(userPage(t,
		"publish.md"))
	f := serve(t, nil)
	command = strings.ReplaceAll(command, "127.0.0.1:8080", f.Addr)
	command = strings.Replace(command, " -f flv ", " -t 1 -f flv ", 1) // otherwise it does not end
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := f.Ask("/live/test.mp4", 0)
	cmd := exec.CommandContext(ctx, "sh", "-c", command+" -v error")
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%s: %v, want no output:\n%s", command, err, out)
	}
	w.Begin()
	if got := w.Rest(); len(got) < 20_000 || string(got[4:8]) != "ftyp" {
		t.Errorf("a viewer got %d bytes", len(got))
	}
}

// With the token, the RTMP commands of docs/publish.md and docs/watch.md work. Without it, ffmpeg
// shows the message that the page documents.
func TestDocumentedRTMPCommands(t *testing.T) {
	need.Program(t, "ffmpeg")
	need.Program(t, "rtmpdump")
	publishing := userPage(t, "publish.md")
	command := regexp.MustCompile(
		`(?m)^ffmpeg -re -i film\.mp4 -c copy -f flv rtmp://127\.0\.0\.1/live/film$`).FindString(
		publishing)
	withToken := regexp.MustCompile(
		`(?m)^ffmpeg .*"rtmp://example\.org/live/film\?token=secret"$`).FindString(publishing)
	says := regexp.MustCompile("`(Server error: [^`]*)`").FindStringSubmatch(publishing)
	watching := regexp.MustCompile(`(?m)^rtmpdump .*$`).FindString(userPage(t, "watch.md"))
	if command == "" || withToken == "" || says == nil || watching == "" {
		t.Fatalf("the pages have %q, %q, %q and %q", command, withToken, says, watching)
	}

	var l Listeners
	for _, ln := range []*net.Listener{&l.Main, &l.RTMP} {
		var err error
		if *ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	cfg, book := Defaults(), &logBook{}
	cfg.PublishToken, cfg.PublisherReturn, cfg.ViewerWait = "secret", 0, testTimeout
	cfg.Log = slog.New(slog.NewTextHandler(book, nil))
	f := serveOn(t, cfg, book, l)
	_, port, _ := net.SplitHostPort(l.RTMP.Addr().String())
	want := `"rtmp":` + port + `,"rtmps":0,"loopback":true,"rtmp_loopback":true,"rtmps_loopback":false`
	if got := f.Get("/api/streams").Body; !strings.Contains(got, want) {
		t.Errorf("/api/streams is %s, want %s", got, want)
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "film.mp4"), demo.Sample, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(ctx context.Context, command string) (string, error) {
		for _, host := range []string{"127.0.0.1/", "example.org/"} {
			command = strings.ReplaceAll(command, "rtmp://"+host, "rtmp://"+l.RTMP.Addr().String()+
				"/")
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(ctx, command+" -v error"); err == nil || !strings.Contains(out, says[1]) {
		t.Errorf("ffmpeg without the token: %v, and says %q, want %q", err, out, says[1])
	}
	var clients sync.WaitGroup
	defer clients.Wait()
	live, end := context.WithCancel(ctx)
	defer end()
	clients.Go(func() {
		// Without an end, so that it does not matter when the viewer comes.
		command := strings.Replace(withToken, " -i ", " -stream_loop -1 -i ", 1)
		if out, err := run(live, command+" -v error"); live.Err() == nil {
			t.Errorf("%s ended by itself: %v\n%s", command, err, out)
		}
	})
	clients.Go(func() {
		if out, err := run(ctx, strings.Replace(watching, "/live/test", "/live/film",
			1)); err != nil {
			t.Errorf("watching with %s failed: %v\n%s", watching, err, out)
		}
	})
	eventually(t, "a copy of the stream", func() bool {
		got, err := os.ReadFile(filepath.Join(dir, "copy.flv"))
		return err == nil && len(got) > 50_000 && flv.Sniff(got)
	})
}
