package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// The environment of a double: this test binary, run as a server with a fault.
const (
	faultVar   = "MILLRACE_SOAK_FAULT"
	programVar = "MILLRACE_SOAK_PROGRAM"
)

func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv(faultVar); ok {
		double(fault)
		return
	}
	leaktest.Main(m)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func TestSoak(t *testing.T) {
	program, err := measure.BuildServer(t.Context(), t.TempDir())
	must(err)
	for name, test := range map[string]func(t *testing.T, program string){
		"faults": faultsAreFound, "exit status": exitStatusIsFound, "nothing": nothingIsFound,
		"interruption": interruption,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

// small returns the configuration of a run on a double with a fault.
func small(t *testing.T, program, fault string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Defaults()
	cfg.Program, cfg.Env = self, []string{faultVar + "=" + fault, programVar + "=" + program}
	cfg.For, cfg.Cycle, cfg.Cycles, cfg.Settle = time.Hour, 400*time.Millisecond, 30, 2*time.Second
	cfg.Streams, cfg.Viewers, cfg.Rate = 1, 4, 500_000
	cfg.NoRedis, cfg.NoRestarts = true, true
	return cfg
}

// Each fault of a server is found and named.
func faultsAreFound(t *testing.T, program string) {
	for fault, says := range map[string]string{
		"FLV byte":      `soak-0: .*tag \d+ has \d+ bytes that are not`,
		"FLV end":       `soak-0 ended properly after tag \d+, and was sent to \d+`,
		"no end":        `a viewer of soak-0: no end 2s after that of the stream`,
		"MP4 byte":      `soak-0.mp4: .*tag \d+ has \d+ bytes that are not|the boxes do not fit`,
		"summary":       `soak-0: the server got \d+ tags, want \d+`,
		"file byte":     `file \S+: wrong bytes`,
		"content-range": `Content-Range is "bytes 0-0/1", want`,
		"blob byte":     `blob soak/\S+(: wrong bytes| begins with)`,
		"lost blob":     `blob soak/\S+( is not there|: found write)`,
		"expired":       `is there .* after its time of .* was over`,
		"status":        `status 500: as a fault`,
		"log":           `its log says: .*something is wrong`,
		"goroutine":     `goroutines: \d+ at quiet point \d, after \d+`,
		"leak":          `leaked goroutines:\n(.*\n)*.* total [1-9]`,
		"descriptor":    `descriptors: \d+ at quiet point \d, after \d+`,
		"busy":          `1 streams, viewers, downloads and uploads are in progress, says the server`,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cfg := small(t, program, fault)
			cfg.Keep = filepath.Join(t.TempDir(), "kept")
			report, err := Run(t.Context(), cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(report.Faults, "\n"); report.Verdict != Failed ||
				!regexp.MustCompile(says).MatchString(all) {
				t.Errorf("%s after %d cycles, want %q:\n%s", report.Verdict, report.Cycles, says,
					all)
			}
			if _, err := os.Stat(filepath.Join(cfg.Keep, "directory.log")); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server with a wrong exit status fails.
func exitStatusIsFound(t *testing.T, program string) {
	cfg := small(t, program, "exit status")
	cfg.Cycles = 1
	report, err := Run(t.Context(), cfg, nil)
	if err != nil || !strings.Contains(strings.Join(report.Faults, "\n"), "exit status 3") {
		t.Errorf("%v, %+v, want the exit status 3 among the faults", err, report)
	}
}

// A server without a fault passes, including restarts.
func nothingIsFound(t *testing.T, program string) {
	cfg := small(t, program, "")
	cfg.Program = program // the server itself, because a double's server dies shortly after the double
	// The first third of the cycles has two restarts.
	cfg.NoRestarts, cfg.Settle, cfg.Cycles = false, time.Minute, 2+pointsWanted
	report, err := Run(t.Context(), cfg, nil)
	if err != nil || report.Verdict != Passed || report.Done[bySIGTERM] != 1 ||
		report.Done[bySIGKILL] != 1 {
		t.Fatalf("%v, %+v, want a pass with one SIGTERM and one SIGKILL", err, report)
	}
	for _, what := range []string{checked, published, viewers, viewersMP4, viewersHTTP2, toTheEnd,
		fileRequests, blobRequests} {
		if report.Done[what] == 0 {
			t.Errorf("%s was not done", what)
		}
	}
}

// An interrupted run has neither passed nor failed.
func interruption(t *testing.T, program string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	report, err := Run(ctx, small(t, program, ""), func(string) { cancel() })
	if err != nil || report.Verdict != Unjudged || report.Cycles != 1 ||
		!strings.Contains(strings.Join(report.Unjudged, "\n"), "interrupted after ") {
		t.Errorf("%v, %+v, want one cycle, not judged", err, report)
	}
}

// Slow growth is a trend. Fluctuation is not.
func TestTrends(t *testing.T) {
	heap := rules(0)[4]
	for name, test := range map[string]struct {
		mib   [pointsWanted]int64
		grows bool
	}{
		"grows":                   {[...]int64{2, 9, 10, 11, 12, 13, 14, 15}, true},
		"large at first":          {[...]int64{90, 80, 10, 10, 10, 10, 10, 10}, false},
		"small in proportion":     {[...]int64{0, 0, 100, 101, 102, 103, 104, 105}, false},
		"small":                   {[...]int64{1, 1, 1, 1, 1, 3, 3, 3}, false},
		"one point that is large": {[...]int64{5, 5, 5, 5, 5, 5, 5, 9}, false},
	} {
		var points []point
		for _, n := range test.mib {
			points = append(points, point{Heap: n << 20})
		}
		if err := heap.judge(points); (err != nil) != test.grows ||
			heap.judge(points[:pointsWanted-1]) != nil {
			t.Errorf("%s: %v, want a fault only if it grows", name, err)
		}
	}
}

// A faulty is a proxy to a server that makes one kind of mistake.
type faulty struct {
	fault string
	asked atomic.Int64 // number of requests for files and blobs
	held  []*os.File
}

// double runs the server and a proxy for each of its two addresses.
func double(fault string) {
	cmd := exec.Command(os.Getenv(programVar), os.Args[1:]...)
	out, err := cmd.StderrPipe()
	must(err)
	var guard childproc.Guard
	must(guard.Start(cmd))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}()
	d := &faulty{fault: fault}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var l logLine
		if json.Unmarshal(lines.Bytes(), &l) == nil && strings.HasSuffix(l.Message, "listening") &&
			l.Address != "" {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			must(err)
			go d.serve(ln, l.Address)
			l.Address = ln.Addr().String()
			must(json.NewEncoder(os.Stderr).Encode(l))
			continue
		}
		fmt.Fprintln(os.Stderr, lines.Text())
	}
	if err := cmd.Wait(); fault == "exit status" || err != nil {
		os.Exit(3)
	}
}

func (d *faulty) serve(ln net.Listener, to string) {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: to})
			r.Out.Host = to
		},
		Transport:      &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval:  -1,
		ErrorLog:       log.New(io.Discard, "", 0),
		ModifyResponse: d.spoil,
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	must((&http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		if !d.refuse(w, r) {
			proxy.ServeHTTP(w, r)
		}
	})}).Serve(ln))
}

