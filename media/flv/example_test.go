package flv_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// A relay keeps the tags that a later viewer needs, and knows where a viewer can start.
func ExampleDecoder() {
	stream := fileHeader +
		rawTag(18, 0, "\x02\x00\x0aonMetaData\x08\x00\x00\x00\x00\x00\x00\x09") +
		rawTag(9, 0, "\x17\x00\x00\x00\x00 (AVC configuration)") +
		rawTag(9, 0, "\x17\x01\x00\x00\x00 (picture)") +
		rawTag(9, 40, "\x27\x01\x00\x00\x00 (picture)")

	r := millrace.NewReader(strings.NewReader(stream))
	defer r.Release()
	d := flv.NewDecoder(r)

	var preamble, group millrace.Chain
	defer preamble.Release()
	defer group.Release()
	for {
		var c millrace.Chain
		tag, err := d.Next(&c)
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		switch {
		case tag.Metadata || tag.SequenceHeader:
			c.CloneTo(&preamble)
		case tag.Key:
			group.Release() // the previous GOP
			c.CloneTo(&group)
		default:
			c.CloneTo(&group)
		}
		fmt.Printf("%v at %d ms, %d bytes in %d piece\n", tag.Type, tag.Timestamp, c.Len(),
			c.Pieces())
		c.Release()
	}
	fmt.Println(preamble.Len(), "bytes of preamble,", group.Len(), "bytes from the last keyframe")
	// Output:
	// script at 0 ms, 36 bytes in 1 piece
	// video at 0 ms, 40 bytes in 1 piece
	// video at 0 ms, 30 bytes in 1 piece
	// video at 40 ms, 30 bytes in 1 piece
	// 76 bytes of preamble, 60 bytes from the last keyframe
}

// A recording is played again with later timestamps. Its bytes are shared, and neither copied nor
// changed.
func ExampleEncoder() {
	var enc flv.Encoder
	defer enc.Release()
	var body, tag, later millrace.Chain
	defer tag.Release()
	defer later.Release()
	body.AppendCopy([]byte("\xaf\x01 (sound)"))
	if _, err := enc.Append(&tag, flv.TypeAudio, 23, &body); err != nil {
		fmt.Println(err)
		return
	}
	enc.Retime(&later, &tag, 8023)
	fmt.Printf("%q\n%q\n", tag.Bytes()[:11], later.Bytes()[:11])
	// Output:
	// "\b\x00\x00\n\x00\x00\x17\x00\x00\x00\x00"
	// "\b\x00\x00\n\x00\x1fW\x00\x00\x00\x00"
}
