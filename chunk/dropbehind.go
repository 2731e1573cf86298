package chunk

import (
	"io"
	"os"
)

const (
	// dropStep is how much is sent between two drops.
	dropStep = 8 << 20

	// dropLag is how far behind the last byte sent the page cache is emptied: a socket holds up to 4 MiB of pages,
	// unless the system is told otherwise (net.ipv4.tcp_wmem), and what it holds cannot be dropped.
	dropLag = 8 << 20
)

// sendAndDrop gives body to rf in steps, and drops the bytes of the file that were sent from the page cache.
func (x *fileRequest) sendAndDrop(rf io.ReaderFrom, body *io.LimitedReader) error {
	version := versionOf(x.info)
	x.h.countDropping(version, 1)
	defer x.h.countDropping(version, -1)
	f := x.file.file
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	at := from
	defer func() { x.h.drop(f, version, from, at) }()
	for dropped := from; body.N > 0; {
		step := io.LimitedReader{R: x.file, N: min(body.N, dropStep)}
		asked := step.N
		before := x.report.Bytes
		err := x.give(rf, &step)
		n := x.report.Bytes - before
		at += n
		body.N -= n
		if err != nil || n < asked {
			return err
		}
		if to := at - dropLag; to > dropped {
			x.h.drop(f, version, dropped, to)
			dropped = to
		}
	}
	return nil
}

// countDropping adds n to the responses that are being dropped behind and send this file.
func (h *FileHandler) countDropping(v fileVersion, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropping[v] += n; h.dropping[v] == 0 {
		delete(h.dropping, v)
	}
}

// drop drops the bytes [from, to) of f from the page cache, unless another response that is dropped behind sends the file.
func (h *FileHandler) drop(f *os.File, v fileVersion, from, to int64) {
	h.mu.Lock()
	alone := h.dropping[v] == 1
	h.mu.Unlock()
	if alone {
		dropFromCache(f, from, to)
	}
}
