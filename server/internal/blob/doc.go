// Package blob stores large values under keys, for HTTP, in a directory or in Redis.
//
//	PUT ──▶ pending ──▶ condition ──▶ commit ──▶ a version, which never changes ──▶ GET, ranges
//	        (invisible)              (one step)
//
// Both stores first write a value where no reader sees it. Then they assign it to its key in one
// step: the directory renames a file, and Redis runs a script. A key always has a complete value or
// none, even if the server is killed in between. The same step checks the writer's condition
// (If-Match, If-None-Match).
package blob
