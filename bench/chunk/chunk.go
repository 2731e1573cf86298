// Package chunk compares ways to read a source to its end and to do something with all that is in it, 64 KiB or a line at a
// time: chunk.Reader beside a plain loop, bufio and klauspost's readahead. Besides, it sends a file in pieces, by several ways
// and with whose buffer, and has several numbers of goroutines work on it.
//
// The sources are a file that is in the page cache and one that waits before each read, as a disk does. Every contender is
// used as its own documentation says, and each run checks that all bytes were there.
package chunk

import (
	"compress/flate"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"time"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	// FileSize is what cases read that read a file.
	FileSize = 32 * mib

	// blockSize is what everybody's buffer holds who has one, but for readahead's defaults.
	blockSize = 64 * kib

	// readWait is what a source waits that waits.
	readWait = 500 * time.Microsecond
)

// A Case is a source, and what is done with its bytes.
type Case struct {
	Key  string // of the command line
	What string
	Size int // bytes of the source

	waits      bool        // the source does
	lines      bool        // the work gets lines, without their ends, and not chunks
	deflate    bool        // the work takes long
	contenders []Contender // ratios are to the first
}

// Cases are all of them.
var Cases = []Case{
	{Key: "file", What: "a file in the page cache, crc32 of each chunk", Size: FileSize, contenders: byChunk},
	{Key: "file-lines", What: "a file in the page cache, crc32 of each line", Size: FileSize, lines: true, contenders: byLine},
	{Key: "waits", What: "500 µs for each read, crc32 of each chunk", Size: 4 * mib, waits: true, contenders: byChunk},
	{Key: "waits-lines", What: "500 µs for each read, crc32 of each line", Size: 4 * mib, waits: true, lines: true,
		contenders: byLine},
	{Key: "waits-deflate", What: "500 µs for each read, each chunk compressed at level 1", Size: 4 * mib, waits: true,
		deflate: true, contenders: byChunk},
}

// errOtherBytes says that bytes were lost, or came in another order.
var errOtherBytes = errors.New("other bytes than those of the source")

// A Contender is a way to read a source to its end.
type Contender struct {
	Name string

	run func(src io.Reader, work func([]byte)) error // work borrows
}

// text is what all sources consist of: lines of 20 to 200 bytes, again and again. It is not on the heap, which it would make
// so large that the collector hardly ever runs.
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

// writeLine writes a line to p, which is as long as the rest, and returns its length.
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

// A Site is what all contenders find: a file, and a compressor for those who work long.
type Site struct {
	file     *os.File
	compress *flate.Writer
}

// NewSite makes a file of so many bytes, which is in the page cache then. Cases need one of [FileSize].
func NewSite(size int) (*Site, error) {
	f, err := os.CreateTemp("", "bench-chunk-")
	if err != nil {
		return nil, err
	}
	s := &Site{file: f}
	err = os.Remove(f.Name()) // it is gone when it is closed, also by an interruption
	if err == nil {
		s.compress, err = flate.NewWriter(io.Discard, flate.BestSpeed)
	}
	for range size / len(text) {
		if err == nil {
			_, err = f.Write(text[:])
		}
	}
	if err == nil {
		err = f.Sync() // not while others are measured
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close lets go of the file.
func (s *Site) Close() { s.file.Close() }

// source returns the case's source at its start. The file is given as it is, because that is what contenders look at.
func (s *Site) source(c Case) (io.Reader, error) {
	if c.waits {
		return &waiting{left: c.Size}, nil
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

// waiting is a source that waits before each read, and gives 64 KiB at most.
type waiting struct{ at, left int }

func (w *waiting) Read(p []byte) (n int, err error) {
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

// work is what is done with a source's bytes.
type work struct {
	crc      uint32
	compress *flate.Writer // nil if crc is all
}

func (w *work) do(p []byte) {
	w.crc = crc32.Update(w.crc, crc32.IEEETable, p)
	if w.compress != nil {
		w.compress.Write(p) // to nowhere, which takes all
	}
}

// checksum is that of all that the work of c must get.
func (c Case) checksum() uint32 {
	w := new(work)
	for range c.Size / len(text) {
		if c.lines {
			eachLine(text[:], w.do)
		} else {
			w.do(text[:])
		}
	}
	return w.crc
}

// run has a contender read the case's source once, and returns the checksum of what it got.
func (s *Site) run(c Case, by Contender) (crc uint32, err error) {
	src, err := s.source(c)
	if err != nil {
		return 0, err
	}
	w := new(work)
	if c.deflate {
		w.compress = s.compress
		w.compress.Reset(io.Discard)
	}
	err = by.run(src, w.do)
	return w.crc, err
}
