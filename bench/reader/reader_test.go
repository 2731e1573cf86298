package reader

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestContendersDeliver(t *testing.T) {
	for _, c := range onGenerator {
		if err := c.check([]io.Reader{NewSource(1), NewSource(2), NewSource(3)}, 999); err != nil {
			t.Error(err)
		}
	}
	addr, child, err := measure.StartPeer(sender)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	for _, s := range patterns {
		for _, c := range onTCP {
			if err := s.check(addr, c); err != nil {
				t.Errorf("%s delivers other bytes: %v", s.name, err)
			}
		}
	}
}

// TestCheckSeesOtherBytes uses a stream with one wrong byte, and one with a missing byte.
func TestCheckSeesOtherBytes(t *testing.T) {
	sent := make([]byte, 10*PacketSize)
	fill(sent, 0)
	other := bytes.Clone(sent)
	other[5*PacketSize+7]++
	for name, b := range map[string][]byte{"another byte": other,
		"a byte less": append(sent[:300:300], sent[301:]...)} {
		if err := peek.check([]io.Reader{bytes.NewReader(b)}, 9); err == nil {
			t.Errorf("%s is not seen", name)
		}
	}
}

func TestSourceGivesAllSizes(t *testing.T) {
	s := NewSource(1)
	p := make([]byte, 2*maxRead)
	low, high := maxRead, 0
	for range 100_000 {
		n, _ := s.Read(p)
		low, high = min(low, n), max(high, n)
	}
	if low != minRead || high != maxRead {
		t.Errorf("reads of %d to %d bytes, want %d to %d", low, high, minRead, maxRead)
	}
}

// TestProgram measures briefly. Every contender has a row with figures in each table.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn", "1ms"}, &out,
		t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, c := range onGenerator {
		if n := strings.Count(out.String(), "| "+c.name+" "); n < len(workloads) {
			t.Errorf("%d rows of %s:\n%s", n, c.name, &out)
		}
	}
}
