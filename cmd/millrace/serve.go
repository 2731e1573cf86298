package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/millrace-io/millrace/internal/server"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tokenVar is the environment variable that --publish-token can be given in, where the list of processes does not show it.
const tokenVar = "MILLRACE_PUBLISH_TOKEN"

// readTokenVar is the same for --read-token.
const readTokenVar = "MILLRACE_READ_TOKEN"

// redisPasswordVar is the environment variable for the password of --redis or --redis-cluster, for the same reason.
const redisPasswordVar = "MILLRACE_REDIS_PASSWORD"

func serveCommand() *cobra.Command {
	cfg := server.Defaults()
	cfg.Version = version()
	var logFormat, logLevel string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Relay live streams from publishers to viewers, serve files, and keep blobs",
		Long: `Serve relays live streams, serves files, and keeps blobs.

  POST or PUT /live/NAME    publish: FLV is recognised, anything else is relayed as bytes
  GET /live/NAME.flv        watch: the last group of pictures, then live
  GET /live/NAME.mp4        the same as MP4, for a plain <video> element (tested with Chromium)
  GET, HEAD /files/NAME     files under --root: ranges, conditions, sent by the kernel
  GET, HEAD, PUT, DELETE /blobs/KEY
                            values in a directory (--blobs) or in Redis (--redis): whole or not at all, with a TTL if wanted
  /                         a page with all streams
  /metrics  /healthz        for Prometheus, and for whatever watches the process

The server is reachable from this machine only, unless --listen says otherwise. If it does, publishing and writing blobs
need --publish-token.`,
		Example: `  # A picture at once: open http://127.0.0.1:8080/
  millrace serve --demo

  # Publish a file as if it were live, and watch it
  ffmpeg -re -i film.mp4 -c copy -f flv -flvflags no_duration_filesize -send_expect_100 1 -method POST http://127.0.0.1:8080/live/film
  ffplay http://127.0.0.1:8080/live/film.flv

  # The files under a directory, and one of them
  millrace serve --root /srv/films
  millrace get http://127.0.0.1:8080/files/film.mp4 film.mp4

  # Blobs in a directory, or in Redis
  millrace serve --blobs /srv/blobs
  millrace serve --redis redis://127.0.0.1:6379
  millrace put film.mp4 http://127.0.0.1:8080/blobs/films/1

  # For everybody to watch, for those with the token to publish
  ` + tokenVar + `=secret millrace serve --listen :8080
  ffmpeg ... -headers "Authorization: Bearer secret" -send_expect_100 1 -method POST http://example.org:8080/live/film`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(idleFlag(cmd.Flags(), &cfg), checkAddresses(&cfg)); err != nil {
				return misused(err)
			}
			log, err := newLogger(cmd.ErrOrStderr(), logFormat, logLevel)
			if err != nil {
				return misused(err)
			}
			cfg.Log = log
			cfg.PublishToken = cmp.Or(cfg.PublishToken, os.Getenv(tokenVar))
			cfg.ReadToken = cmp.Or(cfg.ReadToken, os.Getenv(readTokenVar))
			logging.Disable() // of go-redis, which writes to standard error: what fails is logged by whoever asked for it
			cfg.RedisPassword = os.Getenv(redisPasswordVar)
			s, err := server.New(cfg)
			if err != nil {
				return err
			}
			return otherPort(s.Run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	serveFlags(f, &cfg)
	f.StringVar(&logFormat, "log-format", "text", "text or json")
	f.StringVar(&logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// serveFlags binds the server's configuration to flags. Their defaults are those of server.Defaults, which says why.
func serveFlags(f *pflag.FlagSet, cfg *server.Config) {
	f.StringVar(&cfg.Listen, "listen", cfg.Listen, "address to listen on; port 0: one that is free, which the log tells")
	f.StringVar(&cfg.Admin, "admin", cfg.Admin, "second address, for /debug/pprof, /metrics and /api/streams; empty: none")
	f.StringVar(&cfg.TLSCert, "tls-cert", cfg.TLSCert, "file with the certificate, in PEM: the main listener speaks TLS then; empty: it does not")
	f.StringVar(&cfg.TLSKey, "tls-key", cfg.TLSKey, "file with its key, in PEM")
	f.StringVar(&cfg.PublishToken, "publish-token", cfg.PublishToken,
		"token that publishers must show; needed when other machines can reach the listener ($"+tokenVar+" does not show in ps)")
	f.StringVar(&cfg.ReadToken, "read-token", cfg.ReadToken,
		"token that viewers and whoever else reads must show; empty: none; that of publishers does as well ($"+readTokenVar+")")
	f.BoolVar(&cfg.Demo, "demo", cfg.Demo, `play a built-in sample as the stream "demo"`)

	filesFlags(f, cfg)
	blobsFlags(f, cfg)
	f.DurationVar(&cfg.Latency, "latency", cfg.Latency,
		"how long a frame may wait to be sent together with others, at most 1s: longer costs less CPU, from about 20ms on; "+
			"0: not at all")

	f.IntVar(&cfg.MaxStreams, "max-streams", cfg.MaxStreams, "streams at a time")
	f.IntVar(&cfg.MaxViewers, "max-viewers", cfg.MaxViewers, "viewers in all, those who wait for a publisher included")
	f.IntVar(&cfg.MaxStreamViewers, "max-stream-viewers", cfg.MaxStreamViewers, "viewers a stream")
	f.Var((*bytesValue)(&cfg.KeepBytes), "keep-bytes", "what a stream keeps for viewers that join or are behind")
	f.IntVar(&cfg.KeepFrames, "keep-frames", cfg.KeepFrames, "the same in frames, at most 1048576")
	f.Var((*intBytesValue)(&cfg.MaxTagBytes), "max-tag-bytes", "longest data of an FLV tag; a longer one ends its stream")

	f.Var((*bytesValue)(&cfg.LagBytes), "lag-bytes", "how far behind a viewer may be; 0: as far as is kept")
	f.IntVar(&cfg.LagFrames, "lag-frames", cfg.LagFrames, "the same in frames; 0: as far as is kept")
	f.DurationVar(&cfg.LagTime, "lag-time", cfg.LagTime, "the same in time; 0: as far as is kept")
	f.Var(policyValue{&cfg.LagPolicy}, "lag-policy",
		"what happens to a viewer beyond that: skip moves it to the newest key frame, drop disconnects it")
	f.DurationVar(&cfg.StallTimeout, "stall-timeout", cfg.StallTimeout,
		"a viewer or download that takes nothing for so long is disconnected in any case")
	f.Var((*intBytesValue)(&cfg.Unsent), "unsent",
		"what the kernel may hold for a viewer without having sent it; 0: the system's default")

	f.DurationVar(&cfg.HeaderTimeout, "header-timeout", cfg.HeaderTimeout, "for the head of a request to arrive, and for a body that nobody wants")
	f.DurationVar(&cfg.IdleTimeout, "idle-timeout", cfg.IdleTimeout, "for the next request on a connection that is kept open")
	f.DurationVar(&cfg.PublishTimeout, "publish-timeout", cfg.PublishTimeout, "a publisher that sends nothing for so long is ended")
	f.DurationVar(&cfg.ViewerWait, "viewer-wait", cfg.ViewerWait, "how long a viewer waits for a publisher to come")
	f.DurationVar(&cfg.DrainTimeout, "drain-timeout", cfg.DrainTimeout, "how long SIGTERM waits for viewers to get what is queued, and for downloads and uploads")
}

func filesFlags(f *pflag.FlagSet, cfg *server.Config) {
	f.StringVar(&cfg.Root, "root", cfg.Root, "serve the files under this directory at /files/; empty: none")
	f.BoolVar(&cfg.FilesListing, "files-listing", cfg.FilesListing, "list what is in a directory that has no index.html")
	f.BoolVar(&cfg.FilesPrecompressed, "files-precompressed", cfg.FilesPrecompressed,
		"send NAME.br, NAME.zst or NAME.gz for NAME to whoever accepts that")
	f.Var((*bytesValue)(&cfg.FilesDropBehind), "files-drop-behind",
		"responses of so many bytes leave the page cache as it was (Linux, not on overlayfs); 0: none")
	f.Var((*bytesValue)(&cfg.FilesSendBuffer), "files-send-buffer",
		"what the send buffer of a fast connection is widened to for a long file (Linux); 0: what the kernel gives")
	f.IntVar(&cfg.FilesOpen, "files-open", cfg.FilesOpen, "files kept open")
	f.IntVar(&cfg.FilesColdReaders, "files-cold-readers", cfg.FilesColdReaders, "downloads that may wait for a disk at a time")
	f.BoolVar(&cfg.FilesTune, "files-tune", cfg.FilesTune, "start with that number, and adjust it between 1 and 64 by what it brings")
	f.IntVar(&cfg.MaxDownloads, "max-downloads", cfg.MaxDownloads, "files sent at once, and as many blobs again")
}

func blobsFlags(f *pflag.FlagSet, cfg *server.Config) {
	f.StringVar(&cfg.Blobs, "blobs", cfg.Blobs, "keep the blobs at /blobs/ in this directory, which must be used for nothing else; empty: none")
	f.StringVar(&cfg.Redis, "redis", cfg.Redis,
		"keep the blobs in Redis, at redis://[USER:PASSWORD@]HOST:PORT/DB, rediss:// or unix:// ($"+redisPasswordVar+" does not show in ps)")
	f.StringVar(&cfg.RedisCluster, "redis-cluster", cfg.RedisCluster, "keep the blobs in a Redis Cluster: HOST:PORT,HOST:PORT, or a URL")
	f.StringVar(&cfg.RedisPrefix, "redis-prefix", cfg.RedisPrefix, "prefix of the blobs' keys in Redis")
	f.Var((*bytesValue)(&cfg.MaxBlobBytes), "max-blob-bytes", "longest blob")
	f.IntVar(&cfg.MaxUploads, "max-uploads", cfg.MaxUploads, "blobs that are written at a time")
}

// idleFlag names a flag that was given and can have no effect, because what it is about is not served.
func idleFlag(f *pflag.FlagSet, cfg *server.Config) (err error) {
	redis := cfg.Redis != "" || cfg.RedisCluster != ""
	f.Visit(func(flag *pflag.Flag) {
		switch name := flag.Name; {
		case strings.HasPrefix(name, "files-") && cfg.Root == "":
			err = fmt.Errorf("--%s has no effect without --root", name)
		case (name == "max-blob-bytes" || name == "max-uploads") && cfg.Blobs == "" && !redis:
			err = fmt.Errorf("--%s has no effect without --blobs, --redis or --redis-cluster", name)
		case name == "redis-prefix" && !redis:
			err = fmt.Errorf("--%s has no effect without --redis or --redis-cluster", name)
		}
	})
	return err
}

// checkAddresses says how an address to listen on is written. Whether it is there is found out by listening.
func checkAddresses(cfg *server.Config) error {
	for _, a := range []struct{ flag, address string }{{"listen", cfg.Listen}, {"admin", cfg.Admin}} {
		if _, _, err := net.SplitHostPort(a.address); err != nil && (a.address != "" || a.flag == "listen") {
			return fmt.Errorf("--%s is %q, want HOST:PORT, as in 127.0.0.1:8080, or :8080 for all addresses", a.flag, a.address)
		}
	}
	return nil
}

// otherPort says what to do if somebody else listens where the server is to listen.
func otherPort(err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w: choose another port, as in --listen 127.0.0.1:8081, or 127.0.0.1:0 for one that is free", err)
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var opts slog.HandlerOptions
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level is %q, want debug, info, warn or error", level)
	}
	opts.Level = l
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &opts)), nil
	}
	return nil, fmt.Errorf("--log-format is %q, want text or json", format)
}

