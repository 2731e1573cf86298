package chunk

import (
	"os"
	"sync"
)

const (
	// dropStep is the number of bytes sent between two drops.
	dropStep = 8 << 20

	// dropLag is the distance between the last byte sent and the part of the page cache that is
	// dropped. It is needed because a socket holds up to 4 MiB of pages by default
	// (net.ipv4.tcp_wmem), and these cannot be dropped.
	dropLag = 8 << 20
)

// A dropper removes sent files from the page cache. It keeps a file while another response with
// DropBehind is sending it.
type dropper struct {
	mu      sync.Mutex
	sending map[fileVersion]int // number of responses with DropBehind, by file
}

// count adds n to the number of responses that send this file and drop it from the page cache.
func (d *dropper) count(v fileVersion, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sending[v] += n; d.sending[v] == 0 {
		delete(d.sending, v)
	}
}

// drop drops the bytes [from, to) of f from the page cache, unless another response with DropBehind
// sends the file.
func (d *dropper) drop(f *os.File, v fileVersion, from, to int64) {
	d.mu.Lock()
	alone := d.sending[v] == 1
	d.mu.Unlock()
	if alone {
		dropFromCache(f, from, to)
	}
}
