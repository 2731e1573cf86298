package idle

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestIdleReaderHoldsNoBlock(t *testing.T) {
	const conns = 300
	bare, err := hold(waiters[0], conns, nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := hold(waiters[1], conns, nil)
	if err != nil {
		t.Fatal(err)
	}
	if each := (ours.heap - bare.heap) / conns; each >= 512 {
		t.Errorf("%d bytes of heap a Reader that waits, want fewer than 512", each)
	}
}

func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-conns", "200"}, &out,
		t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, w := range waiters {
		if n := strings.Count(out.String(), "| "+w.name+" "); n != 2 {
			t.Errorf("%d rows of %s, want one in each table:\n%s", n, w.name, &out)
		}
	}
}
