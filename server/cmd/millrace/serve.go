package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/server/internal/relay"
	"github.com/millrace-io/millrace/server/internal/server"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tokenVar, redisPasswordVar and clusterTokenVar are variables for secrets: the list of processes does not show them.
var (
	tokenVar           = variable("publish-token")
	readTokenVar       = variable("read-token")
	redisPasswordVar   = variable("redis-password")
	clusterTokenVar    = variable("cluster-token")
	clusterPasswordVar = variable("cluster-password")
	hookVar            = variable("hook")
)

func serveCommand() *cobra.Command {
	cfg := newServeConfig()
	printOnly := false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Relay live streams from publishers to viewers, serve files, and keep blobs",
		Long: `Serve relays live streams, serves files, and keeps blobs.

  POST or PUT /live/NAME    publish: FLV is recognised, anything else is relayed as bytes
  GET /live/NAME.flv        watch: the last group of pictures, then live
  GET /live/NAME.mp4        the same as MP4, for a plain <video> element (tested with Chromium)
  rtmp://127.0.0.1/live/NAME
                            publish and watch over RTMP (OBS: server rtmp://127.0.0.1/live, stream key NAME)
  GET /live/NAME/index.m3u8 watch over HLS, with low latency
  GET, HEAD /files/NAME     files under --root: ranges, conditions, sent by the kernel
  GET, HEAD, PUT, DELETE /blobs/KEY
                            values in a directory (--blobs) or in Redis (--redis): whole or not at all, with an optional TTL
  /                         a page with all streams
  /metrics  /healthz        for Prometheus, and for monitors

The server is reachable from this machine only, unless --listen, --rtmp or --rtmps says otherwise. Publishing and
writing blobs then need --publish-token.

Each flag may be given as a variable, as in MILLRACE_MAX_VIEWERS, or in the YAML file of --config, as in max-viewers. A
flag counts before a variable, and a variable before the file. SIGHUP reads the file again. SIGUSR2 starts this command
anew, which takes the listeners over.`,
		Example: `  # A picture at once: open http://127.0.0.1:8080/
  millrace serve --demo

  # Publish a file as if it were live, and watch it
  ffmpeg -re -i film.mp4 -c copy -f flv -flvflags no_duration_filesize -send_expect_100 1 -method POST http://127.0.0.1:8080/live/film
  ffplay http://127.0.0.1:8080/live/film.flv

  # The files under a directory, and one of them; with -C - curl goes on with a download that broke off
  millrace serve --root /srv/films
  curl -f -O http://127.0.0.1:8080/files/film.mp4

  # Blobs in a directory, or in Redis
  millrace serve --blobs /srv/blobs
  millrace serve --redis redis://127.0.0.1:6379
  curl -f -T film.mp4 http://127.0.0.1:8080/blobs/films/1

  # A node of a cluster, which has the streams of all nodes
  ` + clusterTokenVar + `=secret millrace serve --listen :8080 --cluster redis://10.0.0.2:6379 --advertise http://10.0.0.5:8080

  # All may watch, and publishers need the token
  ` + tokenVar + `=secret millrace serve --listen :8080
  ffmpeg ... -headers "Authorization: Bearer secret" -send_expect_100 1 -method POST http://example.org:8080/live/film`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.read(); err != nil {
				return misused(err)
			}
			if printOnly {
				return cfg.print(cmd.OutOrStdout())
			}
			stderr := cmd.ErrOrStderr()
			if file, ok := stderr.(*os.File); ok { // it may be a pipe that is not read
				written := newLogWriter(file)
				defer written.Flush()
				stderr = written
			}
			log, err := newLogger(stderr, cfg.logFormat, cfg.logLevel)
			if err != nil {
				return misused(cfg.located(err))
			}
			cfg.Log = log
			for _, name := range cfg.unknownVariables(os.Environ()) {
				log.Warn("this variable stands for no flag of millrace serve: see millrace serve --help", "variable", name)
			}
			logging.Disable() // go-redis writes to standard error; its callers log the errors that they get
			return serve(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&cfg.file, "config", "", "YAML file with the flags that are not given, without the dashes ($"+configVar+")")
	f.BoolVar(&printOnly, "print-config", false, "print the configuration as such a file, without secrets, and end")
	cfg.flags.VisitAll(func(flag *pflag.Flag) {
		if !slices.Contains(neverFlags, flag.Name) {
			f.AddFlag(flag)
		}
	})
	return cmd
}

