// Package blob stores large values under keys, in a directory or in Redis, for clients that use
// HTTP.
//
//	PUT ──▶ pending ──▶ condition ──▶ commit ──▶ a version, which never changes ──▶ GET, ranges
//	        (invisible)              (one step)
//
// Both stores first write a value without a key, so that no reader sees it. They assign the value
// to its key in one step, which also checks the writer's condition (If-Match, If-None-Match). The
// directory renames a file, and Redis runs a script. A key therefore always has a complete value or
// none, even if the server is killed.
//
// A third of the code keeps the values of a directory complete after a crash: directory.go.
package blob
