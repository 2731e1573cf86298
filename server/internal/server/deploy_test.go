package server

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// A balancer is a proxy that is configured as in deploy/.
type balancer struct {
	*http.Client        // for its HTTP address
	rtmp         string // the socket of its RTMP listener
}

// balancerConfig returns the name and the text of the configuration in deploy/ for nginx or
// haproxy. replace replaces a text that must be there.
func balancerConfig(t *testing.T, name string) (file string, config *string,
	replace func(old, new string)) {
	t.Helper()
	file = map[string]string{"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[name]
	text, err := os.ReadFile("../../../deploy/" + file)
	if err != nil {
		t.Fatal(err)
	}
	config = new(string(text))
	return file, config, func(old, new string) {
		t.Helper()
		if !strings.Contains(*config, old) {
			t.Fatalf("deploy/%s has no %q", file, old)
		}
		*config = strings.ReplaceAll(*config, old, new)
	}
}

// startBalancer starts nginx or haproxy with the configuration in deploy/. The given addresses of
// HTTP and RTMP replace those of node1 to node3.
func startBalancer(t *testing.T, name string, http, rtmp [3]string) *balancer {
	t.Helper()
	program := need.Program(t, name)
	dir := nettest.PlainDir(t)
	sockets := [2]string{filepath.Join(dir, "http"), filepath.Join(dir, "rtmp")}
	file, config, replace := balancerConfig(t, name)
	for i, node := range []string{"node1", "node2", "node3"} {
		if _, port, _ := net.SplitHostPort(http[i]); name == "haproxy" {
			replace(node+":1935 port 8080", rtmp[i]+" port "+port)
		} else {
			replace(node+":1935", rtmp[i])
		}
		replace(node+":8080", http[i])
	}
	conf := filepath.Join(dir, file)
	var check, run *exec.Cmd
	if name == "haproxy" {
		replace("bind :8080", "bind "+sockets[0])
		replace("bind :1935", "bind "+sockets[1])
		replace("maxconn 16384", "maxconn 256")
		check, run = exec.Command(program, "-c", "-f", conf),
			exec.Command(program, "-db", "-f", conf)
	} else {
		replace("include /etc/nginx/modules-enabled/*.conf;",
			need.NginxModule(t, program, "stream"))
		replace("listen 8080", "listen unix:"+sockets[0])
		replace("listen 1935", "listen unix:"+sockets[1])
		replace("worker_processes auto", "worker_processes 1")
		replace("worker_rlimit_nofile 65536;", "")
		replace("worker_connections 16384", "worker_connections 256")
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			replace("http {\n", "http {\n"+kind+"_temp_path "+dir+"/"+kind+";\n")
		}
		more := "daemon off; pid " + dir + "/pid; error_log stderr;"
		if os.Geteuid() == 0 {
			more += " user root;" // otherwise its workers could not use the directory
		}
		check = exec.Command(program, "-t", "-c", conf, "-p", dir, "-g", more)
		run = exec.Command(program, "-c", conf, "-p", dir, "-g", more)
	}
	if err := os.WriteFile(conf, []byte(*config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := check.CombinedOutput(); err != nil ||
		bytes.Contains(bytes.ToLower(out), []byte("warn")) {
		t.Fatalf("deploy/%s is not accepted without a warning: %v\n%s", file, err, out)
	}
	b := &balancer{startProxy(t, run, sockets[0]), sockets[1]}
	eventually(t, name+" to listen for RTMP", func() bool {
		conn, err := net.Dial("unix", b.rtmp)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return b
}

// client connects to the application over RTMP through the balancer.
func (b *balancer) client(t *testing.T, app string) *livetest.RTMP {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", b.rtmp)
	if err != nil {
		t.Fatal(err)
	}
	c := livetest.NewRTMP(t, conn)
	c.Connect(app)
	return c
}

// Streams pass through the balancers in deploy/ without delay, over HTTP and RTMP. Nodes that are
// down are skipped. Clients cannot pretend to be nodes.
func TestBalancers(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serveRTMP(t, func(c *Config) { c.PublishToken, c.Blobs = "secret", t.TempDir() })
			const down = "127.0.0.1:1"
			b := startBalancer(t, name, [3]string{down, f.Addr, down},
				[3]string{down, f.rtmp, down})
			passesStream(t, f.fixture, b.Client)
			p := b.client(t, "live")
			if s := p.Publish("film?token=secret"); s.Level != "status" {
				t.Fatalf("publishing was refused: %+v", s)
			}
			if err := p.SendTags(sampleTags()...); err != nil {
				t.Fatal(err)
			}
			w := b.client(t, "live")
			w.Play("film")
			w.NextTag()

			req, _ := http.NewRequestWithContext(context.Background(), "GET",
				"http://example.org/live/film.flv?token=secret", nil)
			for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
				"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} {
				req.Header.Set(name, value)
			}
			res, err := b.Client.Do(req)
			if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("WebSocket: %v, %v, want status 101", res, err)
			}
			if opcode, _ := readFrame(t, res.Body); opcode != 2 {
				t.Errorf("WebSocket: frame of type %d, want 2", opcode)
			}
			_ = res.Body.Close()

			req, _ = http.NewRequestWithContext(context.Background(), "GET",
				"http://example.org/api/streams?token=secret", nil)
			req.Header.Set("Millrace-Cluster", "token") // which the server would refuse
			if res := livetest.Do(b.Client, req); res.Status != 200 {
				t.Errorf("%d %s, want 200", res.Status, res.Body)
			}
		})
	}
}

