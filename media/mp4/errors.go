package mp4

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/media/flv"
)

// ErrNoInit is returned by AppendInit before the first fragment.
var ErrNoInit = errors.New("mp4: no init segment before the first fragment")

var errNotWhole = errors.New("mp4: the chain is not the tag")

// CodecError reports a tag in a format that the Muxer does not support. The Muxer omits the tag.
type CodecError struct {
	Type  flv.Type
	Codec flv.Codec
	Why   string // empty if the Muxer does not support the codec
}

func (e *CodecError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("mp4: %s tag (%s): %s", e.Type, e.Codec, e.Why)
	}
	return fmt.Sprintf("mp4: %s is not carried: video is AVC or HEVC, audio is AAC", e.Codec)
}

// ConfigError reports a sequence header that is invalid or that browsers cannot read. The Muxer
// continues with the track's previous sequence header or, if there is none, without the track.
type ConfigError struct {
	Codec flv.Codec
	Why   string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("mp4: sequence header of %s: %s", e.Codec, e.Why)
}

// LimitError reports a tag that the Muxer omits because it is too large. If the tag is a video
// frame, the Muxer omits all video up to the next keyframe.
type LimitError struct {
	What  string // name of the limited value and of the option
	Have  int
	Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("mp4: %s: %d bytes, limit %d", e.What, e.Have, e.Limit)
}
