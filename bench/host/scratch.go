//go:build linux

package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// block is the size of a write.
const block = 4 << 10

// scratch makes a file of random bytes that has no name, so that it is gone with the process. It is on the disk: no write
// to it finds a hole.
//
// It is written block by block. What is written in one call may become one piece in the page cache (ext4 does that from
// Linux 6.16 on), and a piece is dirty as a whole, so that each random write would count for several.
func scratch(ctx context.Context, dir string, size int64) (*os.File, error) {
	f, err := os.CreateTemp(dir, "bench-host-")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	random, b := rand.NewChaCha8([32]byte{}), make([]byte, block)
	for at := int64(0); at < size && err == nil; at += block {
		random.Read(b)
		if err = ctx.Err(); err == nil {
			_, err = f.WriteAt(b, at)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// direct opens a file that has no name once more, past the page cache.
func direct(f *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR|unix.O_DIRECT, 0)
}
