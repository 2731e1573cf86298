// Package demo holds the stream that `millrace serve --demo` plays: a short FLV file with a test
// video, a clock and a quiet tone. scripts/make-demo-sample makes it so that it loops without a
// seam.
package demo

import (
	_ "embed"
	"time"
)

// Name is the stream that --demo publishes, and its publisher.
const Name = "demo"

// Sample is a whole FLV file: header, onMetaData, the sequence headers, then 8 s of H.264 (640x360,
// 25/s, a keyframe a second, no B-frames) and AAC (48 kHz, mono), beginning with a keyframe at
// timestamp 0. It is shared by all who play it and must not be changed.
//
//go:embed sample.flv
var Sample []byte

// Length is the time that one round adds to the timestamps of the next. The first tag of round n is
// at n*Length. It follows the last tag of the previous round at the usual distance.
const Length = 8 * time.Second
