package chunk

import (
	"context"
	"io"

	"github.com/klauspost/readahead"
	"github.com/millrace-io/millrace/chunk"
)

// byChunk has the contenders that return pieces of any length.
var byChunk = []contender{
	{"plain loop of Read, 64 KiB", plainLoop},
	{"readahead, 4 of 64 KiB", readaheadChunks},
	{"chunk.Reader", millraceChunks},
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

// A worker is an io.Writer that passes the pieces of WriteTo to a function, which borrows them.
type worker func([]byte)

func (w worker) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// readaheadChunks uses WriteTo, which lends the pieces and so saves the copy that Read would make.
func readaheadChunks(src io.Reader, work func([]byte)) error {
	r, err := readahead.NewReaderSize(src, readahead.DefaultBuffers, blockSize)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.(io.WriterTo).WriteTo(worker(work))
	return err
}

func millraceChunks(src io.Reader, work func([]byte)) error {
	r := chunk.NewReader(src)
	defer r.Close()
	for p, err := range r.Chunks(context.Background()) {
		if err != nil {
			return err
		}
		work(p)
	}
	return nil
}
