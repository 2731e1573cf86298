// Package upload puts a file under a URL over HTTP, so that what stands there at the end is the whole file, or an error is
// told.
//
//	try ──▶ PUT, Expect: 100-continue ──▶ body ──▶ answer ──▶ done
//	 ▲                                      │        │
//	 └───────── backoff ◀── not accepted ◀──┴────────┘
//
// A try is made again only if the server cannot have accepted the one before: it was not reached, it has not got all of
// the body, or it says that it is to be asked later.
package upload
