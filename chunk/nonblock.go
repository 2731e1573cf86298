//go:build !plan9 && !wasm

package chunk

import "syscall"

// nonblock is a flag for opening a file. It keeps the opening of a pipe from waiting for a writer.
const nonblock = syscall.O_NONBLOCK
