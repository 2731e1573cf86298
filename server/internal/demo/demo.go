// Package demo contains the stream that `millrace serve --demo` plays: a short FLV file with a test
// picture, a clock and a quiet tone. scripts/make-demo-sample generates it so that it loops
// seamlessly.
package demo

import (
	_ "embed"
	"time"
)

// Name is the name of the stream that --demo publishes, and of its publisher.
const Name = "demo"

// Sample is a complete FLV file: header, onMetaData, the sequence headers, then 8 s of H.264
// (640x360, 25 frames/s, a keyframe every second, no B-frames) and AAC (48 kHz, mono), starting
// with a keyframe at timestamp 0. All players share it, so it must not be changed.
//
//go:embed sample.flv
var Sample []byte

// Length is the duration of one round of the loop. The first tag of round n has the timestamp
// n*Length, which follows the last tag of the round before at the usual interval.
const Length = 8 * time.Second