// A balancer that does not know about streams distributes clients over the nodes of a cluster. It
// continues without a node that shuts down: returning viewers and publishers reach another node.
func TestAClusterBehindBalancers(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := serveCluster(t, 3, func(c *Config) { c.PublisherReturn = testTimeout })
			var http, rtmp [3]string
			for i, f := range nodes {
				http[i], rtmp[i] = f.Addr, f.rtmp
			}
			b := startBalancer(t, name, http, rtmp)
			publish := func() *livetest.RTMP {
				p := b.client(t, "live")
				if s := p.Publish("cam"); s.Level != "status" {
					t.Fatalf("publishing was refused: %+v", s)
				}
				_ = p.SendTags(sampleTags()...)
				return p
			}
			watch := func() {
				t.Helper()
				res, err := b.Get("http://127.0.0.1/live/cam.flv")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				p := make([]byte, 1000)
				if n, err := io.ReadFull(res.Body, p); err != nil || res.StatusCode != 200 {
					t.Errorf("%s: %d bytes, %v, want the stream", res.Status, n, err)
				}
			}
			publish()
			for range 6 {
				watch()
			}
			published, _ := where(t, nodes, "cam")
			if len(published) != 1 {
				t.Fatalf("%d nodes own the stream", len(published))
			}
			for _, f := range nodes {
				if f != published[0] && f.metric("millrace_cluster_pulled_bytes_total") == "0" {
					t.Errorf("no viewer came to %s", f.self())
				}
			}
			published[0].stop()
			publish()
			for range 6 {
				watch()
			}
		})
	}
}

// systemd accepts the units in deploy/ without a warning, and the service exposes little of the
// machine to the server.
func TestUnits(t *testing.T) {
	program := need.Program(t, "systemd-analyze")
	dir := t.TempDir()
	files, err := filepath.Glob("../../../deploy/millrace*.s*")
	if err != nil || len(files) != 5 {
		t.Fatalf("deploy/ has the units %q: %v", files, err)
	}
	units := []string{"verify"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The program must exist.
		text = bytes.ReplaceAll(text, []byte("/usr/local/bin/millrace"), []byte("/bin/sh"))
		units = append(units, filepath.Join(dir, filepath.Base(file)))
		if err := os.WriteFile(units[len(units)-1], text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(program, units...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("the units are not accepted: %v\n%s", err, out)
	}
	const most = "--threshold=15" // of 100; a service without protection has 96
	out, err := exec.Command(program, "security", "--offline=true", most,
		filepath.Join(dir, "millrace.service")).CombinedOutput()
	if err != nil {
		t.Errorf("the command failed: %v\n%s", err, out)
	}
}
