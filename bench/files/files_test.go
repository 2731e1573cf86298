package files

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestParseCase(t *testing.T) {
	for s, want := range map[string]testCase{"64KiBx100": {64 << 10, 100}, "1MiBx8": {1 << 20, 8},
		"1000001x100": {1000001, 100}} {
		if c, err := parseCase(s); err != nil || c != want || c.String() != s {
			t.Errorf("parseCase(%q) = %+v (%s), %v", s, c, c, err)
		}
	}
	for _, s := range []string{"", "64KiB", "x", "1MiBx", "x8", "0x8", "1MiBx0", "-1x1", "1MBx8",
		"1x1x1", "KiBx1"} {
		if c, err := parseCase(s); err == nil {
			t.Errorf("%q is accepted as %+v", s, c)
		}
	}
	if all, err := parseContenders("millrace, nginx-push"); err != nil ||
		all[1].name != "nginx, tcp_nopush off" {
		t.Errorf("contenders %v, %v, want nginx without tcp_nopush second", all, err)
	}
	for _, s := range []string{"", "apache", "nginx3", "millrace,"} {
		if _, err := parseContenders(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestParseWrk(t *testing.T) {
	l, err := parseWrk(
		[]byte("Running 1s test\n\nMEASURED {\"requests\":3,\"bytes\":4096,\"micros\":1100000," +
			"\"connect\":1,\"read\":2,\"write\":3,\"status\":4,\"timeout\":5,\"p99\":250}\n"))
	if want := (wrkResult{Requests: 3, Bytes: 4096, Micros: 1100000, P99: 250, Connect: 1, Read: 2,
		Write: 3, Status: 4,
		Timeout: 5}); err != nil || l != want || l.errors() != 15 {
		t.Errorf("parseWrk = %+v, %v, want %+v", l, err, want)
	}
	for _, s := range []string{"", "Running 1s test", "MEASURED {\"requests\":"} {
		if l, err := parseWrk([]byte(s)); err == nil {
			t.Errorf("%q is accepted as %+v", s, l)
		}
	}
}

// TestContendersDeliver starts each contender and compares its response with the file.
func TestContendersDeliver(t *testing.T) {
	const size = 100_001
	dir := t.TempDir()
	root, err := makeFile(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	// The directories above would be closed to nginx's workers.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, who := range contenders() {
		t.Run(who.key, func(t *testing.T) {
			benchtest.Need(t, who.check())
			srv, err := who.start(t.Context(), t.TempDir(), root)
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Stop()
			if err := warmUp(t.Context(), "http://"+srv.Addr+"/"+fileName(size), size); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOtherBytesAreSeen uses a server that sends the right number of wrong bytes.
func TestOtherBytesAreSeen(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, strings.Repeat("x", 1000))
	}))
	defer srv.Close()
	if err := warmUp(t.Context(), srv.URL, 1000); err == nil {
		t.Error("other bytes are not seen")
	}
}

// TestProgram puts load on two contenders for a second each.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("runs wrk")
	}
	benchtest.Need(t, checkWrk())
	var out strings.Builder
	args := []string{"-rounds", "1", "-case", "1000x2", "-contenders",
		"fileserver,wrapped-millrace", "-seconds", "1"}
	if err := Program.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n| "); n != 4 || strings.Contains(out.String(), "NaN") {
		t.Errorf("%d lines, want a head and three rows without NaN:\n%s", n, &out)
	}
}

// TestWrappedHidesReadFrom checks the property that the contenders behind a middleware rely on.
func TestWrappedHidesReadFrom(t *testing.T) {
	var w http.ResponseWriter = &loggedResponse{}
	if _, ok := w.(io.ReaderFrom); ok {
		t.Error("it has ReadFrom")
	}
	if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok {
		t.Error("it has no Unwrap")
	}
}