// serveFlags binds the server's configuration to flags. Their defaults are those of server.Defaults, which says why.
func serveFlags(f *pflag.FlagSet, cfg *server.Config) {
	f.StringVar(&cfg.Listen, "listen", cfg.Listen, "address to listen on; port 0: a free one, which the log tells")
	f.StringVar(&cfg.RTMP, "rtmp", cfg.RTMP, "address for RTMP, to publish and to watch; \"\" turns RTMP off")
	f.StringVar(&cfg.RTMPS, "rtmps", cfg.RTMPS, "the same over TLS, with the certificate of --tls-cert")
	f.StringVar(&cfg.Admin, "admin", cfg.Admin, "second address, for the operator: decisions, /debug/pprof, /metrics and /api/streams")
	f.StringVar(&cfg.TLSCert, "tls-cert", cfg.TLSCert, "file with the certificate, in PEM: the main listener speaks TLS then")
	f.StringVar(&cfg.TLSKey, "tls-key", cfg.TLSKey, "file with its key, in PEM")
	f.StringVar(&cfg.PublishToken, "publish-token", cfg.PublishToken,
		"token that publishers must show; needed when other machines can reach the listener ($"+tokenVar+" does not show in ps)")
	f.StringVar(&cfg.ReadToken, "read-token", cfg.ReadToken,
		"token that all readers must show; without one everyone may read; the publish token opens as well ($"+readTokenVar+")")
	f.StringVar(&cfg.AdminToken, "admin-token", cfg.AdminToken,
		"token that clients of --admin must show; needed to decide when other machines can reach it ($"+variable("admin-token")+")")
	f.StringVar(&cfg.TokenKey, "token-key", cfg.TokenKey,
		"file with the keys of signed tokens, which millrace token makes: each is for a stream and a time")
	f.StringVar(&cfg.CORS, "cors", cfg.CORS, "sites whose pages may play streams, as https://example.org,…; *: all; \"\": no other site")
	f.StringVar(&cfg.Hook, "hook", cfg.Hook,
		"ask http://[USER:PASSWORD@]HOST/PATH who may publish, play and record, and tell it of each end ($"+hookVar+" does not show in ps)")
	f.DurationVar(&cfg.HookTimeout, "hook-timeout", cfg.HookTimeout, "how long it may take to answer, with all attempts, at most 10s")
	f.BoolVar(&cfg.HookOpen, "hook-open", cfg.HookOpen, "allow all, under the names that clients say, while the hook fails; otherwise they get 503")
	f.StringVar(&cfg.TrustedProxies, "trusted-proxies", cfg.TrustedProxies,
		"addresses or networks of proxies, as in 10.0.0.0/8,127.0.0.1: their PROXY headers and X-Forwarded-For say who the client is")
	f.BoolVar(&cfg.Demo, "demo", cfg.Demo, `play a built-in sample as the stream "demo"`)

	filesFlags(f, cfg)
	blobsFlags(f, cfg)
	f.DurationVar(&cfg.Latency, "latency", cfg.Latency,
		"how long a frame may wait to be sent together with others, at most 1s: longer costs less CPU, from about 20ms on; "+
			"0: not at all")

	f.IntVar(&cfg.MaxStreams, "max-streams", cfg.MaxStreams, "streams at a time")
	f.IntVar(&cfg.MaxViewers, "max-viewers", cfg.MaxViewers, "viewers in all, including those that wait for a publisher")
	f.IntVar(&cfg.MaxStreamViewers, "max-stream-viewers", cfg.MaxStreamViewers, "viewers a stream")
	f.IntVar(&cfg.MaxConnections, "max-connections", cfg.MaxConnections,
		"connections of the main listener, without viewers by HTTP/1; one that waits for a request gives way to a new one")
	f.IntVar(&cfg.MaxAddressConnections, "max-address-connections", cfg.MaxAddressConnections,
		"connections of one address, or of one /64 of IPv6; behind a trusted proxy: requests; 0: no limit")
	f.IntVar(&cfg.MaxAddressViewers, "max-address-viewers", cfg.MaxAddressViewers, "new viewers a second of one address, on average over 5s; 0: no limit")
	f.Var((*bytesValue)(&cfg.MaxAddressBytes), "max-address-bytes",
		"bytes a second that one address gets: downloads are slowed down, new requests are refused; at least 64KiB; 0: no limit")
	f.Var((*bytesValue)(&cfg.MemoryBytes), "memory",
		"what the server may use in all; beyond it what is late is dropped, and what is new is refused; "+
			"0: half of the machine's or the control group's memory")
	f.Var((*bytesValue)(&cfg.KeepBytes), "keep-bytes", "what a stream keeps for viewers that join or are behind")
	f.IntVar(&cfg.KeepFrames, "keep-frames", cfg.KeepFrames, "how many frames a stream keeps, at most 1048576")
	f.Var((*intBytesValue)(&cfg.MaxTagBytes), "max-tag-bytes", "longest data of an FLV tag; a longer one ends its stream")

	f.Var((*bytesValue)(&cfg.LagBytes), "lag-bytes", "how far behind a viewer may be; 0: as far as is kept")
	f.IntVar(&cfg.LagFrames, "lag-frames", cfg.LagFrames, "how many frames a viewer may be behind; 0: as far as is kept")
	f.DurationVar(&cfg.LagTime, "lag-time", cfg.LagTime, "how long a viewer may be behind; 0: as far as is kept")
	f.Var(policyValue{&cfg.LagPolicy}, "lag-policy",
		"what happens to a viewer beyond that: skip moves it to the newest key frame, drop disconnects it")
	f.DurationVar(&cfg.StallTimeout, "stall-timeout", cfg.StallTimeout,
		"a viewer or download that takes nothing for so long is disconnected in any case")
	f.Var((*intBytesValue)(&cfg.Unsent), "unsent",
		"what the kernel may hold for a viewer without having sent it; 0: the system's default")

	f.DurationVar(&cfg.HLS.Part, "hls-part", cfg.HLS.Part, "about how long a part of HLS is, which low-latency players get; at least 50ms, and with video 282ms")
	f.DurationVar(&cfg.HLS.Segment, "hls-segment", cfg.HLS.Segment, "a segment of HLS ends at the first key frame from here on; from 1s to 8s")
	f.IntVar(&cfg.HLS.Segments, "hls-segments", cfg.HLS.Segments, "how many segments of HLS are listed, from 3 to 1000; more if they are short")
	f.Var((*bytesValue)(&cfg.HLS.MaxBytes), "hls-bytes", "what a stream's segments hold")

	f.StringVar(&cfg.Record, "record", cfg.Record, "record streams to files in this directory: MP4, and a playlist of HLS for each")
	f.StringVar(&cfg.RecordStreams, "record-streams", cfg.RecordStreams, "which ones, as a pattern of their names, such as cam-*")
	f.Var((*bytesValue)(&cfg.RecordBytes), "record-bytes", "bytes of all recordings; beyond it the oldest are deleted; 0: no limit")
	f.Var((*bytesValue)(&cfg.RecordQueue), "record-queue", "what may wait for the disk, of each stream; more is lost up to a key frame")
	f.DurationVar(&cfg.RecordEvery, "record-every", cfg.RecordEvery, "another file begins at whole multiples of this time, in UTC")

	clusterFlags(f, cfg)
	f.DurationVar(&cfg.HeaderTimeout, "header-timeout", cfg.HeaderTimeout, "for the head of a request to arrive, and for a body that is not wanted")
	f.DurationVar(&cfg.IdleTimeout, "idle-timeout", cfg.IdleTimeout, "for the next request on a connection that is kept open")
	f.DurationVar(&cfg.PublishTimeout, "publish-timeout", cfg.PublishTimeout, "a publisher that sends nothing for so long is ended")
	f.DurationVar(&cfg.PublisherReturn, "publisher-return", cfg.PublisherReturn,
		"how long a stream of FLV waits for a publisher that is gone, after a clean end at most 2s; viewers stay; 0: it ends at once")
	f.Var(takeoverValue{&cfg.Takeover}, "takeover",
		"whether a second publisher of a name ends the first: always, stalled (if that has sent nothing for 2s) or never")
	f.DurationVar(&cfg.ViewerWait, "viewer-wait", cfg.ViewerWait, "how long a viewer waits for a publisher to come")
	f.DurationVar(&cfg.DrainTimeout, "drain-timeout", cfg.DrainTimeout, "how long SIGTERM waits for viewers to get what is queued, and for downloads and uploads")
}

