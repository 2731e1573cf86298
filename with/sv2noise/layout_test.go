package sv2noise

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The package imports only these packages in addition to the standard library and millrace.
func TestImports(t *testing.T) {
	const library = "github.com/millrace-io/millrace"
	may := []string{library, library + "/frame", library + "/frame/sv2",
		"github.com/btcsuite/btcd/btcec/v2", "github.com/btcsuite/btcd/btcec/v2/ellswift",
		"github.com/btcsuite/btcd/btcec/v2/schnorr", "golang.org/x/crypto/chacha20poly1305"}
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") && !slices.Contains(may, path) {
			t.Errorf("it imports %q", path)
		}
	}
}
