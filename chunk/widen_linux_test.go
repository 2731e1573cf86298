package chunk_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
	"golang.org/x/sys/unix"
)

// sendBuffer returns how large the send buffer of a connection is, and whether the kernel leaves it so.
func sendBuffer(t *testing.T, c syscall.Conn) (size int, locked bool) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		var lock int
		if lock, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BUF_LOCK); err == nil {
			size, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		}
		locked = lock&unix.SOCK_SNDBUF_LOCK != 0
	}))
	if err != nil {
		t.Skip("before Linux 5.14:", err)
	}
	return size, locked
}

// TestSendBuffer: a connection that takes a long body is given a larger buffer meanwhile, if that is wanted and there is any,
// and is the kernel's to tune afterwards.
func TestSendBuffer(t *testing.T) {
	const long, wide = 24 << 20, 400_000
	root, _ := makeTree(t, map[string]string{"long": string(make([]byte, long)), "short": string(make([]byte, 6<<20))})
	for _, tt := range []struct {
		name          string
		opts          []chunk.FileOption
		tuned, widest int
		share         int64
		path          string
		own           bool // the server has set the buffer
		want          int  // 0: as it is
	}{
		{name: "by default", tuned: 1, widest: wide, share: wide, path: "long", want: wide},
		{name: "less", opts: []chunk.FileOption{chunk.SendBuffer(100_000)}, tuned: 1, widest: wide, share: wide, path: "long", want: 200_000},
		{name: "off", opts: []chunk.FileOption{chunk.SendBuffer(0)}, tuned: 1, widest: wide, share: wide, path: "long"},
		{name: "no share left", tuned: 1, widest: wide, share: wide - 1, path: "long"},
		{name: "tuned to as much", tuned: wide, widest: wide, share: wide, path: "long"},
		{name: "not tuned so far", tuned: wide * 1000, widest: wide * 1001, share: wide * 1001, path: "long"},
		{name: "the kernel does not say", path: "long"},
		{name: "a short body", tuned: 1, widest: wide, share: wide, path: "short"},
		{name: "set by the server", tuned: 1, widest: wide, share: wide, path: "long", own: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Cleanup(chunk.SetBuffers(tt.tuned, tt.widest, tt.share))
			files := newFiles(t, root, tt.opts...)
			known := make(chan syscall.Conn, 1)
			s := serveKnown(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c := connOf(r)
				if tt.own {
					must(t, c.(*chunk.Conn).SetWriteBuffer(50_000))
				}
				known <- c
				files.ServeHTTP(w, r)
			}), true, false)
			client, err := net.Dial("tcp", s.Listener.Addr().String())
			must(t, err)
			defer client.Close()
			from := bufio.NewReaderSize(client, 256<<10)
			for range 2 { // the second answer on the connection is like the first
				_, err = fmt.Fprintf(client, "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", tt.path)
				must(t, err)
				conn := <-known
				res, err := http.ReadResponse(from, nil)
				must(t, err)
				widest := 0
				for err == nil {
					_, err = io.CopyN(io.Discard, res.Body, 256<<10)
					if size, locked := sendBuffer(t, conn); locked {
						widest = max(widest, size)
					}
				}
				if err != io.EOF {
					t.Fatal(err)
				}
				switch {
				case tt.own:
					if widest != 100_000 {
						t.Errorf("the buffer has %d bytes, and the server has set 100,000", widest)
					}
				case widest != tt.want:
					t.Errorf("the buffer is made %d bytes, want %d", widest, tt.want)
				}
				for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
					_, locked := sendBuffer(t, conn)
					if locked == tt.own && chunk.Widened() == 0 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("afterwards: locked %v, %d bytes of buffers are widened", locked, chunk.Widened())
					}
				}
			}
		})
	}
}

func TestSendBufferPanics(t *testing.T) {
	for _, n := range []int{-1, 1<<29 + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("SendBuffer(%d) did not panic", n)
				}
			}()
			chunk.SendBuffer(n)
		}()
	}
}
