package chunk_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// someBytes returns n bytes without repetitions.
func someBytes(n int) []byte {
	p := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = rnd.Read(p)
	return p
}

// copySource is a kind of source.
type copySource struct {
	name string
	kind string // file, stream, or other
	open func(t *testing.T, data []byte) io.Reader
}

var copySources = []copySource{
	{"file", "file", func(t *testing.T, data []byte) io.Reader { return fileOf(t, data) }},
	{"limited file", "file", func(t *testing.T, data []byte) io.Reader {
		f := fileOf(t, append(data[:len(data):len(data)], "not this"...))
		return io.LimitReader(f, int64(len(data)))
	}},
	{"TCP", "stream", func(t *testing.T, data []byte) io.Reader {
		w, r := tcpEnds(t)
		feed(t, w, data)
		return r
	}},
	{"limited TCP", "stream", func(t *testing.T, data []byte) io.Reader {
		w, r := tcpEnds(t)
		feed(t, w, append(data[:len(data):len(data)], "not this"...))
		return io.LimitReader(r, int64(len(data)))
	}},
	{"Unix socket", "stream", func(t *testing.T, data []byte) io.Reader {
		w, r := unixEnds(t)
		feed(t, w, data)
		return r
	}},
	{"pipe", "pipe", func(t *testing.T, data []byte) io.Reader {
		r, w := pipeEnds(t)
		feed(t, w, data)
		return r
	}},
	{"reader", "other", func(t *testing.T, data []byte) io.Reader {
		return struct{ io.Reader }{bytes.NewReader(data)}
	}},
	{"memory", "other", func(t *testing.T, data []byte) io.Reader { return bytes.NewReader(data) }},
}

// copyTarget is a kind of target. got is called once, after the copy, and returns the bytes that
// have arrived.
type copyTarget struct {
	name string
	kind string // file, socket, pipe, or other
	open func(t *testing.T) (w io.Writer, got func() []byte)
	slow bool
}

var copyTargets = []copyTarget{
	{name: "file", kind: "file", open: func(t *testing.T) (io.Writer, func() []byte) {
		return newFile(t, 0)
	}},
	{name: "file to append to", kind: "file", open: func(t *testing.T) (io.Writer, func() []byte) {
		return newFile(t, os.O_APPEND)
	}},
	{name: "TCP", kind: "tcp", open: func(t *testing.T) (io.Writer, func() []byte) {
		w, r := tcpEnds(t)
		return w, drain(t, w, r)
	}},
	{name: "TCP with little room", kind: "tcp", slow: true,
		open: func(t *testing.T) (io.Writer, func() []byte) {
			w, r := tcpEnds(t)
			_ = w.SetWriteBuffer(1) // the kernel's minimum, a few KiB
			return w, drain(t, w, r)
		}},
	{name: "Unix socket", kind: "unix", open: func(t *testing.T) (io.Writer, func() []byte) {
		w, r := unixEnds(t)
		return w, drain(t, w, r)
	}},
	{name: "pipe", kind: "pipe", open: func(t *testing.T) (io.Writer, func() []byte) {
		r, w := pipeEnds(t)
		return w, drain(t, w, r)
	}},
	{name: "TLS", kind: "other", open: func(t *testing.T) (io.Writer, func() []byte) {
		w, r := tcpEnds(t)
		server, client := tlsEnds(t, w, r)
		return server, drain(t, server, client)
	}},
	{name: "buffer", kind: "other", open: func(t *testing.T) (io.Writer, func() []byte) {
		var b bytes.Buffer
		return &b, b.Bytes
	}},
	{name: "writer", kind: "other", open: func(t *testing.T) (io.Writer, func() []byte) {
		var b bytes.Buffer
		return struct{ io.Writer }{&b}, b.Bytes
	}},
}

// way returns the field of a Report that counts the bytes between these ends.
func way(r *chunk.Report, src copySource, dst copyTarget) *int64 {
	linux, limited := runtime.GOOS == "linux", strings.HasPrefix(src.name, "limited")
	switch {
	case src.kind == "file" && dst.kind == "tcp":
		return &r.Sendfile
	case src.kind == "file" && dst.kind == "unix" && !limited && linux:
		return &r.Sendfile
	case src.kind == "file" && dst.kind == "file" && linux:
		return &r.CopyFileRange
	case src.kind == "stream" && (dst.kind == "tcp" || dst.kind == "file" || dst.kind == "pipe") &&
		linux:
		return &r.Splice
	case src.kind == "stream" && dst.kind == "unix" && src.name == "TCP" && linux:
		return &r.Splice
	}
	return &r.Copied
}

func fileOf(t testing.TB, data []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "source")
	must(t, os.WriteFile(name, data, 0o600))
	f, err := os.Open(name)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func newFile(t testing.TB, flags int) (*os.File, func() []byte) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "target")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|flags, 0o600)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f, func() []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return data
	}
}

// tcpEnds returns both ends of a connection.
func tcpEnds(t testing.TB) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	c, d := connect(t, l)
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

func unixEnds(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(nettest.PlainDir(t), "s"))
	must(t, err)
	defer l.Close()
	c, d := connect(t, l)
	return c.(*net.UnixConn), d.(*net.UnixConn)
}

func connect(t testing.TB, l net.Listener) (a, b net.Conn) {
	t.Helper()
	a, err := net.Dial(l.Addr().Network(), l.Addr().String())
	must(t, err)
	t.Cleanup(func() { a.Close() })
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return a, b
}

func pipeEnds(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// tlsEnds wraps a connection in TLS.
func tlsEnds(t testing.TB, a, b net.Conn) (server, client *tls.Conn) {
	t.Helper()
	s := httptest.NewTLSServer(nil) // for its certificate
	s.Close()
	server = tls.Server(a, &tls.Config{Certificates: s.TLS.Certificates})
	client = tls.Client(b, &tls.Config{InsecureSkipVerify: true})
	var done sync.WaitGroup
	done.Go(func() {
		if err := client.Handshake(); err != nil {
			t.Error(err)
		}
	})
	must(t, server.Handshake())
	done.Wait()
	return server, client
}

// feed writes data to w on a goroutine, and closes w. It ends with the test, because the test may
// have closed the other end.
func feed(t testing.TB, w io.WriteCloser, data []byte) {
	var done sync.WaitGroup
	done.Go(func() {
		_, _ = w.Write(data)
		_ = w.Close()
	})
	t.Cleanup(func() { _ = w.Close(); done.Wait() })
}

// drain reads from r until w is closed. The returned function closes w, and returns the bytes.
func drain(t testing.TB, w io.Closer, r io.Reader) func() []byte {
	var done sync.WaitGroup
	var data []byte
	done.Go(func() { data, _ = io.ReadAll(r) })
	got := func() []byte {
		_ = w.Close()
		done.Wait()
		return data
	}
	t.Cleanup(func() { got() })
	return got
}

// If a file accepts no bytes, the position of the source and the remaining limit do not change.
func TestCopyToAFullFile(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	must(t, err)
	defer full.Close()
	for _, limited := range []bool{false, true} {
		file := fileOf(t, someBytes(1<<20))
		limit := &io.LimitedReader{R: file, N: 100_000}
		var src io.Reader = file
		if limited {
			src = limit
		}
		report, err := chunk.Copy(t.Context(), full, src)
		at, _ := file.Seek(0, io.SeekCurrent)
		if err == nil || report.Bytes != 0 || at != 0 || limit.N != 100_000 {
			t.Errorf("limited %v: %+v, %v; the source is at %d, its limit %d", limited, report, err,
				at, limit.N)
		}
	}
}
