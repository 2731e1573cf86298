//go:build plan9 || wasm

package chunk

// nonblock is 0 on systems that have no flag for opening a file without blocking.
const nonblock = 0