// refuse makes the mistakes that need no response of the server. It reports whether it has answered
// the request.
func (d *faulty) refuse(w http.ResponseWriter, r *http.Request) bool {
	request := strings.HasPrefix(r.URL.Path, "/files/") || strings.HasPrefix(r.URL.Path, "/blobs/")
	fifth := request && d.asked.Add(1)%5 == 0
	switch {
	case d.fault == "status" && fifth:
		http.Error(w, "as a fault", http.StatusInternalServerError)
		return true
	case d.fault == "log" && fifth:
		fmt.Fprintln(os.Stderr, `{"level":"ERROR","msg":"something is wrong"}`)
	case d.fault == "lost blob" && r.Method == http.MethodPut && r.Header.Get("Millrace-TTL") == "":
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			w.WriteHeader(http.StatusNoContent)
			return true
		}
	case d.fault == "expired" && r.Method == http.MethodPut:
		r.Header.Del("Millrace-TTL")
	case d.fault == "descriptor" && r.URL.Path == "/debug/pprof/heap":
		for range 50 {
			f, err := os.Open(os.DevNull)
			must(err)
			d.held = append(d.held, f)
		}
	}
	return false
}

// spoil changes a response.
func (d *faulty) spoil(res *http.Response) error {
	path, get := res.Request.URL.Path, res.Request.Method == http.MethodGet && res.StatusCode < 300
	switch {
	case d.fault == "content-range" && res.StatusCode == http.StatusPartialContent:
		res.Header.Set("Content-Range", "bytes 0-0/1")
	case d.fault == "file byte" && get && strings.HasPrefix(path, "/files/"),
		d.fault == "blob byte" && get && strings.HasPrefix(path, "/blobs/"):
		res.Body = &spoiled{ReadCloser: res.Body, flip: 0}
	case d.fault == "FLV byte" && path == "/live/soak-0" && get:
		res.Body = &spoiled{ReadCloser: res.Body, flip: 3000}
	case d.fault == "MP4 byte" && path == "/live/soak-0.mp4":
		res.Body = &spoiled{ReadCloser: res.Body, flip: 9000}
	case d.fault == "no end" && path == "/live/soak-0" && get:
		res.Body = &spoiled{ReadCloser: res.Body, flip: -1, hang: res.Request.Context()}
	case d.fault == "FLV end" && path == "/live/soak-0" && get:
		res.Body = &lastTagLost{in: bufio.NewReader(res.Body), Closer: res.Body}
	case d.fault == "summary" && path == "/live/soak-0":
		return d.replace(res, `"frames":\s*(\d+)`, 1)
	case d.fault == "goroutine" && path == "/debug/pprof/goroutine":
		return d.replace(res, `total (\d+)`, int(d.asked.Load()))
	case d.fault == "leak" && path == "/debug/pprof/goroutineleak":
		return d.replace(res, `total (\d+)`, 1)
	case d.fault == "busy" && path == "/metrics":
		return d.replace(res, `\nmillrace_blobs_uploads (\d+)`, 1)
	}
	return nil
}

