//go:build !linux

package chunk

// Elsewhere there is no splice.
var sendSplice []Sender
