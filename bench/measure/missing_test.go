package measure

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type named string

func (n named) Name() string { return string(n) }

func TestPresent(t *testing.T) {
	broken := errors.New("broken")
	ready := func(n named) error {
		switch n {
		case "absent":
			_, err := Find("no-such-program", "no-such-package")
			return fmt.Errorf("absent: %w", err)
		case "broken":
			return broken
		}
		return nil
	}
	var said strings.Builder
	log := func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) }
	there, err := Present([]named{"a", "absent", "b"}, ready, log)
	if err != nil || fmt.Sprint(there) != "[a b]" {
		t.Errorf("%v, %v", there, err)
	}
	if s := said.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "apt-get install no-such-package") {
		t.Errorf("it says %q", s)
	}
	if there, err := Present([]named{"absent"}, ready, log); !errors.Is(err, ErrMissing) {
		t.Errorf("with nobody: %v, %v", there, err)
	}
	if there, err := Present([]named{"a", "broken"}, ready, log); err != broken {
		t.Errorf("with one that is broken: %v, %v", there, err)
	}
}

func TestFind(t *testing.T) {
	if path, err := Find("sh", "dash"); err != nil || !strings.HasSuffix(path, "/sh") {
		t.Errorf("%q, %v", path, err)
	}
}
