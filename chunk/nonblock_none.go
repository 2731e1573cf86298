//go:build plan9 || wasm

package chunk

// nonblock is 0, because these systems have no such flag.
const nonblock = 0
