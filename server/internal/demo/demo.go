// Package demo holds the stream that `millrace serve --demo` plays: a short FLV file with a test picture, a clock and a
// quiet tone, made by scripts/make-demo-sample so that its end joins its beginning.
package demo

import (
	_ "embed"
	"time"
)

// Name is the stream that --demo publishes, and its publisher.
const Name = "demo"

// Sample is a whole FLV file: header, onMetaData, the sequence headers, then 8 s of H.264 (640x360, 25/s, a key frame a
// second, no B-frames) and AAC (48 kHz, mono), beginning with a key frame at timestamp 0. It is shared by all who play it and
// must not be changed.
//
//go:embed sample.flv
var Sample []byte

// Length is what one round adds to the timestamps of the next: the first tag of round n stands at n*Length, as far behind
// the last tag of the round before as any two neighbours of its kind.
const Length = 8 * time.Second
