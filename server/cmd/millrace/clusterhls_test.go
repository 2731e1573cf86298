//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// get returns the body of a response with status 200.
func get(client *http.Client, url string) ([]byte, error) {
	res, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return body, err
}

// HLS players at all nodes get the same bytes under the same names, and each node requests each
// object from the owner once.
func TestHLSAtAnyNode(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis), "--demo")
	lasts := 10 * time.Second
	if testing.Short() {
		lasts = 4 * time.Second
	}
	var mu sync.Mutex
	objects := make(map[string][]byte)
	var players sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range 30 {
		n := nodes[i%len(nodes)]
		players.Go(func() {
			c := hlscheck.Client{URL: n.url("/live/demo/index.m3u8"), Delta: i%2 == 0,
				Hints: i%3 == 0}
			playing, stop := context.WithCancel(ctx)
			defer stop()
			begin := time.Now()
			c.Playlist = func(number int) {
				if number > 3 && time.Since(begin) > lasts { // on a slow machine, four take longer
					stop()
				}
			}
			c.Object = func(o hlscheck.Object) {
				mu.Lock()
				defer mu.Unlock()
				name := o.URI[strings.LastIndexByte(o.URI, '/')+1:]
				if before := objects[name]; before == nil {
					objects[name] = bytes.Clone(o.Data)
				} else if !bytes.Equal(before, o.Data) {
					t.Errorf("%s has other bytes at %s", name, n.addr)
				}
			}
			stats, err := c.Run(playing)
			if m := hlscheck.Must(stats.Problems); err != nil || len(m) > 0 {
				t.Errorf("a player at %s: %v\n%v", n.addr, err, m)
			}
			if stats.Playlists < 3 {
				t.Errorf("a player at %s has got %d playlists", n.addr, stats.Playlists)
			}
		})
	}
	players.Wait()
	t.Logf("30 players at 3 nodes: %d objects", len(objects))
}

// balance starts nginx with the lines of deploy/nginx.conf for three nodes, and returns its
// address.
func balance(t *testing.T, nodes []*node) string {
	t.Helper()
	program := need.Program(t, "nginx")
	lines, err := os.ReadFile("../../../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	conf, _, _ := strings.Cut(string(lines), "\nstream {") // without RTMP
	addr, dir := nettest.FreeAddr(t), nettest.PlainDir(t)
	if err := os.Chmod(dir, 0o711); err != nil { // for the workers of nginx
		t.Fatal(err)
	}
	for i, n := range nodes {
		conf = strings.ReplaceAll(conf, fmt.Sprintf("node%d:8080", i+1), n.addr)
	}
	own := "error_log stderr; pid " + dir + "/pid;\nhttp {\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	conf = strings.NewReplacer("http {\n", own, "listen 8080;", "listen "+addr+";",
		"include /etc/nginx/modules-enabled/*.conf;", "").Replace(conf)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	var log output
	cmd := exec.Command(program, "-g", "daemon off;", "-c", file)
	cmd.Stderr = &log
	var guard childproc.Guard
	if err := guard.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		guard.Release()
		if t.Failed() {
			t.Logf("the log of nginx:\n%.4000s", &log)
		}
	})
	eventually(t, "nginx to answer", func() bool {
		return status("http://"+addr+
			"/healthz") == http.StatusOK
	})
	return addr
}

var mediaSequence = regexp.MustCompile(`(?m)^#EXT-X-MEDIA-SEQUENCE:(\d+)$`)

// Players play through a balancer without sticky sessions while nodes are killed and shut down, one
// after the other. hls.js has no fatal error, ffmpeg plays to the end, and no playlist goes back.
func TestHLSWhileNodesComeAndGo(t *testing.T) {
	t.Parallel()
	need.Program(t, "ffmpeg")
	lasts := 2 * time.Minute
	if testing.Short() {
		lasts = 12 * time.Second
	}
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis), "--demo", "--segments", "redis", "--cluster-lease",
		"1s")
	url := "http://" + balance(t, nodes) + "/live/demo/"
	tab := pagetest.NewPlayers(t)
	client := &http.Client{Timeout: patience}
	t.Cleanup(client.CloseIdleConnections)
	eventually(t, "a playlist", func() bool {
		_, err := get(client, url+"media.m3u8")
		return err == nil
	})
	tab.Play("parts", url+"index.m3u8", "lowLatencyMode: true")
	tab.Play("segments", url+"index.m3u8", "lowLatencyMode: false")
	seconds := strconv.Itoa(int(lasts / time.Second))
	var said output
	ffmpeg := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-nostdin", "-i", url+
		"index.m3u8", "-t", seconds, "-map", "0:v",
		"-f", "framemd5", "-")
	var pictures bytes.Buffer
	ffmpeg.Stdout, ffmpeg.Stderr = &pictures, &said
	if err := ffmpeg.Start(); err != nil {
		t.Fatal(err)
	}
	tab.Reaches("parts", 1)
	tab.Reaches("segments", 1)

	stop := make(chan struct{})
	var polling sync.WaitGroup
	polling.Go(func() {
		last := 0
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			text, err := get(client, url+"media.m3u8")
			if err != nil {
				continue
			}
			m := mediaSequence.FindSubmatch(text)
			if m == nil {
				t.Errorf("a playlist has no media sequence:\n%s", text)
				return
			}
			if n, _ := strconv.Atoi(string(m[1])); n < last {
				t.Errorf("the media sequence goes back from %d to %d", last, n)
			} else {
				last = n
			}
			if bytes.Contains(text, []byte("#EXT-X-ENDLIST")) {
				t.Errorf("the stream has ended:\n%s", text)
			}
		}
	})
	ended := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); ended++ {
		n := nodes[rand.IntN(3)]
		if ended == 0 { // an important one
			for _, o := range nodes {
				if o.owns("demo") {
					n = o
				}
			}
		}
		if ended%3 == 2 {
			n.stop()
		} else {
			n.kill()
		}
		time.Sleep(time.Second)
		n.start()
		time.Sleep(3 * time.Second)
	}
	close(stop)
	polling.Wait()
	for _, name := range []string{"parts", "segments"} {
		tab.Reaches(name, lasts.Seconds()/2)
		t.Logf("%s: %v", name, tab.Report(name))
	}
	if err := ffmpeg.Wait(); err != nil {
		t.Errorf("ffmpeg failed: %v\n%s", err, &said)
	}
	n := 0
	for line := range strings.Lines(pictures.String()) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	t.Logf("%d nodes ended; ffmpeg has %d video frames of %s s and says:\n%.2000s", ended, n,
		seconds, &said)
	if n < int(lasts.Seconds())*25/2 {
		t.Errorf("ffmpeg has %d video frames of %s s", n, seconds)
	}
}
