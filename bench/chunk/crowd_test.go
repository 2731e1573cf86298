package chunk

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestWorkers checks that all pieces are worked on, by everybody, and that everybody has a row.
func TestWorkers(t *testing.T) {
	s, _ := newSite(t)
	c := Workers
	c.Size = len(text)
	var b strings.Builder
	if err := c.Write(&b, s, 2, time.Microsecond); err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(b.String(), "\n| "); rows != 1+len(c.shifts(nil)) { // and the rule
		t.Errorf("%d rows:\n%s", rows, b.String())
	}
	if strings.Contains(b.String(), "| - ") {
		t.Errorf("holes in the table:\n%s", b.String())
	}
}

// TestOtherDigestsAreSeen checks that everybody's digests are looked at.
func TestOtherDigestsAreSeen(t *testing.T) {
	s, _ := newSite(t)
	c := Workers
	c.Size = len(text)
	want, err := c.checksum(s.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range c.shifts(s.file) {
		if err := by.way(want).run(); err != nil {
			t.Errorf("%s: %v", by.name, err)
		}
		if err := by.way(want + 1).run(); !errors.Is(err, errOtherBytes) {
			t.Errorf("%s: other digests: %v", by.name, err)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, key := range Keys() {
		if len(Parts(key)) == 0 {
			t.Errorf("no table is called %q", key)
		}
	}
	if Parts("") != nil || len(Parts("copybuffer")) != 2 {
		t.Errorf("%d tables without a name, %d of copybuffer", len(Parts("")), len(Parts("copybuffer")))
	}
}
