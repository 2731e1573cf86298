package files

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) {
	Main()
	leaktest.Main(m)
}

// missing skips a test that cannot run without a program, but not where all of
// them must be installed.
func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func TestParseCase(t *testing.T) {
	for s, want := range map[string]Case{
		"64KiBx100":       {64 << 10, 100, false},
		"1MiBx8+tls":      {1 << 20, 8, true},
		"256MiBx1":        {256 << 20, 1, false},
		"2GiBx3":          {2 << 30, 3, false},
		"100x1":           {100, 1, false},
		"1536KiBx20+tls":  {1536 << 10, 20, true},
		"1000001x100+tls": {1000001, 100, true},
	} {
		c, err := ParseCase(s)
		if err != nil || c != want || c.String() != s {
			t.Errorf("%q is %+v (%s), %v", s, c, c, err)
		}
	}
	for _, s := range []string{
		"", "64KiB", "x", "1MiBx", "x8", "0x8", "1MiBx0", "-1x1", "1MBx8", "1MiBx8+ssl", "1x1x1", "KiBx1",
	} {
		if c, err := ParseCase(s); err == nil {
			t.Errorf("%q is %+v", s, c)
		}
	}
}

func TestParseContenders(t *testing.T) {
	all, err := ParseContenders("millrace, nginx2-cache,wrapped-copy,nginx")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name())
	}
	want := "chunk.FileServer; nginx, 2 workers, open_file_cache; wrapped: io.Copy; nginx"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, s := range []string{"", "apache", "nginx3", "millrace,"} {
		if _, err := ParseContenders(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestParseWrk(t *testing.T) {
	l, err := parseWrk([]byte("Running 1s test\n\nMEASURED {\"requests\":3,\"bytes\":4096,\"micros\":1100000," +
		"\"connect\":1,\"read\":2,\"write\":3,\"status\":4,\"timeout\":5,\"p99\":250}\n"))
	if want := (loaded{Requests: 3, Bytes: 4096, Micros: 1100000, P99: 250, Connect: 1, Read: 2, Write: 3, Status: 4,
		Timeout: 5}); err != nil || l != want || l.errors() != 15 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, s := range []string{"", "Running 1s test", "MEASURED {\"requests\":"} {
		if l, err := parseWrk([]byte(s)); err == nil {
			t.Errorf("%q is %+v", s, l)
		}
	}
}

// TestContendersServe gets a file from each contender, plain and by TLS.
func TestContendersServe(t *testing.T) {
	for _, secure := range []bool{false, true} {
		c := Case{Size: 100_001, Conns: 1, TLS: secure}
		dir := t.TempDir()
		site, err := makeSite(dir, c)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(site.Dir, c.file()))
		if err != nil || int64(len(want)) != c.Size {
			t.Fatalf("%d bytes, %v", len(want), err)
		}
		// The directories above it are closed to nginx's workers.
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, who := range Contenders() {
			t.Run(who.Key()+strings.TrimPrefix(c.String(), "100001x1"), func(t *testing.T) {
				if err := who.Check(); err != nil {
					missing(t, err)
				}
				tryContender(t, who, c, site, want)
			})
		}
	}
}

func tryContender(t *testing.T, who Contender, c Case, s Site, want []byte) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	srv, err := who.Start(ctx, t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	client, err := s.client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	for range 3 {
		var got bytes.Buffer
		if _, err := get(ctx, client, srv.URL+c.file(), &got); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%d bytes that are not the file's %d, %v", got.Len(), len(want), err)
		}
	}
	if u, err := use(srv.PIDs); !errors.Is(err, errors.ErrUnsupported) && (err != nil || u.peak == 0) {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestChildOfNothing has a process told to be a server that there is not.
func TestChildOfNothing(t *testing.T) {
	if err := serve(order{Handler: "apache"}); err == nil {
		t.Error("no error")
	}
	srv, err := goServer{handler{key: "apache", name: "apache"}}.Start(t.Context(), t.TempDir(), Site{})
	if err == nil {
		srv.Stop()
		t.Error("it has started")
	}
}

// TestRun puts load on two contenders for a second each.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("runs wrk")
	}
	if err := checkWrk(); err != nil {
		missing(t, err)
	}
	all, err := ParseContenders("fileserver,wrapped-millrace")
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{Cases: []Case{{Size: 1000, Conns: 2}}, Contenders: all, Rounds: 1, Seconds: 1, Threads: 1, Log: t.Logf}
	turns, err := p.Run(t.Context())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil || len(turns) != 2 {
		t.Fatalf("%d turns, %v", len(turns), err)
	}
	for _, turn := range turns {
		if turn.Errors > 0 || turn.Requests == 0 || turn.Bytes < turn.Requests*1000 || turn.P99 <= 0 || turn.CPU <= 0 {
			t.Errorf("%+v", turn)
		}
	}
	var table strings.Builder
	p.WriteTable(&table, p.Cases[0], turns)
	if n := strings.Count(table.String(), "\n"); n != 6 {
		t.Errorf("the table has %d lines:\n%s", n, &table)
	}
	if us := p.cpuOfOurs(turns, p.Cases[0], all[1]); len(us) != 1 || us[0] != turns[1].cpuPerGB() {
		t.Errorf("what is wrapped is compared with %v", us)
	}
	if us := p.cpuOfOurs(turns, p.Cases[0], all[0]); len(us) != 0 {
		t.Errorf("there is no chunk.FileServer, and %v", us)
	}
	checkChart(t, p.Chart(turns), 2)
	checkChart(t, p.Chart(nil), 0)
}

// checkChart wants so many bars, and the background.
func checkChart(t *testing.T, svg []byte, bars int) {
	t.Helper()
	rects := 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if rects != bars+1 {
		t.Errorf("%d bars, want %d:\n%s", rects-1, bars, svg)
	}
}

// TestWrappedHidesReadFrom pins what the wrapped contenders are about.
func TestWrappedHidesReadFrom(t *testing.T) {
	var w http.ResponseWriter = &loggedResponse{}
	if _, ok := w.(io.ReaderFrom); ok {
		t.Error("it has ReadFrom")
	}
	if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok {
		t.Error("it has no Unwrap")
	}
}
