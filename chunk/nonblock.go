//go:build !plan9 && !wasm

package chunk

import "syscall"

// nonblock is a flag for opening a file. With it, opening a pipe does not wait for a writer.
const nonblock = syscall.O_NONBLOCK
