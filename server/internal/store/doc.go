// Package store serves files at /files/ and blobs at /blobs/: it bounds how many there are at a time, cuts clients that
// take or send nothing, and counts what it does. The files are package chunk's, the values package blob's.
//
// [Files] and [Blobs] are nil where there are none, and say so to clients.
package store
