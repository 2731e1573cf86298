//go:build linux

package badnet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// A connection over the bad network carries every byte, late.
func TestConnection(t *testing.T) {
	if os.Getenv("BADNET") == "" {
		cmd := Command("-test.run=^TestConnection$", "-test.v")
		cmd.Env = append(os.Environ(), "BADNET=1")
		out, err := cmd.CombinedOutput()
		if errors.Is(err, os.ErrPermission) {
			t.Skip("the system allows no network namespaces: ", err)
		}
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	n, err := Open(Bad, 1)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		t.Skip("the system has no TUN devices: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	l, err := net.Listen("tcp", Local+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := bytes.Repeat([]byte("bytes "), 20_000)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, _ = conn.Write(want)
			_ = conn.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	start := time.Now()
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(Narrow, port), 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := io.ReadAll(conn)
	took := time.Since(start)
	t.Logf("%d bytes in %v: %+v", len(got), took, n.Stats())
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
	if least := time.Duration(len(want)) * 8 * time.Microsecond; took < least {
		t.Errorf("it took %v, want at least %v at 1 Mbit/s", took, least)
	}
}
