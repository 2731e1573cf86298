package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

// Nginx is nginx with the rtmp module, as its documentation sets it up for
// live streams: everything not named in nginxConf is at its default, which
// means Nagle's algorithm is on and the send queue has 256 places.
type Nginx struct{}

// Name implements Contender.
func (Nginx) Name() string { return "nginx-rtmp" }

const nginxConf = `load_module %s;
worker_processes 1;
error_log /dev/null crit;
pid nginx.pid;
events {
    worker_connections 8192;
}
rtmp {
    access_log off;
    server {
        listen %s;
        chunk_size 4096;
        application live {
            live on;
        }
    }
}
`

// nginxModules are the places where distributions put the module.
var nginxModules = []string{
	"/usr/lib/nginx/modules/ngx_rtmp_module.so",
	"/usr/lib64/nginx/modules/ngx_rtmp_module.so",
	"/usr/share/nginx/modules/ngx_rtmp_module.so",
}

// Prepare checks that there is such an nginx.
func (Nginx) Prepare(context.Context) error {
	if _, err := nginxModule(); err != nil {
		return err
	}
	_, err := findNginx()
	return err
}

const nginxPackages = "nginx libnginx-mod-rtmp"

func findNginx() (string, error) { return measure.Find("nginx", nginxPackages) }

func nginxModule() (string, error) {
	for _, m := range nginxModules {
		if _, err := os.Stat(m); err == nil {
			return m, nil
		}
	}
	return "", measure.Missing("nginx's rtmp module", nginxPackages)
}

// Start implements Contender.
func (Nginx) Start(ctx context.Context, dir string, c Case) (*Server, error) {
	module, err := nginxModule()
	if err != nil {
		return nil, err
	}
	path, err := findNginx()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, module, addr), 0o644); err != nil {
		return nil, err
	}
	s, err := start(ctx, addr, path, "-p", dir, "-c", conf, "-e", "stderr", "-g", "daemon off;")
	if err != nil {
		return nil, err
	}
	if s.PIDs, err = workers(s.PIDs[0]); err != nil {
		s.Stop()
		return nil, err
	}
	proto := &rtmp.Server{Addr: addr}
	if c.ReadEvery > 0 {
		proto.WatchDial = load.Paced((&net.Dialer{Timeout: 10 * time.Second}).DialContext, c.ReadEvery)
	}
	s.Config.Protocol = proto
	return s, nil
}

// workers waits for the processes that do the work. The master, which does
// nothing, is left out: its memory is the workers' own, counted twice.
func workers(master int) ([]int, error) {
	for range 100 {
		if pids := children(master); len(pids) > 0 {
			return pids, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.New("relay: nginx has no worker")
}