func clusterFlags(f *pflag.FlagSet, cfg *server.Config) {
	f.StringVar(&cfg.Cluster, "cluster", cfg.Cluster,
		"share streams with other nodes, by what redis://[USER:PASSWORD@]HOST:PORT/DB or rediss:// knows of them ($"+clusterPasswordVar+" does not show in ps)")
	f.StringVar(&cfg.Advertise, "advertise", cfg.Advertise, "address at which the other nodes reach this one, as in http://10.0.0.5:8080")
	f.StringVar(&cfg.ClusterToken, "cluster-token", cfg.ClusterToken, "secret that the nodes prove to know ($"+clusterTokenVar+")")
	f.StringVar(&cfg.ClusterCA, "cluster-ca", cfg.ClusterCA,
		"file with certificates, in PEM, of authorities to trust for other nodes in addition to the system's")
	f.DurationVar(&cfg.ClusterLease, "cluster-lease", cfg.ClusterLease, "a node that is gone for so long has lost its streams, at most 1m")
	f.StringVar(&cfg.ClusterPrefix, "cluster-prefix", cfg.ClusterPrefix, "prefix of the keys in that Redis; nodes with the same one are a cluster")
	f.Var((*bytesValue)(&cfg.ClusterCache), "cluster-cache", "segments of HLS of other nodes that are kept")
	f.StringVar(&cfg.Segments, "segments", cfg.Segments,
		`"redis": keep the newest segments of HLS in the Redis of --cluster, where they outlive this node`)
	f.DurationVar(&cfg.SegmentsKeep, "segments-keep", cfg.SegmentsKeep, "how long, from 10s to 1h")
}

