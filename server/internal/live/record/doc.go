// Package record keeps live streams in files.
//
//	Add ──▶ queue ──▶ writer goroutine ──▶ DIR/NAME/2026-11-24T15-04-05.000Z.mp4     init segment, fragments
//	                                  └──▶ DIR/NAME/2026-11-24T15-04-05.000Z.m3u8    HLS: segments are ranges of the mp4
//
// An [Archive] is a directory of recordings. A [Recording] is what goes on for one stream. It takes the fragments that
// viewers of MP4 get, by reference. A file ends at the whole hour, when the init segment changes, and when the stream
// ends. Each file plays alone, and has a playlist beside it.
//
// The files of the package use each other downwards: archive.go, which starts and ends recordings; recording.go, the queue of
// one stream; writer.go, which decides where files begin and end; file.go, a file that grows; store.go, the files that have
// ended, and the counts of all; repair.go and playlist.go.
//
// Add never waits for the disk: fragments wait in a queue of limited size. When it is full, fragments up to the next
// key frame are lost, and the playlist names the gap. An error of the disk ends the file; some seconds later the next
// key frame begins another one.
//
// # The files at every moment
//
// The mp4 grows by whole batches of fragments, and its playlist after it: the playlist names no byte that is not there.
// While it grows the playlist is of the type EVENT and is only appended to, one write for each segment. To replace it
// by rename every two seconds would write all of it again each time: in an hour a quarter of what a stream of 2 Mbit/s
// writes. At the end the playlist is replaced once, by rename: the type becomes VOD, and EXT-X-ENDLIST is its
// last line. A file without that line is unfinished. The function finish in repair.go makes it whole: at the end
// of each file, after an error, and in Open after a crash.
//
// The system call fsync is called at the end of a file alone, on the mp4 and then on the playlist, because finish
// trusts a file whose playlist has ended. Before that a crash of the process loses nothing that was written, and a
// crash of the machine loses the seconds that the kernel had not written yet. An fsync for each segment would make the
// streams wait for each other on a slow disk.
package record
