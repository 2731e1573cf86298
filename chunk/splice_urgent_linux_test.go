package chunk_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/chunk"
)

// A byte that a peer sends out of the line stops splice, which takes what follows for the end. Nothing of it may be lost.
func TestCopyPastUrgentData(t *testing.T) {
	after := bytes.Repeat([]byte("after"), 1000)
	for _, dst := range copyTargets {
		for _, late := range []bool{false, true} {
			peer, src := tcpEnds(t)
			w, got := dst.open(t)
			send := func() {
				_, _ = peer.Write([]byte("before"))
				raw, err := peer.SyscallConn()
				if err != nil {
					t.Error(err)
				}
				_ = raw.Control(func(fd uintptr) {
					if err := unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil); err != nil {
						t.Error(err)
					}
				})
				_, _ = peer.Write(after)
				_ = peer.Close()
			}
			if late {
				timer := time.AfterFunc(soon, send)
				defer timer.Stop()
			} else {
				send()
			}
			report, err := chunk.Copy(context.Background(), w, src)
			if want := int64(len("before") + len(after)); err != nil || report.Bytes != want {
				t.Errorf("%s: %+v, %v", dst.name, report, err)
			}
			if b := got(); string(b) != "before"+string(after) {
				t.Errorf("%s: %d other bytes arrived", dst.name, len(b))
			}
		}
	}
}
