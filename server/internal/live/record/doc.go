// Package record records live streams to files.
//
//	Add ──▶ queue ──▶ writer goroutine ──▶ DIR/NAME/2026-11-24T15-04-05.000Z.mp4     init segment, fragments
//	                                  └──▶ DIR/NAME/2026-11-24T15-04-05.000Z.m3u8    HLS: segments are ranges of the mp4
//
// An [Archive] is a directory of recordings. A [Recording] records one stream. It gets the same
// fragments as viewers of MP4, by reference. A file ends at the whole hour, when the init segment
// changes, and when the stream ends. Each file can be played without the others, and has a playlist
// next to it.
//
// Calls among the files of the package only go down this list: archive.go, which starts and ends
// recordings; recording.go, the queue of one stream; writer.go, which decides where files begin and
// end; file.go, a file that grows; store.go, the ended files and all counters; repair.go and
// playlist.go.
//
// Add never waits for the disk. Fragments wait in a queue of limited size. When the queue is full,
// fragments up to the next keyframe are lost, and the playlist marks the gap. An error of the disk
// ends the file. Some seconds later, the next keyframe begins a new file.
//
// # The files at every moment
//
// First the mp4 grows by whole batches of fragments, and then its playlist, so that the playlist
// lists only bytes that exist. While it grows, the playlist has the type EVENT. It is only appended
// to, with one write for each segment. The alternative would be to replace it by rename every two
// seconds. That would write the complete playlist each time: in an hour, a quarter of the bytes of
// a 2 Mbit/s stream. At the end the playlist is replaced once, by rename. Its type is then VOD, and
// its last line is EXT-X-ENDLIST. A file without that line is unfinished. The function finish in
// repair.go completes a file. It is called at the end of each file, after an error, and in Open
// after a crash.
//
// fsync is called only at the end of a file, first on the mp4 and then on the playlist, because
// finish trusts a file with a complete playlist. Before that, a crash of the process loses no
// written data. A crash of the machine loses the last seconds, which the kernel had not written
// yet. With an fsync for each segment, streams would wait for each other on a slow disk.
package record
