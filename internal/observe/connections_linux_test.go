package observe

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestConnections(t *testing.T) {
	conn, closed := talk(t, echo(t), 20), talk(t, echo(t), 1)
	closed.Close()
	list := []syscall.Conn{closed, conn, os.Stderr, &net.TCPConn{}} // one that can be asked
	c := &connections{list: func() []syscall.Conn { return list }}
	var s KernelSample
	if c.read(&s); s != (KernelSample{}) {
		t.Errorf("nothing is enabled, but %+v", s)
	}
	if err := c.enableRTT(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c.read(&s); s.RTT.Count != 1 || s.RTT.P50 <= 0 || s.Retransmits != 0 {
			t.Errorf("one connection is open: %+v", s)
		}
	}
	list = nil
	if c.read(&s); s.RTT != (Spread{}) || len(c.resent) != 0 {
		t.Errorf("no connection is left: %+v, %v", s.RTT, c.resent)
	}
	if notes := c.notes(); notes != nil {
		t.Errorf("notes %q", notes)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

// However many connections a load has, MaxConns of them are asked, and a note says so.
func TestConnectionsAreBounded(t *testing.T) {
	conn := talk(t, echo(t), 1)
	list := make([]syscall.Conn, MaxConns+7)
	for i := range list {
		list[i] = conn
	}
	c := &connections{list: func() []syscall.Conn { return list }}
	if err := c.enableRTT(); err != nil {
		t.Fatal(err)
	}
	var s KernelSample
	if c.read(&s); s.RTT.Count != MaxConns {
		t.Errorf("%d were asked", s.RTT.Count)
	}
	if notes := c.notes(); len(notes) != 1 || !strings.Contains(notes[0], "263 connections the first 256") {
		t.Errorf("notes %q", notes)
	}
}

func TestConnectionsWithoutAList(t *testing.T) {
	c := &connections{}
	if err := c.enableRTT(); err != errNoConns {
		t.Error(err)
	}
	if err := c.enableRetransmits(); err != errNoConns {
		t.Error(err)
	}
	var s KernelSample
	if c.read(&s); s != (KernelSample{}) {
		t.Errorf("%+v", s)
	}
}

// Options.Conns is what the kernel layer asks where it may not trace.
func TestRecorderOfConnections(t *testing.T) {
	conn := talk(t, echo(t), 20)
	r, err := Start(Options{
		Kernel: KernelProc, Interval: MinInterval,
		Conns: func() []syscall.Conn { return []syscall.Conn{conn} },
	})
	if err != nil {
		t.Fatal(err)
	}
	tl, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if tl.Kernel.RTT.Source != SourceTCPInfo || tl.Kernel.Retransmits.Source != SourceTCPInfo {
		t.Errorf("%+v", tl.Kernel)
	}
	if s := tl.Samples[0].Kernel; s.RTT.Count != 1 || s.RTT.P50 <= 0 {
		t.Errorf("%+v", s)
	}
}
