//go:build plan9 || wasm

package chunk

// nonblock is a flag for opening a file. These systems have no such flag.
const nonblock = 0
