package kept

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestContendersDeliver(t *testing.T) {
	for _, c := range contenders {
		if err := c.check(20); err != nil {
			t.Error(err)
		}
		c.handOff(2)
	}
}

// TestCheckSeesOtherBytes uses a contender that shares the first packet repeatedly.
func TestCheckSeesOtherBytes(t *testing.T) {
	same := newContender("the same packet", func() sharer[[]byte] {
		s := newSlices()
		first := s.next()
		s.next = func() []byte { return first }
		return s
	})
	if same.check(2) == nil {
		t.Error("other bytes are not seen")
	}
}

func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn",
		time.Millisecond.String()}, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, c := range contenders {
		if !strings.Contains(out.String(), "| "+c.name+" ") {
			t.Errorf("no row of %s:\n%s", c.name, &out)
		}
	}
}