// replace adds n to the number that pattern finds in the body.
func (d *faulty) replace(res *http.Response, pattern string, n int) error {
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if at := regexp.MustCompile(pattern).FindSubmatchIndex(body); at != nil {
		var was int
		fmt.Sscan(string(body[at[2]:at[3]]), &was)
		body = append(append(body[:at[2]:at[2]], fmt.Sprint(was+n)...), body[at[3]:]...)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	res.ContentLength = -1
	res.Header.Del("Content-Length")
	return nil
}

// A spoiled body has a wrong byte at the offset flip. If hang is set, it never ends.
type spoiled struct {
	io.ReadCloser
	flip, off int64
	hang      context.Context
}

func (s *spoiled) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if at := s.flip - s.off; at >= 0 && at < int64(n) {
		p[at] ^= 1
	}
	s.off += int64(n)
	if err == io.EOF && s.hang != nil {
		<-s.hang.Done()
	}
	return n, err
}

// lastTagLost is an FLV body without its last tag.
type lastTagLost struct {
	io.Closer
	in      *bufio.Reader
	begun   bool
	tag     []byte // the last tag that was read
	pending []byte
}

func (l *lastTagLost) Read(p []byte) (int, error) {
	if len(l.pending) == 0 {
		if !l.begun {
			l.begun = true
			l.pending = make([]byte, len(httpflv.Header))
			if _, err := io.ReadFull(l.in, l.pending); err != nil {
				return 0, err
			}
		} else {
			head, err := l.in.Peek(11)
			if err != nil {
				return 0, io.EOF
			}
			tag := make([]byte, 11+int(head[1])<<16+int(head[2])<<8+int(head[3])+4)
			if _, err := io.ReadFull(l.in, tag); err != nil {
				return 0, err
			}
			l.pending, l.tag = l.tag, tag
		}
	}
	n := copy(p, l.pending)
	l.pending = l.pending[n:]
	return n, nil
}
