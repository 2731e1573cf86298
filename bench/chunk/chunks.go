package chunk

import (
	"bufio"
	"context"
	"io"

	"github.com/klauspost/readahead"
	"github.com/millrace-io/millrace/chunk"
)

// byChunk are contenders that give pieces of any length.
var byChunk = []contender{
	{"plain loop of Read, 64 KiB", plainLoop},
	{"bufio.Reader of 64 KiB, Peek and Discard", bufioChunks},
	{"readahead, 4 of 1 MiB (its defaults)", readaheadChunks},
	{"readahead, 4 of 64 KiB", readaheadSmallChunks},
	{"chunk.Reader", millraceChunks},
	{"chunk.Reader, cut at line ends", millraceLineChunks},
}

func plainLoop(src io.Reader, work func([]byte)) error {
	buf := make([]byte, blockSize)
	for {
		n, err := src.Read(buf)
		work(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// bufioChunks looks at what is buffered, where it lies. Read would go past the buffer, and be the plain loop.
func bufioChunks(src io.Reader, work func([]byte)) error {
	r := bufio.NewReaderSize(src, blockSize)
	for {
		if _, err := r.Peek(1); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		p, err := r.Peek(r.Buffered())
		if err != nil {
			return err
		}
		work(p)
		if _, err := r.Discard(len(p)); err != nil {
			return err
		}
	}
}

// A worker is a Writer that is lent pieces by WriteTo.
type worker func([]byte)

func (w worker) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// readaheadChunks is lent pieces by WriteTo, which saves the copy that Read would make.
func readaheadChunks(src io.Reader, work func([]byte)) error {
	r := readahead.NewReader(src)
	defer r.Close()
	_, err := r.(io.WriterTo).WriteTo(worker(work))
	return err
}

func readaheadSmallChunks(src io.Reader, work func([]byte)) error {
	r, err := readahead.NewReaderSize(src, readahead.DefaultBuffers, blockSize)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.(io.WriterTo).WriteTo(worker(work))
	return err
}

func millraceChunks(src io.Reader, work func([]byte)) error {
	return forChunks(chunk.NewReader(src), work)
}

func millraceLineChunks(src io.Reader, work func([]byte)) error {
	return forChunks(chunk.NewReader(src, chunk.At(chunk.Lines())), work)
}

// forChunks closes r in the end.
func forChunks(r *chunk.Reader, work func([]byte)) error {
	defer r.Close()
	for p, err := range r.Chunks(context.Background()) {
		if err != nil {
			return err
		}
		work(p)
	}
	return nil
}
