package files

import (
	"context"
	"fmt"
	"os"

	"github.com/millrace-io/millrace/bench/measure"
)

// An nginx serves files with one worker and with sendfile. The nginx documentation recommends
// tcp_nopush. The other settings have their default values, except for the maximum number of
// requests per connection.
type nginx struct {
	key, name string
	nopush    string // tcp_nopush; off: a file's last segment does not wait for an acknowledgement
	more      string // additional lines of the configuration
}

var nginxes = []nginx{
	{"nginx", "nginx", "on", ""},
	{"nginx-cache", "nginx, open_file_cache", "on", nginxCache},
	{"nginx-push", "nginx, tcp_nopush off", "off", ""},
	{"nginx-cache-push", "nginx, open_file_cache, tcp_nopush off", "off", nginxCache},
}

const nginxConf = `events {
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

const nginxCache = `    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 1s;
`

func findNginx() (string, error) { return measure.Find("nginx", "nginx") }

func (n nginx) start(ctx context.Context, dir, root string) (*measure.Server, error) {
	// If root starts nginx, the workers run as another user, who must be able to read the files.
	for _, d := range []string{dir, root} {
		if err := os.Chmod(d, 0o755); err != nil {
			return nil, err
		}
	}
	return measure.StartNginx(ctx, dir, func(addr string) string {
		return fmt.Sprintf(nginxConf, n.nopush, n.more, addr, root)
	})
}
