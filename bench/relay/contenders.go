package relay

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/gorelay"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/rtmp"
	"github.com/millrace-io/millrace/internal/load"
)

// A contender is a relay. It can be started again after it has stopped.
type contender struct {
	spec, name string
	in, out    string // names of the protocols of publishers and of viewers

	// prepare builds or finds the program. The error wraps measure.ErrMissing if something is not
	// installed.
	prepare func(ctx context.Context) error
	// start runs the server, which writes its files to dir.
	start func(ctx context.Context, dir string, c load.Config) (*instance, error)
}

type instance struct {
	*measure.Server
	config load.Config // for a load test of this relay
}

// defaultLatency is the default of the flag --latency of millrace serve.
const defaultLatency = 50 * time.Millisecond

const (
	rtmpName = "RTMP"
	flvName  = "HTTP-FLV"
)

const specs = "nginx[@CHUNK], node, xiu, copy, share, millrace[@BOUND], millrace-rtmp[@BOUND], millrace-rtmp-flv[@BOUND], bare[@BOUND]"

var namedLists = map[string]string{
	"http": "bare@50ms,bare@0,nginx,nginx@65536,copy,share,millrace@0,millrace",
	"rtmp": "bare@50ms,bare@0,nginx,nginx@65536,node,xiu,millrace-rtmp@0,millrace-rtmp,millrace-rtmp-flv@0,millrace-rtmp-flv,millrace@0,millrace",
}

// parseContenders parses a list such as nginx,nginx@65536,millrace@0, or the name of a predefined
// list. Programs are built in dir.
func parseContenders(list string, dir string) (all []contender, err error) {
	if l, ok := namedLists[list]; ok {
		list = l
	}
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
	ours := strings.HasPrefix(name, "millrace")
	if ours && !valued {
		bound = defaultLatency
	}
	if valued && (ours || name == "bare") {
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
	case name == "node" && !valued:
		return node(), nil
	case name == "xiu" && !valued:
		return xiu(), nil
	case name == "millrace":
		return millrace(dir, flvName, flvName, bound), nil
	case name == "millrace-rtmp":
		return millrace(dir, rtmpName, rtmpName, bound), nil
	case name == "millrace-rtmp-flv":
		return millrace(dir, rtmpName, flvName, bound), nil
	case name == "bare":
		return bare(dir, bound), nil
	}
	return contender{}, fmt.Errorf("unknown")
}

// goContender returns a contender that runs a Go program, which it builds in dir. The function args
// returns the program's arguments, and may change the configuration of the load test. The load test
// starts when the program listens on addr. If the program listens on several addresses, it must
// listen on addr last.
func goContender(dir string, name, pkg string, args func(addr string, c *load.Config) ([]string,
	error)) contender {
	return contender{
		name: name, in: flvName, out: flvName,
		prepare: func(ctx context.Context) error {
			_, err := measure.Build(ctx, dir, pkg)
			return err
		},
		start: func(ctx context.Context, _ string, c load.Config) (*instance, error) {
			bin, err := measure.Build(ctx, dir, pkg)
			if err != nil {
				return nil, err
			}
			addr, err := measure.FreeAddr()
			if err != nil {
				return nil, err
			}
			c.URL = "http://" + addr
			line, err := args(addr, &c)
			if err != nil {
				return nil, err
			}
			s, err := measure.StartServer(ctx, addr, exec.Command(bin, line...))
			return &instance{s, c}, err
		},
	}
}

// millrace returns a contender that runs "millrace serve". Publishers use the protocol pub, and
// viewers use the protocol sub. If pub is HTTP-FLV, sub must be HTTP-FLV, too.
func millrace(dir string, pub, sub string, latency time.Duration) contender {
	by := ""
	switch {
	case pub != sub:
		by = fmt.Sprintf("%s to %s, ", pub, sub)
	case pub == rtmpName:
		by = pub + ", "
	}
	name := fmt.Sprintf("millrace serve, %s%v", by, latency)
	c := goContender(dir, name, measure.Millrace, func(addr string, c *load.Config) ([]string, error) {
		main, err := measure.FreeAddr() // the server listens here before it listens on addr
		if err != nil {
			return nil, err
		}
		c.URL = "http://" + main
		switch server := (&rtmp.Server{Addr: addr}); {
		case sub == rtmpName:
			c.Protocol = server
		case pub == rtmpName:
			c.Protocol = crossProtocol{server, load.HTTPFLV(*c)}
		}
		return []string{"serve", "--listen", main, "--rtmp", addr, "--latency", latency.String(),
			"--log-level", "warn"}, nil
	})
	c.in, c.out = pub, sub
	return c
}

type crossProtocol struct {
	load.Protocol               // for publishers
	out           load.Protocol // for viewers
}

func (c crossProtocol) Watch(ctx context.Context, name string) (load.Subscription, error) {
	return c.out.Watch(ctx, name)
}

const goRelayPackage = "bench/cmd/gorelay"

// goRelay returns a contender that runs a gorelay.Relay. The kind is "copy" or "share".
func goRelay(dir string, kind string) contender {
	name := "Go: a copy a viewer, Write and Flush"
	if kind == "share" {
		name = "Go: shared slices, hijack, net.Buffers"
	}
	return goContender(dir, name, goRelayPackage, func(addr string, _ *load.Config) ([]string, error) {
		return []string{"-listen", addr, "-kind", kind}, nil
	})
}

func bare(dir string, beat time.Duration) contender {
	name := fmt.Sprintf("bare reads and writes, %v", beat)
	return goContender(dir, name, goRelayPackage, func(addr string, c *load.Config) ([]string, error) {
		flv := load.HTTPFLV(*c)
		c.Protocol = crossProtocol{gorelay.BareClient{Protocol: flv, Addr: addr}, flv}
		return []string{"-kind", "bare", "-listen", addr, "-beat", beat.String()}, nil
	})
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

// nginx returns a contender that runs nginx with the rtmp module, configured as in the module's
// documentation for live streams. All other settings have their defaults: Nagle's algorithm is on,
// and the send queue holds 256 messages.
func nginx(chunk int) contender {
	return contender{
		name: fmt.Sprintf("nginx-rtmp, chunk_size %d", chunk), in: rtmpName, out: rtmpName,
		prepare: func(context.Context) error {
			_, err := measure.NginxModule("rtmp")
			return err
		},
		start: func(ctx context.Context, dir string, c load.Config) (*instance, error) {
			module, err := measure.NginxModule("rtmp")
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
			return &instance{s, c}, nil
		},
	}
}
