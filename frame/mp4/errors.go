package mp4

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/frame/flv"
)

// ErrNoInit is returned by AppendInit before the first fragment.
var ErrNoInit = errors.New("mp4: no fragment yet, so there is nothing to initialise")

// errNotWhole means that WriteTag was given a chain that is not the tag it was described as.
var errNotWhole = errors.New("mp4: the chain is not the tag")

// CodecError refuses a tag whose coding has no place here. Other tags of the stream are not affected.
type CodecError struct {
	Type  flv.Type
	Codec flv.Codec
	Why   string // further reason; empty when the codec is the reason
}

func (e *CodecError) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("mp4: %s tag (%s): %s", e.Type, e.Codec, e.Why)
	}
	return fmt.Sprintf("mp4: %s is not carried: video is AVC or HEVC, audio is AAC", e.Codec)
}

// ConfigError says that a sequence header cannot be understood. The Muxer goes on with the one before.
type ConfigError struct {
	Codec flv.Codec
	Why   string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("mp4: sequence header of %s: %s", e.Codec, e.Why)
}

// LimitError refuses something too large. The tag is dropped; when it was a picture, so are those up to the next key frame.
type LimitError struct {
	What  string // what is too large, with the name of the limit
	Have  int
	Limit int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("mp4: %s: %d bytes, limit %d", e.What, e.Have, e.Limit)
}
