//go:build !plan9 && !wasm

package chunk

import "syscall"

// With nonblock, opening a pipe does not wait for a writer.
const nonblock = syscall.O_NONBLOCK