func filesFlags(f *pflag.FlagSet, cfg *server.Config) {
	f.StringVar(&cfg.Root, "root", cfg.Root, "serve the files under this directory at /files/")
	f.BoolVar(&cfg.FilesListing, "files-listing", cfg.FilesListing, "list what is in a directory that has no index.html")
	f.BoolVar(&cfg.FilesPrecompressed, "files-precompressed", cfg.FilesPrecompressed,
		"send NAME.br, NAME.zst or NAME.gz for NAME to clients that accept it")
	f.Var((*bytesValue)(&cfg.FilesDropBehind), "files-drop-behind",
		"responses of so many bytes do not stay in the page cache (Linux, not on overlayfs); 0: all do")
	f.IntVar(&cfg.MaxDownloads, "max-downloads", cfg.MaxDownloads, "files sent at once, and as many blobs again")
}

func blobsFlags(f *pflag.FlagSet, cfg *server.Config) {
	f.StringVar(&cfg.Blobs, "blobs", cfg.Blobs, "keep the blobs at /blobs/ in this directory, which must be used for nothing else")
	f.StringVar(&cfg.Redis, "redis", cfg.Redis,
		"keep the blobs in this Redis: redis://[USER:PASSWORD@]HOST:PORT[/DB], or as --cluster says ($"+redisPasswordVar+" does not show in ps)")
	f.StringVar(&cfg.RedisPrefix, "redis-prefix", cfg.RedisPrefix, "prefix of the blobs' keys in Redis")
	f.Var((*bytesValue)(&cfg.MaxBlobBytes), "max-blob-bytes", "longest blob")
	f.IntVar(&cfg.MaxUploads, "max-uploads", cfg.MaxUploads, "blobs that are written at a time")
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

// policyValue is a flag for a relay.Policy.
type policyValue struct{ p *relay.Policy }

func (v policyValue) String() string {
	if v.p == nil {
		return ""
	}
	return string(*v.p)
}
func (policyValue) Type() string { return "policy" }
func (v policyValue) Set(s string) error {
	switch p := relay.Policy(s); p {
	case relay.Skip, relay.Drop:
		*v.p = p
		return nil
	}
	return fmt.Errorf("want %s or %s", relay.Skip, relay.Drop)
}

// takeoverValue is a flag for a relay.Takeover.
type takeoverValue struct{ t *relay.Takeover }

func (v takeoverValue) String() string {
	if v.t == nil {
		return ""
	}
	return string(*v.t)
}
func (takeoverValue) Type() string { return "policy" }
func (v takeoverValue) Set(s string) error {
	switch t := relay.Takeover(s); t {
	case relay.TakeoverAlways, relay.TakeoverStalled, relay.TakeoverNever:
		*v.t = t
		return nil
	}
	return fmt.Errorf("want %s, %s or %s", relay.TakeoverAlways, relay.TakeoverStalled, relay.TakeoverNever)
}

// bytesValue and intBytesValue are flags for a number of bytes, as in 16MiB, 50MB or 4096.
type (
	bytesValue    int64
	intBytesValue int
)

func (v *bytesValue) String() string { return formatBytes(int64(*v)) }
func (*bytesValue) Type() string     { return "bytes" }
func (v *bytesValue) Set(s string) error {
	n, err := parseBytes(s)
	*v = bytesValue(n)
	return err
}

func (v *intBytesValue) String() string { return formatBytes(int64(*v)) }
func (*intBytesValue) Type() string     { return "bytes" }
func (v *intBytesValue) Set(s string) error {
	n, err := parseBytes(s)
	if err == nil && n > math.MaxInt32 {
		err = fmt.Errorf("want less than 2GiB")
	}
	*v = intBytesValue(n)
	return err
}

// byteUnits are the units of parseBytes. A unit comes before those that it ends with.
var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3},
	{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10},
}

// formatBytes returns n in the largest of TiB, GiB, MiB and KiB that divides it.
func formatBytes(n int64) string {
	for _, u := range byteUnits[:4] {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// parseBytes reads a number with an optional unit in upper or lower case: KiB to TiB and K to T are powers of
// 1024; KB to TB are powers of 1000.
func parseBytes(s string) (int64, error) {
	digits, size := strings.ToUpper(s), int64(1)
	for _, u := range byteUnits {
		if number, ok := strings.CutSuffix(digits, strings.ToUpper(u.name)); ok {
			digits, size = number, u.size
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<62/size {
		return 0, errors.New("want a whole number of bytes, as in 4096, 128KiB, 16MiB or 50GB")
	}
	return n * size, nil
}
