//go:build unix

package chunk_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// copyTurn is how many bytes are copied in one turn at least: enough for the clocks to be exact.
const copyTurn = 16 << 20

// A copyPair is what a benchmark copies between.
type copyPair struct {
	name string
	// open returns the function that copies size bytes by means of do, and waits until they have arrived.
	open func(b *testing.B, size int) func(do copyFunc, times int) error
}

type copyFunc func(dst io.Writer, src io.Reader) error

// BenchmarkCopy has io.Copy and chunk.Copy take turns, because a machine that is shared is not the same from one minute to
// the next, and reports the medians: the speed of both, the processor time of the whole process, both ends included, and
// how many times as fast, or as expensive, chunk.Copy was in the same turn.
func BenchmarkCopy(b *testing.B) {
	contenders := []copyFunc{
		func(dst io.Writer, src io.Reader) error { _, err := io.Copy(dst, src); return err },
		func(dst io.Writer, src io.Reader) error { _, err := chunk.Copy(b.Context(), dst, src); return err },
	}
	for _, pair := range copyPairs {
		sizes := []int{4 << 10, 64 << 10, 16 << 20}
		if pair.name == "tcp-tcp" {
			sizes = append(sizes, 16<<10) // the longest that is not spliced
		}
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%s/%dKiB", pair.name, size>>10), func(b *testing.B) {
				copyInTurns(b, pair.open(b, size), size, contenders)
			})
		}
	}
}

