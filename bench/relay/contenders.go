package relay

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/gorelay"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

// A contender is a relay that can be started any number of times, one at a time.
type contender struct {
	spec, name string
	protocol   string // in which viewers get the stream

	// prepare builds or finds what start runs. The error is a measure.ErrMissing if something is not installed.
	prepare func(ctx context.Context) error
	// start runs the server; files that it needs go to dir.
	start func(ctx context.Context, dir string, c load.Config) (*running, error)
	// sends returns the tags that a contender repeats which makes its stream by itself; nil for others.
	sends func(bitRate int) []load.Tag
}

// A running relay has a configuration of the load that reaches it.
type running struct {
	*measure.Server
	config load.Config
}

// defaultLatency is the bound that millrace serve has by default.
const defaultLatency = 50 * time.Millisecond

const specs = "nginx[@CHUNK], copy, share, millrace[@BOUND], bare[@BOUND]"

// parseContenders reads a list such as nginx,nginx@65536,copy,share,bare@50ms,millrace@0,millrace. Programs go to dir.
func parseContenders(list string, dir string) (all []contender, err error) {
	for _, spec := range strings.Split(list, ",") {
		c, err := parseContender(strings.TrimSpace(spec), dir)
		if err != nil {
			return nil, fmt.Errorf("contender %q: %w; there are %s", spec, err, specs)
		}
		c.spec = spec
		all = append(all, c)
	}
	return all, nil
}

func parseContender(spec string, dir string) (contender, error) {
	name, value, valued := strings.Cut(spec, "@")
	var bound time.Duration
	var err error
	if valued && (name == "millrace" || name == "bare") {
		if bound, err = time.ParseDuration(value); err != nil {
			return contender{}, err
		}
	}
	switch {
	case name == "nginx":
		chunk := 4096
		if valued {
			if chunk, err = strconv.Atoi(value); err != nil {
				return contender{}, err
			}
		}
		return nginx(chunk), nil
	case (name == "copy" || name == "share") && !valued:
		return goRelay(dir, name), nil
	case name == "millrace":
		if !valued {
			bound = defaultLatency
		}
		return millrace(dir, bound), nil
	case name == "bare":
		return bare(dir, bound), nil
	}
	return contender{}, fmt.Errorf("unknown")
}

// built is a contender that is a Go program, compiled to dir. Its arguments are made for the address that it listens
// on.
func built(dir string, name, pkg string, args func(addr string, c load.Config) []string) contender {
	return contender{
		name: name, protocol: "HTTP-FLV",
		prepare: func(ctx context.Context) error {
			_, err := measure.Build(ctx, dir, pkg)
			return err
		},
		start: func(ctx context.Context, _ string, c load.Config) (*running, error) {
			bin, err := measure.Build(ctx, dir, pkg)
			if err != nil {
				return nil, err
			}
			addr, err := measure.FreeAddr()
			if err != nil {
				return nil, err
			}
			s, err := measure.StartServer(ctx, addr, exec.Command(bin, args(addr, c)...))
			c.URL = "http://" + addr
			return &running{s, c}, err
		},
	}
}

// millrace is millrace serve with a latency bound.
func millrace(dir string, latency time.Duration) contender {
	return built(dir, fmt.Sprintf("millrace serve, %v", latency), "github.com/millrace-io/millrace/cmd/millrace",
		func(addr string, _ load.Config) []string {
			return []string{"serve", "--listen", addr, "--latency", latency.String(), "--log-level", "warn",
				"--publisher-return", "0s"} // the next run has streams of the same names
		})
}

const goRelayPackage = "github.com/millrace-io/millrace/bench/cmd/gorelay"

// goRelay is a relay as it is written with net/http.
func goRelay(dir string, kind string) contender {
	name := "Go: a copy a viewer, Write and Flush"
	if kind == "share" {
		name = "Go: shared slices, hijack, net.Buffers"
	}
	return built(dir, name, goRelayPackage, func(addr string, _ load.Config) []string {
		return []string{"-listen", addr, "-kind", kind}
	})
}

// bare has every byte ready before the first viewer comes, receives nothing, and only writes.
func bare(dir string, batch time.Duration) contender {
	name := "bare writes, a goroutine a viewer"
	if batch > 0 {
		name += fmt.Sprintf(", %v", batch)
	}
	c := built(dir, name, goRelayPackage, func(addr string, c load.Config) []string {
		return []string{"-kind", "bare", "-listen", addr, "-bitrate", strconv.Itoa(c.BitRate), "-batch", batch.String()}
	})
	start := c.start
	c.start = func(ctx context.Context, dir string, c load.Config) (*running, error) {
		c.NoPublish = true
		return start(ctx, dir, c)
	}
	c.sends = func(bitRate int) []load.Tag { return gorelay.NewBare(bitRate, 2*time.Second, 0).Tags() }
	return c
}

const nginxConf = `load_module %s;
events {
    worker_connections 8192;
}
rtmp {
    access_log off;
    server {
        listen %s;
        chunk_size %d;
        application live {
            live on;
        }
    }
}
`

const nginxPackages = "nginx libnginx-mod-rtmp"

// nginxModule returns where the distribution has put the rtmp module.
func nginxModule() (string, error) {
	for _, dir := range []string{"/usr/lib", "/usr/lib64", "/usr/share"} {
		module := dir + "/nginx/modules/ngx_rtmp_module.so"
		if _, err := os.Stat(module); err == nil {
			return module, nil
		}
	}
	return "", measure.Missing("nginx's rtmp module", nginxPackages)
}

// nginx is nginx with the rtmp module, as its documentation sets it up for live streams. What nginxConf does not name is at
// its default, so that Nagle's algorithm is on and the send queue has 256 places.
func nginx(chunk int) contender {
	return contender{
		name: fmt.Sprintf("nginx-rtmp, chunk_size %d", chunk), protocol: "RTMP",
		prepare: func(context.Context) error {
			_, err := measure.Find("nginx", nginxPackages)
			if err == nil {
				_, err = nginxModule()
			}
			return err
		},
		start: func(ctx context.Context, dir string, c load.Config) (*running, error) {
			module, err := nginxModule()
			if err != nil {
				return nil, err
			}
			s, err := measure.StartNginx(ctx, dir, func(addr string) string {
				return fmt.Sprintf(nginxConf, module, addr, chunk)
			})
			if err != nil {
				return nil, err
			}
			c.Protocol = &rtmp.Server{Addr: s.Addr}
			return &running{s, c}, nil
		},
	}
}
