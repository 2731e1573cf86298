package chunk

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// smallSendings are as small as they can be.
func smallSendings() []Sending {
	all := slices.Clone(Sendings)
	for i := range all {
		all[i].Size = len(text)
		all[i].piece = min(all[i].piece, len(text))
	}
	return all
}

// TestSendings checks that all bytes come, from everybody, and that everybody has a row.
func TestSendings(t *testing.T) {
	s, _ := newSite(t)
	for _, c := range smallSendings() {
		t.Run(c.What, func(t *testing.T) {
			var b strings.Builder
			if err := c.Write(&b, s, 1, time.Microsecond); err != nil {
				t.Fatal(err)
			}
			for _, by := range c.senders {
				if !strings.Contains(b.String(), "| "+by.Name) {
					t.Errorf("no row of %q", by.Name)
				}
			}
			if strings.Contains(b.String(), "| - ") || !strings.Contains(b.String(), c.Shows) {
				t.Errorf("holes in the table:\n%s", b.String())
			}
		})
	}
}

// TestOtherPiecesAreSeen has a sender that sends another piece than it is told to.
func TestOtherPiecesAreSeen(t *testing.T) {
	s, _ := newSite(t)
	c := smallSendings()[0]
	c.senders = []Sender{{"always the first", func(f *os.File, to *net.TCPConn, piece int) (*sending, error) {
		by, err := sendRead(f, to, piece)
		if err != nil {
			return nil, err
		}
		return &sending{send: func(int64) error { return by.send(0) }}, nil
	}}}
	if _, err := c.Measure(s, 1, time.Microsecond); !errors.Is(err, errOtherBytes) {
		t.Errorf("%v", err)
	}
}

// TestSendersThatFail checks that nobody waits for bytes that do not come.
func TestSendersThatFail(t *testing.T) {
	s, _ := newSite(t)
	for _, c := range smallSendings() {
		for _, by := range c.senders {
			w, err := newWire()
			if err != nil {
				t.Fatal(err)
			}
			at, err := by.open(s.file, w.TCPConn, c.piece)
			if err != nil {
				t.Fatal(err)
			}
			w.TCPConn.Close()
			if err := w.carry(at, []int64{0}, c.piece, 0); err == nil {
				t.Errorf("%s: no error of a connection that is closed", by.Name)
			}
			if at.close != nil {
				at.close()
			}
			w.Close()
		}
	}
}
