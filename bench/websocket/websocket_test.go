package websocket

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-clients", "5", "-rate", "50",
		"-seconds", "1"}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		if !strings.Contains(out.String(), "| "+c.name+" ") {
			t.Errorf("no row of %s:\n%s", c.name, &out)
		}
	}
}
