package chunk

import (
	"context"
	"crypto/tls"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

type copyFunc func(dst io.Writer, src io.Reader) error

var copiers = []struct {
	name string
	copy copyFunc
}{
	{"io.Copy", func(dst io.Writer, src io.Reader) error {
		_, err := io.Copy(dst, src)
		return err
	}},
	{"chunk.Copy", func(dst io.Writer, src io.Reader) error {
		_, err := chunk.Copy(context.Background(), dst, src)
		return err
	}},
}

var copySizes = []int{4 * kib, 64 * kib, 16 * mib}

type pair struct {
	name string
	// open returns a function that copies size bytes and waits until they have arrived. The caller
	// must close c afterwards.
	open func(c *closers, size int) (func(copyFunc) error, error)
}

type closers []io.Closer

func (c *closers) add(closer io.Closer) { *c = append(*c, closer) }

func (c closers) close() {
	for i := range c {
		c[len(c)-1-i].Close()
	}
}

var pairs = []pair{
	{"file to TCP", func(c *closers, size int) (func(copyFunc) error, error) {
		return fileToWire(c, size, func(f *os.File) io.Reader { return f })
	}},
	{"section of a file to TCP", func(c *closers, size int) (func(copyFunc) error, error) {
		return fileToWire(c, size, func(f *os.File) io.Reader {
			return io.NewSectionReader(f, 0, int64(size))
		})
	}},
	{"limited file to TCP", func(c *closers, size int) (func(copyFunc) error, error) {
		return fileToWire(c, size, func(f *os.File) io.Reader {
			return io.LimitReader(f, int64(size))
		})
	}},
	{"memory, hidden, to TCP", func(c *closers, size int) (func(copyFunc) error, error) {
		return fileToWire(c, size, func(*os.File) io.Reader {
			return struct{ io.Reader }{io.LimitReader(new(textReader), int64(size))}
		})
	}},
	{"file to file", fileToFile},
	{"TCP to TCP", tcpToTCP},
	{"file to a TLS connection", fileToTLS},
	{"file to a response, no length", func(c *closers, size int) (func(copyFunc) error, error) {
		return fileToResponse(c, size, false, false)
	}},
	{"file to a response, with a length", func(c *closers, size int) (func(copyFunc) error, error) {
		return fileToResponse(c, size, true, false)
	}},
	{"file to a response behind a logger", func(c *closers, size int) (func(copyFunc) error,
		error) {
		return fileToResponse(c, size, true, true)
	}},
}

func runCopy(ctx context.Context, p *measure.Params) error {
	t := measure.NewTable("chunk-copy", "chunk.Copy beside io.Copy", "from, to", "bytes a copy",
		"io.Copy MB/s", "chunk.Copy MB/s",
		"speed, x io.Copy", "CPU, x io.Copy")
	t.Bar = 4
	t.Note = "Both ends are in this process, and CPU time is that of both. The first copies of each pair, by both, are compared with the source " +
		"by checksum."
	for _, pair := range pairs {
		for _, size := range copySizes {
			p.Logf("chunk: copy, %s, %d KiB", pair.name, size/kib)
			costs, err := pair.measure(ctx, size, p.Rounds, p.Turn)
			if err != nil {
				return fmt.Errorf("%s, %d bytes: %w", pair.name, size, err)
			}
			t.Row(pair.name, fmt.Sprintf("%d KiB", size/kib), rate(size, costs[0].Nanos).Median(),
				rate(size, costs[1].Nanos).Median(),
				costs[0].Nanos.Over(costs[1].Nanos), costs[1].CPU.Over(costs[0].CPU))
		}
	}
	return p.Add(t)
}

func (p pair) measure(ctx context.Context, size, rounds int, d time.Duration) ([]measure.Cost,
	error) {
	var c closers
	defer func() { c.close() }()
	once, err := p.open(&c, size)
	if err != nil {
		return nil, err
	}
	for range checkedCopies / len(copiers) {
		for _, by := range copiers {
			if err := once(by.copy); err != nil {
				return nil, fmt.Errorf("%s: %w", by.name, err)
			}
		}
	}
	var contenders []measure.Contender
	for _, by := range copiers {
		contenders = append(contenders, measure.Contender{Name: by.name,
			Turn: func(n int) (measure.Turn, error) {
				return repeat(n, func() error { return once(by.copy) })
			}})
	}
	return measure.Compare(ctx, contenders, rounds, d)
}

type textReader struct{ at int }

func (r *textReader) Read(p []byte) (int, error) {
	n := copy(p, text[r.at:])
	r.at = (r.at + n) % len(text)
	return n, nil
}

func textSum(size int) uint32 {
	h := crc32.NewIEEE()
	io.CopyN(h, new(textReader), int64(size))
	return h.Sum32()
}

// textFile returns a file with size bytes of repeated text. The file is already removed from its
// directory.
func textFile(c *closers, size int) (*os.File, error) {
	f, err := os.CreateTemp("", "bench-copy-")
	if err != nil {
		return nil, err
	}
	c.add(f)
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(f, new(textReader), int64(size)); err != nil {
		return nil, err
	}
	return f, f.Sync()
}

func connect(c *closers) (near, far *net.TCPConn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	n, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	c.add(n)
	f, err := l.Accept()
	if err != nil {
		return nil, nil, err
	}
	c.add(f)
	return n.(*net.TCPConn), f.(*net.TCPConn), nil
}

// checkedCopies is the number of copies that are checked before each measurement. Measured copies
// are not checked, because a checksum can take longer than a copy.
const checkedCopies = 4

// withReceiver starts a goroutine that reads from r. It returns a function that calls send, and
// then waits until the goroutine has read size bytes.
func withReceiver(c *closers, r io.Reader, size int,
	send func(copyFunc) error) func(copyFunc) error {
	want, checks := textSum(size), checkedCopies
	expect, done := make(chan bool), make(chan error, 1)
	c.add(closeFunc(func() { close(expect) }))
	go func() {
		buf := make([]byte, 256*kib)
		for check := range expect {
			sum, err := uint32(0), error(nil)
			for left := size; left > 0 && err == nil; {
				var n int
				n, err = r.Read(buf[:min(left, len(buf))])
				if check {
					sum = crc32.Update(sum, crc32.IEEETable, buf[:n])
				}
				left -= n
			}
			if err == nil && check && sum != want {
				err = errOtherBytes
			}
			done <- err
		}
	}()
	return func(do copyFunc) error {
		checks--
		expect <- checks >= 0
		if err := send(do); err != nil {
			return err
		}
		return <-done
	}
}

type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

func rewind(f *os.File) *os.File {
	f.Seek(0, io.SeekStart)
	return f
}

func fileToWire(c *closers, size int, source func(*os.File) io.Reader) (func(copyFunc) error,
	error) {
	f, err := textFile(c, size)
	if err != nil {
		return nil, err
	}
	near, far, err := connect(c)
	if err != nil {
		return nil, err
	}
	return withReceiver(c, far, size, func(do copyFunc) error {
		return do(near, source(rewind(f)))
	}), nil
}

func fileToFile(c *closers, size int) (func(copyFunc) error, error) {
	src, err := textFile(c, size)
	if err != nil {
		return nil, err
	}
	dst, err := textFile(c, 0)
	if err != nil {
		return nil, err
	}
	want, checks := textSum(size), checkedCopies
	return func(do copyFunc) error {
		if err := do(rewind(dst), rewind(src)); err != nil {
			return err
		}
		if checks--; checks < 0 {
			return nil
		}
		h := crc32.NewIEEE()
		if n, err := io.Copy(h, rewind(dst)); err != nil || n != int64(size) || h.Sum32() != want {
			return errOtherBytes
		}
		return nil
	}, nil
}

func tcpToTCP(c *closers, size int) (func(copyFunc) error, error) {
	feeder, src, err := connect(c)
	if err != nil {
		return nil, err
	}
	near, far, err := connect(c)
	if err != nil {
		return nil, err
	}
	feed := make(chan bool)
	c.add(closeFunc(func() { close(feed) }))
	go func() {
		buf := make([]byte, 256*kib)
		for range feed {
			from := new(textReader)
			for left := size; left > 0; {
				n, _ := from.Read(buf[:min(left, len(buf))])
				if _, err := feeder.Write(buf[:n]); err != nil {
					return
				}
				left -= n
			}
		}
	}()
	return withReceiver(c, far, size, func(do copyFunc) error {
		feed <- true
		return do(near, io.LimitReader(src, int64(size)))
	}), nil
}

func fileToTLS(c *closers, size int) (func(copyFunc) error, error) {
	f, err := textFile(c, size)
	if err != nil {
		return nil, err
	}
	near, far, err := connect(c)
	if err != nil {
		return nil, err
	}
	srv := httptest.NewUnstartedServer(nil) // only for its certificate
	srv.StartTLS()
	c.add(closeFunc(srv.Close))
	server := tls.Server(near, &tls.Config{Certificates: srv.TLS.Certificates})
	// The client need not verify the certificate, because the server is in this process.
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	return withReceiver(c, client, size, func(do copyFunc) error {
		return do(server, rewind(f))
	}), nil
}

func fileToResponse(c *closers, size int, length, logged bool) (func(copyFunc) error, error) {
	f, err := textFile(c, size)
	if err != nil {
		return nil, err
	}
	var do copyFunc
	failed := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if length {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		if logged {
			w = &loggedResponse{ResponseWriter: w}
		}
		failed <- do(w, rewind(f))
	}))
	c.add(closeFunc(srv.Close))
	client := srv.Client()
	buf := make([]byte, 256*kib)
	want, checks := textSum(size), checkedCopies
	return func(by copyFunc) error {
		do = by
		res, err := client.Get(srv.URL)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		h, n := crc32.NewIEEE(), int64(0)
		if checks--; checks >= 0 {
			n, err = io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{res.Body}, buf)
		} else {
			n, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{res.Body},
				buf)
		}
		if err == nil {
			err = <-failed
		}
		if err == nil && (n != int64(size) || checks >= 0 && h.Sum32() != want) {
			err = errOtherBytes
		}
		return err
	}, nil
}

// A loggedResponse counts the bytes of a response. Like most middleware, it has no ReadFrom method.
type loggedResponse struct {
	http.ResponseWriter
	bytes int64
}

func (w *loggedResponse) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap implements the interface that http.ResponseController uses.
func (w *loggedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }
