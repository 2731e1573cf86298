// Package blob keeps large values under keys, for HTTP: in a directory, or in Redis.
//
//	PUT ──▶ pending ──▶ condition ──▶ commit ──▶ a version, which never changes ──▶ GET, ranges
//	        (invisible)              (one step)
//
// Both stores write a value aside first, and then give it its key in one step: a file is renamed, or a script is run by
// Redis. So a key has a whole value at any time, or none, whatever breaks off in between. The condition that a writer has
// named (If-Match, If-None-Match) is checked in that step.
package blob
