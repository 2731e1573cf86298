package soak

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/load"
	serve "github.com/millrace-io/millrace/internal/server"
	"github.com/spf13/pflag"
)

// A faulty is a proxy in front of a real server, in one process with it, that makes one kind of mistake.
type faulty struct {
	fault string
	log   *slog.Logger
	count atomic.Int64 // of requests for files and blobs

	mu     sync.Mutex
	held   []any             // what has leaked
	bodies map[string][]byte // the values of blobs that were got last
}

// A mistake is made in one of so many requests, so that the first cycle has some of each.
const mistakeEvery = 5

// double is the process of a server with a fault. An empty one has none.
func double(fault string, args []string) {
	cfg := serve.Defaults()
	f := pflag.NewFlagSet("double", pflag.ExitOnError)
	f.StringVar(&cfg.Listen, "listen", "", "")
	f.StringVar(&cfg.Admin, "admin", "", "")
	f.String("log-format", "", "")
	f.DurationVar(&cfg.DrainTimeout, "drain-timeout", 0, "")
	f.DurationVar(&cfg.StallTimeout, "stall-timeout", 0, "")
	f.DurationVar(&cfg.HeaderTimeout, "header-timeout", 0, "")
	f.DurationVar(&cfg.LagTime, "lag-time", 0, "")
	f.IntVar(&cfg.Unsent, "unsent", 0, "")
	f.StringVar(&cfg.Root, "root", "", "")
	f.StringVar(&cfg.Blobs, "blobs", "", "")
	must(f.Parse(args))

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := serve.New(cfg)
	must(err)
	inner, admin, front := listen(), listen(), listen()
	d := &faulty{fault: fault, log: slog.New(slog.NewJSONHandler(os.Stderr, nil)), bodies: make(map[string][]byte)}
	go func() { _ = http.Serve(front, d.handler(inner.Addr().String())) }()
	d.log.Info("listening", "address", front.Addr().String())
	d.log.Info("admin listening", "address", admin.Addr().String())
	must(s.Serve(ctx, inner, admin))
	if fault == "exit status" {
		os.Exit(3)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func listen() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	return ln
}

func (d *faulty) handler(to string) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: to}); r.Out.Host = to },
		Transport:      &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0),
		ModifyResponse: d.spoil,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/live/") && d.count.Add(1)%mistakeEvery == 0 && d.refuse(w, r) {
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// refuse makes those mistakes that need no answer of the server. It says whether it has answered.
func (d *faulty) refuse(w http.ResponseWriter, r *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.fault {
	case "goroutine":
		go func() { select {} }()
	case "descriptor":
		for range keptBlobs {
			f, err := os.Open(os.DevNull)
			must(err)
			d.held = append(d.held, f)
		}
	case "memory":
		d.held = append(d.held, bytes.Repeat([]byte{1}, 512<<10))
	case "pool":
		d.held = append(d.held, millrace.DefaultPool.Get(1))
	case "log":
		d.log.Error("something is wrong")
	case "panic":
		go panic("as a fault")
	case "status":
		http.Error(w, "as a fault", http.StatusInternalServerError)
		return true
	case "lost":
		if r.Method == http.MethodPut && r.Header.Get("Millrace-TTL") == "" {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNoContent)
			return true
		}
	}
	return false
}

// spoil changes an answer.
func (d *faulty) spoil(res *http.Response) error {
	path := res.Request.URL.Path
	ok := res.Request.Method == http.MethodGet && res.StatusCode < 300
	switch {
	case ok && strings.HasPrefix(path, "/blobs/") && (d.fault == "blob byte" || d.fault == "torn" || d.fault == "stale"):
		return d.spoilBlob(res, path)
	case ok && strings.HasPrefix(path, "/files/") && d.fault == "file byte":
		res.Body = &flip{ReadCloser: res.Body}
	case ok && path == "/live/soak-0" && (d.fault == "frame" || d.fault == "group"):
		res.Body = &cutter{ReadCloser: res.Body, r: bufio.NewReader(res.Body), group: d.fault == "group"}
	case ok && path == "/live/soak-1" && d.fault == "plain byte":
		res.Body = &flip{ReadCloser: res.Body}
	}
	return nil
}

func (d *faulty) spoilBlob(res *http.Response, path string) error {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.bodies[path]
	d.bodies[path] = bytes.Clone(body)
	switch {
	case d.fault == "blob byte":
		body[len(body)*3/4] ^= 1
	case d.fault == "stale" && old != nil && !strings.Contains(path, "expires"):
		body = old
	case d.fault == "torn" && len(old) > len(body)/2:
		body = append(body[:len(body)/2], old[len(body)/2:]...)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	res.ContentLength = int64(len(body))
	res.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// A flip changes one bit of a body, not far from the beginning.
type flip struct {
	io.ReadCloser
	done bool
}

func (f *flip) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if n > 0 && !f.done {
		f.done = true
		p[n/2] ^= 4
	}
	return n, err
}

// A cutter takes a tag out of a film, or everything from one key frame to the next.
type cutter struct {
	io.ReadCloser
	r       *bufio.Reader
	group   bool
	tags    int
	kept    []byte // what goes if a key frame comes
	pending []byte
	begun   bool
	done    bool
}

// cutAt is the number of the tag, of those that a viewer gets, that is missing.
const cutAt = 8

func (c *cutter) Read(p []byte) (int, error) {
	for len(c.pending) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

func (c *cutter) next() error {
	size := len(flvHead)
	if c.begun {
		head, err := c.r.Peek(flvTagHead)
		if err != nil && len(c.kept) > 0 {
			c.pending, c.kept = c.kept, nil
			return nil
		}
		if err != nil {
			return err
		}
		size = flvTagHead + int(head[1])<<16 + int(head[2])<<8 + int(head[3]) + flvTagFoot
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return err
	}
	if !c.begun {
		c.begun, c.pending = true, b
		return nil
	}
	key := b[0] == load.Video && b[flvTagHead] == 0x17
	c.tags++
	switch {
	case c.done || c.tags < cutAt:
	case !c.group && !key:
		c.done = true
		return nil
	case c.group && !key:
		c.kept = append(c.kept, b...)
		return nil
	case c.group:
		c.done = len(c.kept) > 0
		c.kept = nil
	}
	c.pending = b
	return nil
}
