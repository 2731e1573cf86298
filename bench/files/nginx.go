package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Nginx serves files as its documentation says, with sendfile and tcp_nopush.
// Everything not named in nginxConf is at its default, but for the limit of
// requests on one connection.
type Nginx struct {
	Workers int
	Cache   bool // keep files open, as open_file_cache does
}

const nginxConf = `worker_processes %d;
error_log /dev/null crit;
pid nginx.pid;
events {
    worker_connections 1024;
}
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    types { }
    default_type application/octet-stream;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
%s    server {
        listen %s;
        root %s;
    }
}
`

const nginxTLS = `    ssl_certificate %s;
    ssl_certificate_key %s;
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
`

const nginxCache = `    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 1s;
`

// Key implements Contender.
func (n Nginx) Key() string {
	key := "nginx"
	if n.Workers > 1 {
		key += fmt.Sprint(n.Workers)
	}
	if n.Cache {
		key += "-cache"
	}
	return key
}

// Name implements Contender.
func (n Nginx) Name() string {
	name := "nginx"
	if n.Workers > 1 {
		name += fmt.Sprintf(", %d workers", n.Workers)
	}
	if n.Cache {
		name += ", open_file_cache"
	}
	return name
}

// Check implements Contender.
func (Nginx) Check() error {
	_, err := findNginx()
	return err
}

func findNginx() (string, error) { return measure.Find("nginx", "nginx") }

// Start implements Contender.
func (n Nginx) Start(ctx context.Context, dir string, s Site) (*Server, error) {
	path, err := findNginx()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	more, listen := "", addr
	if s.Cert != "" {
		more, listen = fmt.Sprintf(nginxTLS, s.Cert, s.Key), addr+" ssl"
	}
	if n.Cache {
		more += nginxCache
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Appendf(nil, nginxConf, n.Workers, more, listen, s.Dir)
	if err := os.WriteFile(conf, text, 0o644); err != nil {
		return nil, err
	}
	// Started by root, the workers are somebody else, who must be let in.
	for _, d := range []string{dir, s.Dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			return nil, err
		}
	}
	srv, err := start(pinned(s.CPUs, path, "-p", dir, "-c", conf, "-e", "stderr", "-g", "daemon off;"))
	if err != nil {
		return nil, err
	}
	srv.URL = s.URL(addr)
	if err = srv.await(ctx); err == nil {
		srv.PIDs, err = n.workers(srv.PIDs[0])
	}
	if err != nil {
		srv.Stop()
		return nil, err
	}
	return srv, nil
}

// workers waits for the processes that do the work. The master, which does
// nothing, is left out: its memory is the workers' own, counted twice.
func (n Nginx) workers(master int) ([]int, error) {
	for range 100 {
		if pids := children(master); len(pids) == n.Workers {
			return pids, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.New("files: nginx's workers do not start")
}
