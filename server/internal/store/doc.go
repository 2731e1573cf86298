// Package store serves files at /files/ and blobs at /blobs/. It limits concurrent transfers,
// disconnects clients that stall, and counts transfers. Package chunk serves the files, and package
// blob stores the values.
//
// [Files] and [Blobs] are nil if they are not configured. Requests then get status 404.
package store
