package writer

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestContendersDeliver(t *testing.T) {
	for _, c := range contenders {
		for _, m := range messages {
			if err := c.check(m); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn", "1ms"}, &out,
		t.Output()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "80 writes") {
		t.Errorf("no table:\n%s", out.String())
	}
}
