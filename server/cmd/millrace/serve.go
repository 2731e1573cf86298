package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func serveCommand() *cobra.Command {
	cfg := newServeConfig()
	printOnly := false
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Relay live streams from publishers to viewers, serve files, and keep blobs",
		Long: `Serve relays live streams, serves files, and keeps blobs.

  POST or PUT /live/NAME    publish: FLV is recognized, any other format is relayed as bytes
  GET /live/NAME.flv        watch, from the last keyframe
  GET /live/NAME.mp4        watch as MP4, in a plain <video> element (tested with Chromium)
  rtmp://127.0.0.1/live/NAME
                            publish and watch over RTMP (OBS: server rtmp://127.0.0.1/live, stream key NAME)
  GET /live/NAME/index.m3u8 watch over HLS, with low latency
  GET, HEAD /files/NAME     files under --root
  GET, HEAD, PUT, DELETE /blobs/KEY
                            values in a directory (--blobs) or in Redis (--redis)
  /                         a page with all streams, for browsers
  /metrics  /healthz        for Prometheus and monitors

By default the server is reachable from this machine only. If --listen, --rtmp or --rtmps has an address that other
machines can reach, publishing needs --publish-token, --token-key or --hook, and writing blobs needs --publish-token.

Each flag can also be set in the environment, as in MILLRACE_MAX_VIEWERS, or in the YAML file of --config, as in
max-viewers. Flags override the environment, which overrides the file. SIGHUP reads the file again. SIGUSR2 replaces the
process by a new one, which inherits the listeners.`,
		Example: `  # A sample stream: open http://127.0.0.1:8080/
  millrace serve --demo

  # Publish a file as a live stream, and watch it
  ffmpeg -re -i film.mp4 -c copy -f flv -flvflags no_duration_filesize -send_expect_100 1 http://127.0.0.1:8080/live/film
  ffplay http://127.0.0.1:8080/live/film.flv

  # Serve a directory, and download a file (with -C - curl resumes a download)
  millrace serve --root /srv/films
  curl -f -O http://127.0.0.1:8080/files/film.mp4

  # Blobs in a directory, or in Redis
  millrace serve --blobs /srv/blobs
  millrace serve --redis redis://127.0.0.1:6379
  curl -f -T film.mp4 http://127.0.0.1:8080/blobs/films/1

  # A node of a cluster
  ` + variable("cluster-token") + `=secret millrace serve --listen :8080 --cluster redis://10.0.0.2:6379 --advertise http://10.0.0.5:8080

  # Everyone may watch, and publishers need the token
  ` + variable("publish-token") + `=secret millrace serve --listen :8080
  ffmpeg ... -headers "Authorization: Bearer secret" -send_expect_100 1 http://example.org:8080/live/film`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.read(); err != nil {
				return misused(err)
			}
			if printOnly {
				return cfg.print(cmd.OutOrStdout())
			}
			stderr := cmd.ErrOrStderr()
			if file, ok := stderr.(*os.File); ok { // stderr may be a pipe without a reader
				written := newLogWriter(file)
				defer written.Flush()
				stderr = written
			}
			log, err := newLogger(stderr, cfg.logFormat, cfg.logLevel)
			if err != nil {
				return misused(cfg.addSources(err))
			}
			cfg.Log = log
			for _, name := range cfg.unknownVariables(os.Environ()) {
				log.Warn("this variable stands for no flag of millrace serve: see millrace serve --help", "variable", name)
			}
			// Turn off the log of go-redis, which writes to standard error. The callers log the
			// errors that go-redis returns.
			logging.Disable()
			return serve(cmd.Context(), cfg)
		},
	}
	own := pflag.NewFlagSet("own", pflag.ContinueOnError)
	own.SortFlags = false
	own.StringVar(&cfg.file, "config", "",
		"YAML file with the flags that are not given, without the dashes ($"+configVar+")")
	own.BoolVar(&printOnly, "print-config", false,
		"print the configuration as such a file, without secrets, and end")
	cfg.addTo(cmd, own)
	return cmd
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
