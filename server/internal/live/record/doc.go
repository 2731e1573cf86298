// Package record keeps live streams in files.
//
//	Add ──▶ queue ──▶ writer goroutine ──▶ DIR/NAME/2026-11-24T15-04-05.000Z.mp4     init segment, fragments
//	                                  └──▶ DIR/NAME/2026-11-24T15-04-05.000Z.m3u8    HLS: segments are ranges of the mp4
//
// An [Archive] is a directory of recordings. A [Recording] records one stream. It takes the
// fragments that viewers of MP4 get, by reference. A file ends at the whole hour, when the init
// segment changes, and when the stream ends. Each file plays without the others, and has a playlist
// next to it.
//
// The files of the package use each other downwards: archive.go, which starts and ends recordings;
// recording.go, the queue of one stream; writer.go, which decides where files begin and end;
// file.go, a file that grows; store.go, the files that have ended, and the counts of all; repair.go
// and playlist.go.
//
// Add never waits for the disk: fragments wait in a queue of limited size. When it is full,
// fragments up to the next keyframe are lost, and the playlist names the gap. An error of the disk
// ends the file; some seconds later the next keyframe begins another one.
//
// # The files at every moment
//
// The mp4 grows by whole batches of fragments, and then its playlist: the playlist names only bytes
// that exist. While it grows, the playlist has the type EVENT and is only appended to, with one
// write for each segment. Replacing it by rename every two seconds would write it completely each
// time: in an hour a quarter of the bytes of a 2 Mbit/s stream. At the end the playlist is replaced
// once, by rename: its type becomes VOD, and EXT-X-ENDLIST is its last line. A file without that
// line is unfinished. The function finish in repair.go completes it: at the end of each file, after
// an error, and in Open after a crash.
//
// fsync is called only at the end of a file, on the mp4 and then on the playlist, because finish
// trusts a file with a complete playlist. Before that, a crash of the process loses no written
// data, and a crash of the machine loses the seconds that the kernel had not written yet. An fsync
// for each segment would make streams wait for each other on a slow disk.
package record
