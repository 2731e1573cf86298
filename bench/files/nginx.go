package files

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/millrace-io/millrace/bench/measure"
)

// nginx serves files as its documentation says, with sendfile and tcp_nopush. Everything that nginxConf does not name is at
// its default, but for the limit of requests on one connection.
type nginx struct {
	Workers  int
	Cache    bool // open_file_cache on
	PushLast bool // tcp_nopush off: the last segment of a file does not wait for a delayed acknowledgement
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
    tcp_nopush %s;
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

// Key implements contender.
func (n nginx) Key() string {
	key := "nginx"
	if n.Workers > 1 {
		key += fmt.Sprint(n.Workers)
	}
	if n.Cache {
		key += "-cache"
	}
	if n.PushLast {
		key += "-push"
	}
	return key
}

// Name implements contender.
func (n nginx) Name() string {
	name := "nginx"
	if n.Workers > 1 {
		name += fmt.Sprintf(", %d workers", n.Workers)
	}
	if n.Cache {
		name += ", open_file_cache"
	}
	if n.PushLast {
		name += ", tcp_nopush off"
	}
	return name
}

// Check implements contender.
func (nginx) Check() error {
	_, err := findNginx()
	return err
}

func findNginx() (string, error) { return measure.Find("nginx", "nginx") }

// Start implements contender.
func (n nginx) Start(ctx context.Context, dir string, s site) (*measure.Server, error) {
	path, err := findNginx()
	if err != nil {
		return nil, err
	}
	addr, err := measure.FreeAddr()
	if err != nil {
		return nil, err
	}
	more, listen, nopush := "", addr, "on"
	if s.Cert != "" {
		more, listen = fmt.Sprintf(nginxTLS, s.Cert, s.Key), addr+" ssl"
	}
	if n.Cache {
		more += nginxCache
	}
	if n.PushLast {
		nopush = "off"
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Appendf(nil, nginxConf, n.Workers, nopush, more, listen, s.Dir)
	if err := os.WriteFile(conf, text, 0o644); err != nil {
		return nil, err
	}
	// The workers of an nginx that root starts are another user's processes, and must be able to read the files.
	for _, d := range []string{dir, s.Dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			return nil, err
		}
	}
	srv, err := measure.StartServer(ctx, addr, exec.Command(path, "-p", dir, "-c", conf, "-e", "stderr", "-g", "daemon off;"))
	if err != nil {
		return nil, err
	}
	// The master does nothing: its memory is the workers' own, counted twice.
	if err := srv.UseWorkers(n.Workers); err != nil {
		srv.Stop()
		return nil, err
	}
	return srv, nil
}
