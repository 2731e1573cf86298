package chunk

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/readahead"
	"github.com/millrace-io/millrace/chunk"
)

// byLine are contenders that give each line, without its end.
var byLine = []contender{
	{"plain loop of Read, the rest of a line moved", plainLines},
	{"bufio.Reader of 64 KiB, ReadSlice", bufioLines},
	{"bufio.Scanner of 64 KiB", scannerLines},
	{"readahead (its defaults), bufio.Scanner", readaheadLines},
	{"readahead, 4 of 64 KiB, bufio.Scanner", readaheadSmallLines},
	{"chunk.Reader with Lines, bytes.IndexByte", millraceLines},
}

// errLongLine says that a line does not fit into a buffer. The sources have no such line.
var errLongLine = errors.New("chunk: a line is longer than a buffer")

// plainLines is the least code that gives lines: a buffer, and what remains of it moved to the front.
func plainLines(src io.Reader, work func([]byte)) error {
	buf := make([]byte, blockSize)
	held := 0 // bytes of a line whose end has not come
	for {
		n, err := src.Read(buf[held:])
		rest := eachLine(buf[:held+n], work)
		if err == io.EOF {
			if len(rest) > 0 {
				work(rest)
			}
			return nil
		}
		if err != nil {
			return err
		}
		if held = copy(buf, rest); held == len(buf) {
			return errLongLine
		}
	}
}

// eachLine works on the lines in p that have an end, and returns what follows the last one.
func eachLine(p []byte, work func([]byte)) (rest []byte) {
	for {
		n := bytes.IndexByte(p, '\n')
		if n < 0 {
			return p
		}
		work(p[:n])
		p = p[n+1:]
	}
}

func bufioLines(src io.Reader, work func([]byte)) error {
	r := bufio.NewReaderSize(src, blockSize)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			work(bytes.TrimSuffix(line, []byte("\n")))
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func scannerLines(src io.Reader, work func([]byte)) error {
	s := bufio.NewScanner(src)
	s.Buffer(make([]byte, blockSize), blockSize)
	for s.Scan() {
		work(s.Bytes())
	}
	return s.Err()
}

func readaheadLines(src io.Reader, work func([]byte)) error {
	r := readahead.NewReader(src)
	defer r.Close()
	return scannerLines(r, work)
}

func readaheadSmallLines(src io.Reader, work func([]byte)) error {
	r, err := readahead.NewReaderSize(src, readahead.DefaultBuffers, blockSize)
	if err != nil {
		return err
	}
	defer r.Close()
	return scannerLines(r, work)
}

func millraceLines(src io.Reader, work func([]byte)) error {
	return forChunks(chunk.NewReader(src, chunk.At(chunk.Lines())), func(lines []byte) {
		if rest := eachLine(lines, work); len(rest) > 0 {
			work(rest)
		}
	})
}
