package chunk

import (
	"os"
	"sync"
)

const (
	// A response drops the sent part of a file from the page cache after every dropStep bytes.
	dropStep = 8 << 20

	// The last dropLag bytes that were sent stay in the page cache, because the socket's send
	// buffer may still use their pages. Linux limits this buffer to 4 MiB by default
	// (net.ipv4.tcp_wmem).
	dropLag = 8 << 20
)

// A dropper removes sent bytes of files from the page cache, for responses with the option
// DropBehind. It does nothing while two or more of these responses send the same file.
type dropper struct {
	mu      sync.Mutex
	sending map[fileVersion]int // number of responses that send the file
}

func (d *dropper) add(v fileVersion, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sending[v] += n; d.sending[v] == 0 {
		delete(d.sending, v)
	}
}

func (d *dropper) drop(f *os.File, v fileVersion, from, to int64) {
	d.mu.Lock()
	alone := d.sending[v] == 1
	d.mu.Unlock()
	if alone {
		dropFromCache(f, from, to)
	}
}
