package websocket_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/frame/websocket"
)

// TestAutobahn runs the Autobahn test suite, which scripts/autobahn installs. The cases of
// compression are left out.
func TestAutobahn(t *testing.T) {
	dir := os.Getenv("AUTOBAHN")
	if dir == "" {
		t.Skip("only scripts/autobahn runs the Autobahn test suite")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := websocket.Accept(w, r, &websocket.Options{MaxMessage: 32 << 20}); err == nil {
			_ = echoAll(conn)
			conn.NetConn().Close()
		}
	}))
	defer server.Close()
	reports := t.TempDir()
	spec := filepath.Join(reports, "spec.json")
	if err := os.WriteFile(spec, fmt.Appendf(nil, `{"outdir": %q, "cases": ["*"],
		"exclude-cases": ["12.*", "13.*"], "exclude-agent-cases": {},
		"servers": [{"agent": "millrace", "url": %q}]}`, reports,
		strings.Replace(server.URL, "http", "ws", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	suite := exec.Command("bash", "-c", `python2 "$dir/wstest.py" -m fuzzingclient -s "$0"`, spec)
	if out, err := suite.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(reports, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]map[string]struct{ Behavior, BehaviorClose string }
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for name, result := range index["millrace"] {
		count[result.Behavior]++
		for _, b := range []string{result.Behavior, result.BehaviorClose} {
			if b != "OK" && b != "INFORMATIONAL" && b != "NON-STRICT" {
				t.Errorf("case %s: %s, close %s", name, result.Behavior, result.BehaviorClose)
			}
		}
	}
	if len(index["millrace"]) < 300 {
		t.Errorf("%d cases, want 301", len(index["millrace"]))
	}
	t.Logf("%d cases: %v", len(index["millrace"]), count)
}
