package small

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// TestWorksComeToTheSame checks that each case has the same result with each contender.
func TestWorksComeToTheSame(t *testing.T) {
	for _, c := range cases() {
		lastLen, lastString = -1, ""
		c.works[0](1)
		wantLen, wantString := lastLen, lastString
		for _, do := range c.works[1:] {
			if do == nil {
				continue
			}
			lastLen, lastString = -1, ""
			if do(1); lastLen != wantLen || lastString != wantString {
				t.Errorf("%s: %d bytes and %q, want %d and %q", c.name, lastLen, lastString,
					wantLen, wantString)
			}
		}
	}
}

func TestProgram(t *testing.T) {
	var out strings.Builder
	if err := Program.Main(t.Context(), []string{"-rounds", "1", "-turn", "1us"}, &out,
		t.Output()); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases() {
		if !strings.Contains(out.String(), "| "+c.name+" ") {
			t.Errorf("no row of %q:\n%s", c.name, &out)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := Program.Main(stopped, nil, &out, t.Output()); !errors.Is(err, context.Canceled) {
		t.Errorf("a program that is interrupted ends with %v", err)
	}
}
