// Package store serves files at /files/ and blobs at /blobs/. It limits concurrent transfers,
// disconnects clients that stall, and counts transfers. Package chunk serves the files, and package
// blob stores the values.
//
// [Files] and [Blobs] are nil where there are none, and say so to clients.
package store
