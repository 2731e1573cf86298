package sv2

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-conns", "100", "-messages",
		"300"}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if n := strings.Count(out.String(), "| "+s.name+" "); n != 1 {
			t.Errorf("%d rows of %s, want one:\n%s", n, s.name, &out)
		}
	}
}
