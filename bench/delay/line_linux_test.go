package delay

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

func TestLine(t *testing.T) {
	const rtt = 20 * time.Millisecond
	line, err := NewLine(rtt)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) || errors.Is(err, measure.ErrMissing) {
		t.Skip("two hosts need root, /dev/net/tun and ip(8): ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	l, err := line.Server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sent := bytes.Repeat([]byte("a long way "), 100_000)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Write(sent)
	}()
	begun := time.Now()
	c, err := line.Client.Dial(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if took := time.Since(begun); took < rtt {
		t.Errorf("connected after %v, and the line takes %v", took, rtt)
	}
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
}

// Every server sends the whole file over the line.
func TestDownload(t *testing.T) {
	line, err := NewLine(2 * time.Millisecond)
	if err != nil {
		t.Skip("TestLine says whether that is a failure: ", err)
	}
	defer line.Close()
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		_ = os.Chmod(at, 0o755) // nginx's worker is another user
	}
	const size = 3 << 20
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, s := range Contenders {
		t.Run(s.Name(), func(t *testing.T) {
			if err := s.Check(); err != nil && os.Getenv("CI") == "" {
				t.Skip(err)
			}
			if took, err := line.Download(t.Context(), s, dir, "file", size); err != nil || took <= 0 {
				t.Errorf("%v, %v", took, err)
			}
		})
	}
}
