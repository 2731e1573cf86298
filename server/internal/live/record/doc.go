// Package record records live streams to files.
//
//	Add ──▶ queue ──▶ writer goroutine ──▶ DIR/NAME/2026-11-24T15-04-05.000Z.mp4     init segment, fragments
//	                                  └──▶ DIR/NAME/2026-11-24T15-04-05.000Z.m3u8    HLS: segments are ranges of the mp4
//
// An [Archive] is a directory of recordings. A [Recording] records one stream. It gets the same
// fragments as MP4 viewers, and shares the memory of the fragments with them. By default, a file
// ends at each full hour. It also ends when the init segment changes, and when the stream ends.
// Each file can be played on its own, and has a playlist in the same directory.
//
// Each source file of the package calls only source files that come later in this list: archive.go,
// which starts and ends recordings; recording.go, the queue of one stream; writer.go, which decides
// where files begin and end; file.go, a file that grows; store.go, the ended files and all
// counters; repair.go and playlist.go.
//
// Add never waits for the disk. Fragments wait in a queue of limited size. When the queue is full,
// fragments up to the next keyframe are lost, and the playlist marks the gap. After a disk error,
// the file ends. Some seconds later, the next keyframe begins a new file.
//
// # The files at every moment
//
// While a file is recorded, its mp4 grows by complete batches of fragments. Each batch is written
// to the mp4 before its segments are added to the playlist, so that the playlist lists only bytes
// that exist. The growing playlist has the type EVENT. New segments are only appended to the
// playlist, with one write for each segment. The alternative would be to replace the playlist by
// rename every two seconds, and to write the complete playlist again each time. In an hour, this
// would add up to a quarter of the bytes of a 2 Mbit/s stream. At the end of the file, the playlist
// is replaced once, by rename. The new playlist has the type VOD, and its last line is
// EXT-X-ENDLIST. A file is unfinished if its playlist lacks that line. The function finish in
// repair.go completes a file. It is called at the end of each file, after an error, and in Open
// after a crash.
//
// fsync is called only at the end of a file. It is called first on the mp4 and then on the
// playlist, because finish trusts a file with a complete playlist. Before the end of a file, a
// crash of the process loses no data that was written. A crash of the machine loses the last
// seconds, which the kernel has not written yet. fsync is not called for each segment, because
// streams would then wait for each other on a slow disk.
package record
