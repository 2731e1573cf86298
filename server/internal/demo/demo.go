// Package demo contains the stream for `millrace serve --demo`. It is a short FLV file with a test
// picture, a clock and a quiet tone. scripts/make-demo-sample generates the file in such a way that
// it can be repeated without a gap.
package demo

import (
	_ "embed"
	"time"
)

// Name is the name of the stream that --demo publishes. It is also the name of the publisher.
const Name = "demo"

// Sample is a complete FLV file. It contains the header, onMetaData, the sequence headers, and 8 s
// of H.264 (640x360, 25 frames/s, a keyframe every second, no B-frames) and AAC (48 kHz, mono). It
// starts with a keyframe at timestamp 0. It must not be changed, because all players share it.
//
//go:embed sample.flv
var Sample []byte

// Length is the duration of Sample. To repeat Sample without a gap, add n*Length to the timestamps
// of repetition n.
const Length = 8 * time.Second