// policyValue is a flag for a server.Policy.
type policyValue struct{ p *server.Policy }

func (v policyValue) String() string {
	if v.p == nil {
		return ""
	}
	return string(*v.p)
}
func (policyValue) Type() string { return "policy" }
func (v policyValue) Set(s string) error {
	switch p := server.Policy(s); p {
	case server.Skip, server.Drop:
		*v.p = p
		return nil
	}
	return fmt.Errorf("want %s or %s", server.Skip, server.Drop)
}

// bytesValue and intBytesValue are flags for a number of bytes, as in 16MiB, 128K or 4096.
type (
	bytesValue    int64
	intBytesValue int
)

func (v *bytesValue) String() string     { return formatBytes(int64(*v)) }
func (*bytesValue) Type() string         { return "bytes" }
func (v *bytesValue) Set(s string) error { return setBytes(s, (*int64)(v)) }

func (v *intBytesValue) String() string { return formatBytes(int64(*v)) }
func (*intBytesValue) Type() string     { return "bytes" }
func (v *intBytesValue) Set(s string) error {
	var n int64
	if err := setBytes(s, &n); err != nil {
		return err
	}
	if int64(int32(n)) != n {
		return fmt.Errorf("%s is more than 2 GiB", s)
	}
	*v = intBytesValue(n)
	return nil
}

var byteUnits = []struct {
	name  string
	shift uint
}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}}

func formatBytes(n int64) string {
	for _, u := range byteUnits {
		if n >= 1<<u.shift && n%(1<<u.shift) == 0 {
			return strconv.FormatInt(n>>u.shift, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// setBytes reads a number with an optional unit: K, M, G, with or without B or iB, always powers of 1024.
func setBytes(s string, to *int64) error {
	digits, shift := s, uint(0)
	for _, u := range byteUnits {
		for _, name := range []string{u.name, u.name[:1] + "B", u.name[:1]} {
			if cut, ok := strings.CutSuffix(strings.ToUpper(s), strings.ToUpper(name)); ok && shift == 0 {
				digits, shift = cut, u.shift
			}
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<62>>shift {
		return fmt.Errorf("want a number of bytes, as in 4096, 128KiB or 16MiB")
	}
	*to = n << shift
	return nil
}