func copyInTurns(b *testing.B, run func(do copyFunc, times int) error, size int, contenders []copyFunc) {
	times := copyTurn / size
	var took, cost [2][]float64
	for turn := 0; b.Loop(); turn++ {
		for i := range contenders {
			i = (i + turn) % len(contenders)
			start, used := time.Now(), processorTime()
			if err := run(contenders[i], times); err != nil {
				b.Fatal(err)
			}
			cost[i] = append(cost[i], float64(processorTime()-used))
			took[i] = append(took[i], time.Since(start).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // both of them together say nothing
	quotients := func(a, b []float64) []float64 {
		q := make([]float64, len(a))
		for i := range a {
			q[i] = a[i] / b[i]
		}
		return q
	}
	faster, dearer := median(quotients(took[0], took[1])), median(quotients(cost[1], cost[0]))
	for i, name := range []string{"io", "chunk"} {
		b.ReportMetric(copyTurn/1e6/median(took[i]), name+"-MB/s")
		b.ReportMetric(median(cost[i])/(copyTurn/1e6), name+"-cpu-ns/MB")
	}
	b.ReportMetric(faster, "chunk-x-io")
	b.ReportMetric(dearer, "chunk-cpu-x-io")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var copyPairs = []copyPair{
	{"file-file", func(b *testing.B, size int) func(copyFunc, int) error {
		src := fileOf(b, make([]byte, size))
		dst, _ := newFile(b, 0)
		return repeated(func(do copyFunc) error {
			rewind(b, dst)
			return do(dst, rewind(b, src))
		})
	}},
	{"file-tcp", func(b *testing.B, size int) func(copyFunc, int) error {
		src := fileOf(b, make([]byte, size))
		w, r := tcpEnds(b)
		return arriving(b, r, size, func(do copyFunc) error { return do(w, rewind(b, src)) })
	}},
	{"limited-tcp", func(b *testing.B, size int) func(copyFunc, int) error {
		src := fileOf(b, make([]byte, 2*size))
		w, r := tcpEnds(b)
		return arriving(b, r, size, func(do copyFunc) error { return do(w, io.LimitReader(rewind(b, src), int64(size))) })
	}},
	{"section-tcp", func(b *testing.B, size int) func(copyFunc, int) error {
		src := fileOf(b, make([]byte, size))
		w, r := tcpEnds(b)
		return arriving(b, r, size, func(do copyFunc) error { return do(w, io.NewSectionReader(src, 0, int64(size))) })
	}},
	{"tcp-tcp", func(b *testing.B, size int) func(copyFunc, int) error {
		feeder, src := tcpEnds(b)
		w, r := tcpEnds(b)
		return arriving(b, r, size, fed(b, feeder, src, w, size))
	}},
	{"file-tls", func(b *testing.B, size int) func(copyFunc, int) error {
		src := fileOf(b, make([]byte, size))
		server, client := sealedEnds(b)
		return arriving(b, client, size, func(do copyFunc) error { return do(server, rewind(b, src)) })
	}},
	{"tcp-tls", func(b *testing.B, size int) func(copyFunc, int) error {
		feeder, src := tcpEnds(b)
		server, client := sealedEnds(b)
		return arriving(b, client, size, fed(b, feeder, src, server, size))
	}},
	{"pipe-tcp", func(b *testing.B, size int) func(copyFunc, int) error {
		src, feeder := pipeEnds(b)
		w, r := tcpEnds(b)
		return arriving(b, r, size, fed(b, feeder, src, w, size))
	}},
	{"pipe-unix", func(b *testing.B, size int) func(copyFunc, int) error {
		src, feeder := pipeEnds(b)
		w, r := unixEnds(b)
		return arriving(b, r, size, fed(b, feeder, src, w, size))
	}},
	{"tcp-pipe", func(b *testing.B, size int) func(copyFunc, int) error {
		feeder, src := tcpEnds(b)
		r, w := pipeEnds(b)
		return arriving(b, r, size, fed(b, feeder, src, w, size))
	}},
	{"tcp-file", func(b *testing.B, size int) func(copyFunc, int) error {
		feeder, src := tcpEnds(b)
		dst, _ := newFile(b, 0)
		do := fed(b, feeder, src, dst, size)
		return repeated(func(c copyFunc) error {
			rewind(b, dst)
			return do(c)
		})
	}},
	{"file-response", func(b *testing.B, size int) func(copyFunc, int) error {
		return answering(b, size, false, wrappers[0])
	}},
	{"file-response-length", func(b *testing.B, size int) func(copyFunc, int) error {
		return answering(b, size, true, wrappers[0])
	}},
	{"file-logged-length", func(b *testing.B, size int) func(copyFunc, int) error {
		return answering(b, size, true, wrappers[1])
	}},
	{"reader-tcp", func(b *testing.B, size int) func(copyFunc, int) error {
		w, r := tcpEnds(b)
		return arriving(b, r, size, func(do copyFunc) error { return do(w, blank(size)) })
	}},
	{"reader-writer", func(_ *testing.B, size int) func(copyFunc, int) error {
		block := make([]byte, 1<<20)
		w := writesBy(func(p []byte) (int, error) { return copy(block, p), nil })
		return repeated(func(do copyFunc) error { return do(w, blank(size)) })
	}},
}

// repeated returns a function that runs one copy as often as it is told to.
func repeated(one func(copyFunc) error) func(copyFunc, int) error {
	return func(do copyFunc, times int) error {
		for range times {
			if err := one(do); err != nil {
				return err
			}
		}
		return nil
	}
}

// arriving is repeated with an end: what r gives is read, and waited for.
func arriving(b *testing.B, r io.ReadCloser, size int, one func(copyFunc) error) func(copyFunc, int) error {
	expect, arrived := make(chan int), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 256<<10)
		for left := range expect {
			for left > 0 {
				n, err := r.Read(buf[:min(left, len(buf))])
				if err != nil {
					return
				}
				left -= n
			}
			arrived <- struct{}{}
		}
	}()
	b.Cleanup(func() { close(expect); _ = r.Close(); <-ended })
	run := repeated(one)
	return func(do copyFunc, times int) error {
		expect <- size * times
		if err := run(do, times); err != nil {
			return err
		}
		<-arrived
		return nil
	}
}

// fed returns a function that copies size bytes from src to dst, which feeder is given meanwhile.
func fed(b *testing.B, feeder io.WriteCloser, src io.Reader, dst io.Writer, size int) func(copyFunc) error {
	feed := make(chan int)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 256<<10)
		for left := range feed {
			for left > 0 {
				n, err := feeder.Write(buf[:min(left, len(buf))])
				if err != nil {
					return
				}
				left -= n
			}
		}
	}()
	b.Cleanup(func() { close(feed); _ = feeder.Close(); <-ended })
	return func(do copyFunc) error {
		feed <- size
		return do(dst, io.LimitReader(src, int64(size)))
	}
}

func rewind(b *testing.B, f *os.File) *os.File {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		b.Fatal(err)
	}
	return f
}

func sealedEnds(b *testing.B) (server, client net.Conn) {
	w, r := tcpEnds(b)
	return tlsEnds(b, w, r)
}

// blank returns a reader of n bytes that has nothing but Read.
func blank(n int) io.Reader {
	return struct{ io.Reader }{io.LimitReader(blanks{}, int64(n))}
}

// blanks gives zero bytes without end.
type blanks struct{}

var blankBlock = make([]byte, 64<<10)

func (blanks) Read(p []byte) (int, error) { return copy(p, blankBlock), nil }
