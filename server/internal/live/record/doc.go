// Package record records live streams to files.
//
//	Add ──▶ queue ──▶ writer goroutine ──▶ DIR/NAME/2026-11-24T15-04-05.000Z.mp4     init segment, fragments
//	                                  └──▶ DIR/NAME/2026-11-24T15-04-05.000Z.m3u8    HLS: segments are ranges of the mp4
//
// An [Archive] is a directory of recordings. A [Recording] records one stream. It shares the memory
// of its fragments with the MP4 viewers. A file ends at each full hour by default, when the init
// segment changes, and when the stream ends. Each file can be played on its own.
//
// Each source file calls only source files that come later in this list: archive.go, which starts
// and ends recordings; recording.go, the queue of one stream; writer.go, which decides where files
// begin and end; file.go, a file that grows; store.go, the ended files and all counters; repair.go
// and playlist.go.
//
// Add never waits for the disk. When the queue is full, fragments up to the next keyframe are lost,
// and the playlist marks the gap. After a disk error, the file ends. Some seconds later, the next
// keyframe begins a new file.
//
// # The files at every moment
//
// While a file grows, each batch of fragments is written to the mp4 before its segments are added
// to the playlist, so that the playlist lists only bytes that exist. The growing playlist has the
// type EVENT, and each segment is appended with one write. Replacing the playlist by rename every
// two seconds would write a quarter of the bytes of a 2 Mbit/s stream again.
//
// At the end of the file, a rename replaces the playlist once. The new playlist has the type VOD,
// and its last line is EXT-X-ENDLIST. A file without that line is unfinished. The function finish
// completes a file: at its end, after an error, and in Open after a crash.
//
// fsync is called only at the end of a file: on the mp4, on the playlist, because finish trusts a
// file with a complete playlist, and on the directories, which have the names. A crash of the
// process loses no written data. A crash of the machine loses the last seconds. With an fsync for
// each segment, streams would wait for each other on a slow disk.
//
// After a crash of the machine, any part of an unfinished mp4 may be missing, although its size and
// the playlist say that it is there. finish therefore checks the last minutes, and ends the file
// before the first missing part.
//
// A fifth of the code repairs recordings after a crash: repair.go.
package record
