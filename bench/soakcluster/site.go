package soakcluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/redis/go-redis/v9"
)

const (
	numNodes = 3
	// timeout is the time limit for short operations. It is long enough for a busy machine.
	timeout   = time.Minute
	pollEvery = 20 * time.Millisecond
)

// A site is a cluster with Redis, its Sentinel, nginx and a hook.
type site struct {
	*run
	nodes    []*node
	roots    *x509.CertPool
	tls      []string // the server's flags for its certificate
	cert     string   // path of the certificate
	key      string
	redis    [2]*measure.Server // a master and a replica, in any order
	sentinel *measure.Server
	nginx    *measure.Server
	front    string // nginx's address for HTTP
	secure   string // nginx's address for HTTPS
	rtmp     string // nginx's address for RTMP
	hook     *httptest.Server

	ingest     *measure.Server // to which the nodes send streams
	ingestRTMP string          // its address for RTMP
}

func openSite(ctx context.Context, r *run) (s *site, err error) {
	s = &site{run: r}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	for _, dir := range []string{"files", "redis0", "redis1", "sentinel", "nginx"} {
		if err := os.Mkdir(filepath.Join(r.dir, dir), 0o700); err != nil {
			return s, err
		}
	}
	if err := makeFiles(filepath.Join(r.dir, "files")); err != nil {
		return s, err
	}
	if err := s.certificate(); err != nil {
		return s, err
	}
	if err := s.startRedis(ctx); err != nil {
		return s, err
	}
	if err := s.startIngest(ctx); err != nil {
		return s, err
	}
	s.hook = httptest.NewServer(http.HandlerFunc(s.answerHook))
	for i := range numNodes {
		n, err := newNode(s, i)
		if err != nil {
			return s, err
		}
		s.nodes = append(s.nodes, n)
		if err := n.start(ctx); err != nil {
			return s, err
		}
	}
	return s, s.startNginx(ctx)
}

func (s *site) close() {
	for _, n := range s.nodes {
		n.end()
	}
	for _, p := range []*measure.Server{s.nginx, s.sentinel, s.redis[0], s.redis[1], s.ingest} {
		if p != nil {
			p.Stop()
		}
	}
	if s.hook != nil {
		s.hook.CloseClientConnections()
		s.hook.Close()
	}
}

