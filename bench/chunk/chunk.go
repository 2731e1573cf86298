// Package chunk compares ways to read a source to its end and process it, 64 KiB at a time:
// chunk.Reader, a plain loop, and klauspost's readahead. It also compares chunk.Copy with io.Copy
// for ten pairs of source and target, such as files, connections and HTTP responses.
//
// The sources are a file in the page cache, and a source that waits before each read, like a disk.
// Every contender is used as its documentation says. The benchmark checks the bytes of every run,
// and the bytes of the first copies of each pair.
package chunk

import (
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program is the benchmark of chunk.Reader and chunk.Copy.
var Program = &measure.Program{
	Name: "chunk", What: "a source read in chunks; chunk.Copy beside io.Copy", Rounds: 9,
	Turn:  60 * time.Millisecond,
	Parts: append(caseKeys(), "copy"),
	Run:   run,
}

func run(ctx context.Context, p *measure.Params) error {
	s, err := newSite(fileSize)
	if err != nil {
		return err
	}
	defer s.close()
	for _, c := range cases {
		if p.Wants(c.key) {
			if err := s.runCase(ctx, p, c); err != nil {
				return err
			}
		}
	}
	if p.Wants("copy") {
		return runCopy(ctx, p)
	}
	return nil
}

func (s *site) runCase(ctx context.Context, p *measure.Params, c testCase) error {
	p.Logf("chunk: %s", c.key)
	costs, err := measure.Compare(ctx, s.contenders(c), p.Rounds, p.Turn)
	if err != nil {
		return err
	}
	t := measure.NewTable("chunk-"+c.key, fmt.Sprintf("%d MiB, %s", c.size>>20, c.what),
		"contender", "MB/s", "x a plain loop",
		"CPU s/GB", "B a run", "allocs a run", "time, x chunk.Reader")
	t.Bar = 1
	ours := slices.IndexFunc(c.contenders,
		func(by contender) bool { return strings.HasPrefix(by.name, "chunk.") })
	for i, cost := range costs {
		t.Row(c.contenders[i].name, rate(c.size, cost.Nanos), costs[0].Nanos.Over(cost.Nanos),
			cost.CPU.Times(1/float64(c.size)),
			cost.Bytes.Whole(), cost.Allocs.Median(), cost.Nanos.Over(costs[ours].Nanos))
	}
	return p.Add(t)
}

// rate returns throughputs in megabytes per second. Each value of nanos is the number of
// nanoseconds that size bytes take.
func rate(size int, nanos measure.Series) measure.Series {
	v := make(measure.Series, len(nanos))
	for i := range v {
		v[i] = float64(size) * 1e3 / nanos[i]
	}
	return v
}

const (
	kib = 1 << 10
	mib = 1 << 20

	fileSize  = 32 * mib               // size of the file that cases read
	blockSize = 64 * kib               // size of each contender's buffer
	readWait  = 500 * time.Microsecond // delay of each read of a slowSource
)

type testCase struct {
	key  string // name on the command line
	what string
	size int // of the source, in bytes

	waits      bool        // whether the source waits before each read
	deflate    bool        // whether each chunk is compressed, which makes processing slow
	contenders []contender // the first is the baseline
}

var cases = []testCase{
	{key: "file", what: "a file in the page cache, crc32 of each chunk", size: fileSize,
		contenders: byChunk},
	{key: "waits", what: "500 µs for each read, crc32 of each chunk", size: 4 * mib, waits: true,
		contenders: byChunk},
	{key: "waits-deflate", what: "500 µs for each read, each chunk compressed at level 1",
		size: 4 * mib, waits: true,
		deflate: true, contenders: byChunk},
}

func caseKeys() (keys []string) {
	for _, c := range cases {
		keys = append(keys, c.key)
	}
	return keys
}

// errOtherBytes means that bytes were lost, changed or reordered.
var errOtherBytes = errors.New("other bytes than those of the source")

type contender struct {
	name string
	// run reads src to its end, and passes all bytes to work, which borrows them.
	run func(src io.Reader, work func([]byte)) error
}

// text is the content that all sources repeat: lines of 20 to 200 bytes. It is not on the heap,
// because a larger heap would make the garbage collector run less often.
var text = func() (b [256 * kib]byte) {
	x := uint64(88172645463325252)
	for at := 0; at < len(b); {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		at += writeLine(b[at:], x)
	}
	return b
}()

func writeLine(p []byte, x uint64) int {
	const least, spread = 20, 181
	n := least + int((x>>32)*spread>>32)
	if len(p) < n+least {
		n = len(p)
	}
	for i := range p[:n-1] {
		p[i] = " etaoinshrdlcumwfgypbvk,.0123456"[(x>>(i%59)+uint64(i/7))%32]
	}
	p[n-1] = '\n'
	return n
}

// A site has the file and the compressor that all contenders share.
type site struct {
	file     *os.File
	compress *flate.Writer
}

// newSite returns a site with a file of the given size in the page cache.
func newSite(size int) (*site, error) {
	f, err := os.CreateTemp("", "bench-chunk-")
	if err != nil {
		return nil, err
	}
	s := &site{file: f}
	err = os.Remove(f.Name()) // frees the file when this process ends, even after a crash
	if err == nil {
		s.compress, err = flate.NewWriter(io.Discard, flate.BestSpeed)
	}
	for range size / len(text) {
		if err == nil {
			_, err = f.Write(text[:])
		}
	}
	if err == nil {
		err = f.Sync() // so that the disk is idle while contenders are measured
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) close() { s.file.Close() }

// source returns the input of case c, positioned at the start. If the case does not wait, the input
// is an *os.File, which chunk.Reader reads without a goroutine.
func (s *site) source(c testCase) (io.Reader, error) {
	if c.waits {
		return &slowSource{left: c.size}, nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

// A slowSource waits before each read, and returns at most 64 KiB per Read.
type slowSource struct{ at, left int }

func (w *slowSource) Read(p []byte) (n int, err error) {
	wait(readWait)
	if w.left == 0 {
		return 0, io.EOF
	}
	for room := min(len(p), w.left, blockSize); n < room; {
		k := copy(p[n:room], text[w.at:])
		n += k
		w.at = (w.at + k) % len(text)
	}
	w.left -= n
	return n, nil
}

type processor struct {
	crc      uint32
	compress *flate.Writer // nil if only the checksum is computed
}

func (w *processor) do(p []byte) {
	w.crc = crc32.Update(w.crc, crc32.IEEETable, p)
	if w.compress != nil {
		w.compress.Write(p) // writes to io.Discard, which cannot fail
	}
}

func (c testCase) checksum() uint32 {
	w := new(processor)
	for range c.size / len(text) {
		w.do(text[:])
	}
	return w.crc
}

func (s *site) run(c testCase, by contender) (crc uint32, err error) {
	src, err := s.source(c)
	if err != nil {
		return 0, err
	}
	w := new(processor)
	if c.deflate {
		w.compress = s.compress
		w.compress.Reset(io.Discard)
	}
	err = by.run(src, w.do)
	return w.crc, err
}

func (s *site) contenders(c testCase) (all []measure.Contender) {
	want := c.checksum()
	for _, by := range c.contenders {
		once := func() error {
			crc, err := s.run(c, by)
			if err == nil && crc != want {
				err = errOtherBytes
			}
			return err
		}
		all = append(all, measure.Contender{Name: by.name,
			Turn: func(n int) (measure.Turn, error) { return repeat(n, once) }})
	}
	return all
}

// repeat measures n calls to f. Before that, it calls f once to refill pools that the garbage
// collector has emptied.
func repeat(n int, f func() error) (t measure.Turn, err error) {
	if err := f(); err != nil {
		return t, err
	}
	t = measure.Take(n, func() {
		for i := 0; i < n && err == nil; i++ {
			err = f()
		}
	})
	return t, err
}
