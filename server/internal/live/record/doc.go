// Package record records live streams to files.
//
//	Add ──▶ queue ──▶ writer goroutine ──▶ DIR/NAME/2026-11-24T15-04-05.000Z.mp4     init segment, fragments
//	                                  └──▶ DIR/NAME/2026-11-24T15-04-05.000Z.m3u8    HLS: segments are ranges of the mp4
//
// An [Archive] is a directory of recordings. A [Recording] records one stream. It gets the same
// fragments as viewers of MP4, by reference. A file ends at the whole hour, when the init segment
// changes, and when the stream ends. Each file can be played on its own, and has a playlist next to
// it.
//
// Each file of the package calls only files that come later in this list: archive.go, which starts
// and ends recordings; recording.go, the queue of one stream; writer.go, which decides where files
// begin and end; file.go, a file that grows; store.go, the ended files and all counters; repair.go
// and playlist.go.
//
// Add never waits for the disk. Fragments wait in a queue of limited size. When the queue is full,
// fragments up to the next keyframe are lost, and the playlist marks the gap. An error of the disk
// ends the file. Some seconds later, the next keyframe begins a new file.
//
// # The files at every moment
//
// While a file is recorded, its mp4 grows by whole batches of fragments. Each time, the mp4 is
// written before the playlist, so that the playlist lists only bytes that exist. While it grows,
// the playlist has the type EVENT, and is only appended to, with one write for each segment. The
// alternative would be to replace it by rename every two seconds. Each time, the complete playlist
// would be written again. In an hour, that would add up to a quarter of the bytes of a 2 Mbit/s
// stream. At the end the playlist is replaced once, by rename. It then has the type VOD, and its
// last line is EXT-X-ENDLIST. A file is unfinished if its playlist lacks that line. The function
// finish in repair.go completes a file. It is called at the end of each file, after an error, and
// in Open after a crash.
//
// fsync is called only at the end of a file. It is called first on the mp4 and then on the
// playlist, because finish trusts a file with a complete playlist. Before the end of a file, a
// crash of the process loses no data that was written. A crash of the machine loses the last
// seconds, which the kernel has not written yet. fsync is not called for each segment, because
// streams would then wait for each other on a slow disk.
package record