// certificate writes a certificate for 127.0.0.1 and its key.
func (s *site) certificate() error {
	t := httptest.NewTLSServer(nil) // for its certificate
	defer t.Close()
	cert := t.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(t.Certificate())
	s.cert, s.key = filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	write := func(name, kind string, der []byte) error {
		return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	return errors.Join(write(s.cert, "CERTIFICATE", cert.Certificate[0]),
		write(s.key, "PRIVATE KEY", key))
}

const masterName = "soak"

func (s *site) startRedis(ctx context.Context) error {
	path, err := measure.Find("redis-server", "redis-server")
	if err != nil {
		return err
	}
	start := func(dir string, more ...string) (*measure.Server, error) {
		addr, err := measure.FreeAddr()
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(addr)
		dir = filepath.Join(s.dir, dir)
		args := []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", ""}
		if more[0] == "--sentinel" {
			conf := filepath.Join(dir, "sentinel.conf")
			if err := os.WriteFile(conf, []byte(more[1]), 0o600); err != nil {
				return nil, err
			}
			args, more = append([]string{conf}, args[:6]...), more[:1]
		}
		return measure.StartServer(ctx, addr, exec.Command(path, append(args, more...)...))
	}
	if s.redis[0], err = start("redis0", "--appendonly", "no"); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.redis[0].Addr)
	if s.redis[1], err = start("redis1", "--replicaof", "127.0.0.1 "+port); err != nil {
		return err
	}
	s.sentinel, err = start("sentinel", "--sentinel",
		"sentinel monitor "+masterName+" 127.0.0.1 "+port+" 1\n")
	if err != nil {
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: s.sentinel.Addr})
	defer c.Close()
	for _, option := range [][]any{
		{"SET", masterName, "down-after-milliseconds", 2000},
		{"SET", masterName, "failover-timeout", 4000},
		{"DEBUG", "info-period", 100, "ping-period", 500, "publish-period", 100, "ask-period", 100,
			"min-link-reconnect-period", 100, "tilt-trigger", 60000, "tilt-period", 1000},
	} {
		if err := c.Do(ctx, append([]any{"SENTINEL"}, option...)...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// failover makes the Sentinel swap the roles of the Redis servers. The new master may lack the last
// writes.
func (s *site) failover(ctx context.Context) error {
	c := redis.NewSentinelClient(&redis.Options{Addr: s.sentinel.Addr})
	defer c.Close()
	before, err := c.GetMasterAddrByName(ctx, masterName).Result()
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		// An error means that a failover is in progress, or that the Sentinel does not know enough
		// about the replica.
		_ = c.Failover(ctx, masterName).Err()
		now, err := c.GetMasterAddrByName(ctx, masterName).Result()
		if err == nil && strings.Join(now, ":") != strings.Join(before, ":") {
			return nil
		}
		if !sleep.For(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	return errors.New("the Sentinel does not fail over")
}

func (s *site) redisURL() string {
	return "redis://" + s.sentinel.Addr + "/0?master_name=" + masterName
}

// answerHook allows everything, except that it sometimes fails.
func (s *site) answerHook(w http.ResponseWriter, req *http.Request) {
	switch n := time.Now().UnixNano() / 1000 % 100; {
	case n < 10:
		s.done.add("hook", "errors", 1)
		w.WriteHeader(http.StatusInternalServerError)
	case n < 13:
		s.done.add("hook", "late answers", 1)
		sleep.For(req.Context(), 2*time.Second)
	case n < 15:
		s.done.add("hook", "broken connections", 1)
		panic(http.ErrAbortHandler)
	default:
		s.done.add("hook", "answers", 1)
	}
}

const nginxConf = `
load_module %s;
worker_rlimit_nofile 65536;
events { worker_connections 16384; }
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    upstream millrace { %s keepalive 64; }
    server {
        listen %s;
        listen %s ssl http2;
        ssl_certificate %s;
        ssl_certificate_key %s;
        location / {
            proxy_pass http://millrace;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_request_buffering off;
            client_max_body_size 0;
            proxy_buffering off;
            proxy_read_timeout 2m; proxy_send_timeout 2m; client_body_timeout 2m;
            proxy_connect_timeout 2s;
            proxy_next_upstream error timeout http_503;
        }
    }
}
stream {
    upstream rtmp { %s }
    server {
        listen %s;
        proxy_pass rtmp;
        proxy_connect_timeout 2s;
        proxy_timeout 2m;
    }
}
`

func (s *site) startNginx(ctx context.Context) error {
	module, err := measure.NginxModule("stream")
	if err != nil {
		return err
	}
	for _, addr := range []*string{&s.secure, &s.rtmp} {
		if *addr, err = measure.FreeAddr(); err != nil {
			return err
		}
	}
	var web, rtmp string
	for _, n := range s.nodes {
		if !n.isTLS() {
			web += "server " + n.addr + " max_fails=1 fail_timeout=2s;"
		}
		rtmp += "server " + n.rtmp + " max_fails=1 fail_timeout=2s;"
	}
	s.nginx, err = measure.StartNginx(ctx, filepath.Join(s.dir, "nginx"), func(addr string) string {
		s.front = addr
		return fmt.Sprintf(nginxConf, module, web, addr, s.secure, s.cert, s.key, rtmp, s.rtmp)
	})
	return err
}

// client returns a client without idle connections that outlive a node for long.
func (s *site) client(http2 bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Client{Transport: &http.Transport{
		Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: s.roots},
		DisableCompression: true, ExpectContinueTimeout: timeout, MaxIdleConnsPerHost: 4,
		IdleConnTimeout: 5 * time.Second,
	}}
}

// alive reports whether a process still has a thread. Until the last one has ended, the process has
// its sockets and locks, although its first thread may be a zombie already.
func alive(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/", pid)
	text, err := os.ReadFile(dir + "stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	threads, _ := os.ReadDir(dir + "task")
	return !strings.HasPrefix(state, "Z") || len(threads) > 1
}

func kill(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }
