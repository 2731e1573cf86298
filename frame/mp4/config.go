package mp4

import (
	"bytes"

	"github.com/millrace-io/millrace/frame/flv"
)

// config is what a sequence header says. It does not change once it is made, so that fragments can be told apart by the
// configs they were made under. Two of the same header are equal.
type config struct {
	codec  flv.Codec
	record []byte // as it came, for the codec's own box

	scale uint32 // units of time in a second
	step  uint32 // how long a sample lasts when the next one's time is not known, in those units

	width, height uint16
	shape         [2]uint16 // width and height of one sample; 0 when square

	channels uint16
}

const (
	// videoScale is FLV's own: its times are whole milliseconds, and any other scale would only pretend to know better.
	videoScale = 1000
	// videoStep stands for the duration of a picture that has no successor and no predecessor: 25 a second.
	videoStep = 40
)

// newConfig understands a sequence header. It borrows record.
func newConfig(codec flv.Codec, record []byte) (*config, error) {
	c := &config{codec: codec, record: bytes.Clone(record), scale: videoScale, step: videoStep}
	var why string
	switch codec {
	case flv.AVC:
		why = parseAVC(c)
	case flv.HEVC:
		why = parseHEVC(c)
	case flv.AAC:
		why = parseAAC(c)
	}
	if why != "" {
		return nil, &ConfigError{Codec: codec, Why: why}
	}
	return c, nil
}

// same reports whether c, which may be nil, was made of this sequence header.
func (c *config) same(codec flv.Codec, record []byte) bool {
	return c != nil && c.codec == codec && bytes.Equal(c.record, record)
}

// equal reports whether c and d, both of which may be nil, were made of the same sequence header.
func (c *config) equal(d *config) bool {
	return c == d || d != nil && c.same(d.codec, d.record)
}

// carried reports whether a tag of this kind and codec has a place in the file.
func carried(t flv.Type, c flv.Codec) bool {
	if t == flv.TypeVideo {
		return c == flv.AVC || c == flv.HEVC
	}
	return c == flv.AAC
}
