// Package soak runs servers for a long time under everything at once, and looks for what grows.
//
// The servers are processes of their own, so that their memory, goroutines and descriptors are theirs alone. Streams,
// files and blobs are put on them together, with clients that stall, break off and come again, and with restarts. All that
// is sent says what it is, so that every byte that comes back is compared with what it must be.
//
// Work comes in cycles. Between two of them is a quiet point: everybody has hung up, the server says that nothing is in
// progress, and what it still holds is compared with earlier quiet points of the same process.
package soak
