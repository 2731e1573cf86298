package chunk

import (
	"context"
	"io"

	"github.com/klauspost/readahead"
	"github.com/millrace-io/millrace/chunk"
)

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

// A writerFunc is an io.Writer. It borrows its argument.
type writerFunc func([]byte)

func (w writerFunc) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// readaheadChunks uses WriteTo, which avoids the copy that Read would make.
func readaheadChunks(src io.Reader, work func([]byte)) error {
	r, err := readahead.NewReaderSize(src, readahead.DefaultBuffers, blockSize)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.(io.WriterTo).WriteTo(writerFunc(work))
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
