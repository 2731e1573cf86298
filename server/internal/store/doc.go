// Package store serves files at /files/ and blobs at /blobs/. It limits and counts transfers, and
// disconnects clients that accept no data. Package chunk sends the files, and package blob stores
// the blobs.
//
// A [Files] or [Blobs] that is not configured is nil. It answers requests with status 404.
package store
