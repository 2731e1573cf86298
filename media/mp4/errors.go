package mp4

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/media/flv"
)

// ErrNoInit is the error of AppendInit before the first fragment.
var ErrNoInit = errors.New("mp4: no init segment before the first fragment")

// errNotWhole is the error of WriteTag if the chain is not the one whole tag that t describes.
var errNotWhole = errors.New("mp4: the chain is not the tag")

// CodecError reports a tag that is omitted because of its codec. Other tags of the stream are not
// affected.
type CodecError struct {
	Type  flv.Type
	Codec flv.Codec
	Why   string // empty if the codec itself is the reason
}

func (e *CodecError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("mp4: %s tag (%s): %s", e.Type, e.Codec, e.Why)
	}
	return fmt.Sprintf("mp4: %s is not carried: video is AVC or HEVC, audio is AAC", e.Codec)
}

// ConfigError reports a sequence header that is ignored, because it is invalid or browsers could
// not read it. The Muxer keeps the previous sequence header. If there is none, it continues without
// the track.
type ConfigError struct {
	Codec flv.Codec
	Why   string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("mp4: sequence header of %s: %s", e.Codec, e.Why)
}

// LimitError reports a tag that is omitted because it is too large. After an omitted video frame,
// all video up to the next keyframe is omitted, too.
type LimitError struct {
	What  string // the limited value, with the name of the option
	Have  int
	Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("mp4: %s: %d bytes, limit %d", e.What, e.Have, e.Limit)
}
