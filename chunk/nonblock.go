//go:build !plan9 && !wasm

package chunk

import "syscall"

// nonblock is a flag for opening a pipe without waiting for a writer.
const nonblock = syscall.O_NONBLOCK
