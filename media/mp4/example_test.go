package mp4_test

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// exampleStream is a short FLV stream: the sequence headers, three video frames, and three audio
// frames.
func exampleStream() *millrace.Reader {
	var c millrace.Chain
	flv.AppendHeader(&c, flv.Header{HasAudio: true, HasVideo: true})
	var enc flv.Encoder
	defer enc.Release()
	for _, tag := range []struct {
		kind flv.Type
		ms   uint32
		data string
	}{
		{flv.TypeVideo, 0, avcHeader(avc640x360)},
		{flv.TypeAudio, 0, aacHeader(aac48000)},
		{flv.TypeVideo, 0, avcKey("(keyframe)")},
		{flv.TypeAudio, 0, aacFrame("(sound)")},
		{flv.TypeAudio, 21, aacFrame("(sound)")},
		{flv.TypeVideo, 40, avcDelta(0, "(picture)")},
		{flv.TypeAudio, 42, aacFrame("(sound)")},
		{flv.TypeVideo, 80, avcKey("(keyframe)")},
	} {
		var body millrace.Chain
		body.AppendCopy([]byte(tag.data))
		if _, err := enc.Append(&c, tag.kind, tag.ms, &body); err != nil {
			panic(err)
		}
	}
	return millrace.NewReaderFrom(func(dst *millrace.Chain) error { dst.Merge(&c); return io.EOF })
}

// A server publishes each fragment. It keeps the init segment for later viewers, who start at a
// keyframe.
func ExampleMuxer() {
	r := exampleStream()
	defer r.Release()
	d := flv.NewDecoder(r)

	m := mp4.NewMuxer(mp4.Tracks(true, true))
	defer m.Release()
	publish := func(f mp4.Fragment, fragment *millrace.Chain) {
		defer fragment.Release()
		if f.NewInit {
			var init millrace.Chain
			defer init.Release()
			if err := m.AppendInit(&init); err != nil {
				fmt.Println(err)
			}
			fmt.Println("init segment of", init.Len(), "bytes")
		}
		fmt.Printf("fragment of %d samples at %v, key: %v\n", f.Samples, f.Start, f.Key)
	}
	for {
		var c, fragment millrace.Chain
		tag, err := d.Next(&c)
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		f, err := m.WriteTag(&fragment, tag, &c)
		if err != nil {
			fmt.Println(err) // this tag is refused; later ones may be accepted
		}
		if f.Samples > 0 {
			publish(f, &fragment)
		}
	}
	var last millrace.Chain
	publish(m.Flush(&last), &last)
	// Output:
	// init segment of 1097 bytes
	// fragment of 2 samples at 0s, key: true
	// fragment of 2 samples at 21ms, key: false
	// fragment of 2 samples at 42ms, key: true
}
