package hls

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/bench/hls/plain"
	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

// A contender is an HLS server. It can be started repeatedly.
type contender struct {
	spec, name string
	in         string // protocol of the publishers
	parts      bool   // whether the server supports low-latency HLS

	// prepare builds or finds the program that start runs. The error wraps measure.ErrMissing if a
	// required program is not installed.
	prepare func(ctx context.Context) error
	// start runs the server. It creates the server's files in dir.
	start func(ctx context.Context, dir string) (*running, error)

	counters counters
}

// counters has the names of metrics at /metrics. A name is empty if the server does not have the
// metric.
type counters struct{ rendered, allocs string }

type running struct {
	*measure.Server
	publish load.Protocol
	addr    string
	path    string // path of the stream's playlist
}

const stream = "bench"

const specs = "plain, nginx, millrace"

// parseContenders parses a list such as plain,nginx,millrace. Programs are built in dir.
func parseContenders(list, dir string) (all []contender, err error) {
	for _, spec := range strings.Split(list, ",") {
		var c contender
		switch spec = strings.TrimSpace(spec); spec {
		case "plain":
			c = plainGo()
		case "nginx":
			c = nginx()
		case "millrace":
			c = millraceServe(dir)
		default:
			return nil, fmt.Errorf("contender %q: there are %s", spec, specs)
		}
		c.spec = spec
		all = append(all, c)
	}
	return all, nil
}

const playlistPath = "/live/" + stream + "/index.m3u8"

func plainGo() contender {
	return contender{
		name: "Go: a copy a part, a playlist rendered a request", in: "HTTP-FLV", parts: true,
		prepare: func(context.Context) error { return nil },
		start: func(ctx context.Context, _ string) (*running, error) {
			addr, err := measure.FreeAddr()
			if err != nil {
				return nil, err
			}
			cmd, err := measure.Self(plain.Child, addr)
			if err != nil {
				return nil, err
			}
			s, err := measure.StartServer(ctx, addr, cmd)
			return &running{s, httpflv.Server{URL: "http://" + addr}, addr, playlistPath}, err
		},
		counters: counters{rendered: "plain_playlists_rendered_total",
			allocs: "plain_allocs_total"},
	}
}

func millraceServe(dir string) contender {
	return contender{
		name: "millrace serve", in: "HTTP-FLV", parts: true,
		prepare: func(ctx context.Context) error {
			_, err := measure.Build(ctx, dir, measure.Millrace)
			return err
		},
		start: func(ctx context.Context, _ string) (*running, error) {
			bin, err := measure.Build(ctx, dir, measure.Millrace)
			if err != nil {
				return nil, err
			}
			addr, err := measure.FreeAddr()
			if err != nil {
				return nil, err
			}
			s, err := measure.StartServer(ctx, addr,
				exec.Command(bin, "serve", "--listen", addr, "--rtmp", "", "--log-level", "warn"))
			return &running{s, httpflv.Server{URL: "http://" + addr}, addr, playlistPath}, err
		},
		counters: counters{rendered: "millrace_hls_playlists_made_total",
			allocs: "go_memstats_mallocs_total"},
	}
}

// nginxConf configures nginx to write HLS files and to serve them. It follows the documentation of
// the rtmp module. nginx caches open segment files, but not open playlist files, because the rtmp
// module replaces the playlist every two seconds.
const nginxConf = `worker_rlimit_nofile 16384;
load_module %[1]s;
events {
    worker_connections 8192;
}
rtmp {
    access_log off;
    server {
        listen %[2]s;
        application live {
            live on;
            hls on;
            hls_path %[4]s;
            hls_fragment 2s;
            hls_playlist_length 14s;
        }
    }
}
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    types {
        application/vnd.apple.mpegurl m3u8;
        video/mp2t ts;
    }
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {
        listen %[3]s backlog=4096;
        root %[4]s;
        location ~ \.m3u8$ {
            add_header Cache-Control no-cache;
        }
        location ~ \.ts$ {
            open_file_cache max=100 inactive=60s;
            open_file_cache_valid 60s;
            add_header Cache-Control max-age=3600;
        }
    }
}
`

// nginx returns a contender that runs nginx with the rtmp module. The module writes MPEG-TS files,
// and nginx serves the files.
func nginx() contender {
	return contender{
		name: "nginx-rtmp, and nginx with sendfile", in: "RTMP",
		prepare: func(context.Context) error {
			_, err := measure.NginxModule("rtmp")
			return err
		},
		start: func(ctx context.Context, dir string) (*running, error) {
			module, err := measure.NginxModule("rtmp")
			if err != nil {
				return nil, err
			}
			files := filepath.Join(dir, "hls")
			if err := os.Mkdir(files, 0); err != nil {
				return nil, err
			}
			// If root starts nginx, the workers run as another user, who needs access to the files.
			for name, mode := range map[string]os.FileMode{dir: 0o755, files: 0o777} {
				if err := os.Chmod(name, mode); err != nil {
					return nil, err
				}
			}
			addr, err := measure.FreeAddr()
			if err != nil {
				return nil, err
			}
			s, err := measure.StartNginx(ctx, dir, func(in string) string {
				return fmt.Sprintf(nginxConf, module, in, addr, files)
			})
			if err != nil {
				return nil, err
			}
			return &running{s, &rtmp.Server{Addr: s.Addr}, addr, "/" + stream + ".m3u8"}, nil
		},
	}
}

// tempDir makes a temporary directory, in memory if the system has /dev/shm.
func tempDir() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "bench-hls-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "bench-hls-")
}
