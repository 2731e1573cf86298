package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/millrace-io/millrace"
	serve "github.com/millrace-io/millrace/internal/server"
	"github.com/spf13/pflag"
)

// A faulty is a proxy in front of a real server, in one process with it, that makes one kind of mistake.
type faulty struct {
	fault string
	log   *slog.Logger
	inner string       // the real server's URL
	root  string       // of its files
	count atomic.Int64 // of requests for files and blobs
	live  atomic.Int64 // requests of publishers and viewers in progress
	busy  sync.Once

	mu      sync.Mutex
	held    []any             // what has leaked
	bodies  map[string][]byte // the values of blobs that were got last
	threads int               // that were in a system call at one time
	files   int               // that were added to those that are served
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
	if fault == "lost at restart" {
		must(empty(cfg.Blobs))
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := serve.New(cfg)
	must(err)
	inner, admin, front := listen(), listen(), listen()
	d := &faulty{
		fault: fault, log: slog.New(slog.NewJSONHandler(os.Stderr, nil)),
		inner: "http://" + inner.Addr().String(), root: cfg.Root, bodies: make(map[string][]byte),
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	facade := &http.Server{Handler: d.handler(inner.Addr().String()), Protocols: protocols}
	go func() { _ = facade.Serve(front) }()
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

// empty removes what is in a directory.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if err == nil {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return err
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
		switch {
		case strings.HasPrefix(r.URL.Path, "/live/"):
			d.live.Add(1)
			defer d.live.Add(-1)
			if r.Method == http.MethodPost && r.URL.Path == "/live/soak-0" {
				d.grow()
			}
		case d.mistake(w, r) || d.count.Add(1)%mistakeEvery == 0 && d.refuse(w, r):
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// grow lets go of less than it takes, with each show of a stream: so there is some of it in every cycle.
func (d *faulty) grow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.fault {
	case "rss":
		mapMemory(6 * mib)
	case "threads":
		d.threads += 8
		startThreads(d.threads)
	}
}

// mistake makes those mistakes that are made with every request for a blob. It says whether it has answered.
func (d *faulty) mistake(w http.ResponseWriter, r *http.Request) bool {
	expires := strings.Contains(r.URL.Path, "/expires-")
	switch {
	case !strings.HasPrefix(r.URL.Path, "/blobs/"):
	case d.fault == "expired" && r.Method == http.MethodPut:
		r.Header.Del("Millrace-TTL")
	case d.fault == "early" && r.Method == http.MethodGet && expires,
		d.fault == "lost at the end" && r.Method == http.MethodGet && !expires && d.live.Load() == 0:
		http.NotFound(w, r)
		return true
	case d.fault == "kept broken put" && r.Method == http.MethodPut && !expires:
		body, err := io.ReadAll(r.Body)
		if err != nil && len(body) > valueHead {
			d.put(r.URL.Path, bytes.NewReader(body))
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return err != nil
	case d.fault == "busy":
		d.busy.Do(func() {
			never, _ := io.Pipe()
			go d.put("/blobs/busy", never)
		})
	}
	return false
}

// put puts a blob of the double's own.
func (d *faulty) put(path string, body io.Reader) {
	req, err := http.NewRequest(http.MethodPut, d.inner+path, body)
	must(err)
	res, err := http.DefaultClient.Do(req)
	must(err)
	must(res.Body.Close())
}

// serveMore has the server open a file that is not the soak's.
func (d *faulty) serveMore() {
	d.files++
	name := fmt.Sprintf("more-%d", d.files)
	must(os.WriteFile(filepath.Join(d.root, name), []byte(name), 0o600))
	res, err := http.Get(d.inner + "/files/" + name)
	must(err)
	must(res.Body.Close())
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
	case "files":
		d.serveMore()
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
	path, method := res.Request.URL.Path, res.Request.Method
	ok := method == http.MethodGet && res.StatusCode < 300
	switch {
	case ok && strings.HasPrefix(path, "/blobs/") && (d.fault == "blob byte" || d.fault == "torn" || d.fault == "stale"):
		return d.spoilBlob(res, path)
	case strings.HasPrefix(path, "/files/"):
		d.spoilFile(res)
	case ok && strings.HasPrefix(path, "/live/"):
		d.spoilStream(res, path)
	case method == http.MethodPost && res.StatusCode == http.StatusOK && d.fault == "summary":
		return spoilSummary(res)
	}
	return nil
}

func (d *faulty) spoilFile(res *http.Response) {
	switch get := res.Request.Method == http.MethodGet; {
	case d.fault == "file byte" && get && res.StatusCode < 300:
		res.Body = &flip{ReadCloser: res.Body}
	case d.fault == "short file" && get && res.StatusCode == http.StatusOK && res.ContentLength > 0:
		res.Body = &shorter{ReadCloser: res.Body}
		setLength(res, res.ContentLength-1)
	case d.fault == "head" && !get && res.ContentLength > 0:
		setLength(res, res.ContentLength-1)
	case d.fault == "content-range" && res.Header.Get("Content-Range") != "":
		res.Header.Set("Content-Range", "bytes 0-0/1")
	}
}

// spoilStream changes what a viewer gets. A fault that begins with "HTTP/2 " is of viewers who come that way.
func (d *faulty) spoilStream(res *http.Response, path string) {
	fault, only := strings.CutPrefix(d.fault, "HTTP/2 ")
	switch kind, _, _ := strings.Cut(fault, " "); {
	case only && res.Request.ProtoMajor != 2:
	case strings.HasSuffix(path, ".mp4") && kind == "MP4":
		d.spoilMovie(res, fault)
	case path == "/live/soak-0" && (fault == "frame" || fault == "group"):
		res.Body = &cutter{ReadCloser: res.Body, r: bufio.NewReader(res.Body), group: fault == "group"}
	case path == "/live/soak-1" && fault == "plain byte":
		res.Body = &flip{ReadCloser: res.Body}
	case path == "/live/soak-1" && fault == "last byte":
		res.Body = &shorter{ReadCloser: res.Body}
	case path == "/live/soak-1" && fault == "cut":
		res.Body = &breaker{ReadCloser: res.Body, left: 10_000}
	}
}

func (d *faulty) spoilMovie(res *http.Response, fault string) {
	if fault == "MP4 cut" {
		res.Body = &breaker{ReadCloser: res.Body, left: 10_000}
		return
	}
	res.Body = &mender{ReadCloser: res.Body, r: bufio.NewReader(res.Body), fault: fault}
}

// spoilSummary has the server get more of a stream than was sent.
func spoilSummary(res *http.Response) error {
	var summary map[string]any
	if err := json.NewDecoder(res.Body).Decode(&summary); err != nil {
		return err
	}
	for _, name := range []string{"bytes", "frames"} {
		summary[name] = summary[name].(float64) + 1
	}
	text, err := json.Marshal(summary)
	setBody(res, text)
	return err
}

func setBody(res *http.Response, body []byte) {
	res.Body = io.NopCloser(bytes.NewReader(body))
	setLength(res, int64(len(body)))
}

func setLength(res *http.Response, n int64) {
	res.ContentLength = n
	res.Header.Set("Content-Length", fmt.Sprint(n))
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
	setBody(res, body)
	return nil
}
