package hls_test

import (
	"fmt"
	"os"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
)

// newWindow returns a window with the fragments of a short stream: five video frames per second, a
// keyframe each second.
func newWindow() *hls.Window {
	w, err := hls.NewWindow(hls.Config{
		Epoch:    71,
		FirstMSN: 70,
		Target:   2 * time.Second,
		Part:     600 * time.Millisecond,
		Segment:  time.Second,
		Segments: 6,
		MaxBytes: 64 << 20,
	})
	if err != nil {
		panic(err)
	}
	var c millrace.Chain // mp4.Muxer's AppendInit and WriteTag fill it
	c.AppendCopy([]byte("(init)"))
	w.Init(&c)
	for i := range 9 {
		fmt.Fprintf(writer{&c}, "(fragment %d)", i)
		w.Add(hls.Fragment{
			Duration: 200 * time.Millisecond,
			Key:      i%5 == 0,
			KeyNext:  i%5 == 4,
			Time:     time.Date(2026, 1, 2, 3, 4, 5, 200e6*i, time.UTC),
		}, &c)
	}
	return w
}

// writer appends written bytes to a Chain.
type writer struct{ c *millrace.Chain }

func (w writer) Write(p []byte) (int, error) {
	w.c.AppendCopy(p)
	return len(p), nil
}

// Two GOPs: a segment of two parts, and an unfinished segment.
func ExampleWindow() {
	w := newWindow()
	defer w.Release()
	fmt.Printf("%s", w.AppendPlaylist(nil, false))

	// An object's bytes are shared, not copied.
	if o, ok := hls.ParseObject("1z-70.1.m4s"); ok {
		var c millrace.Chain
		defer c.Release()
		fmt.Println(w.Append(&c, o), string(c.Bytes()))
	}
	// Output:
	// #EXTM3U
	// #EXT-X-VERSION:9
	// #EXT-X-TARGETDURATION:2
	// #EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.800,CAN-SKIP-UNTIL=12.000
	// #EXT-X-PART-INF:PART-TARGET=0.600
	// #EXT-X-MEDIA-SEQUENCE:70
	// #EXT-X-DISCONTINUITY-SEQUENCE:0
	// #EXT-X-MAP:URI="1z-i0.mp4"
	// #EXT-X-PROGRAM-DATE-TIME:2026-01-02T03:04:05.000Z
	// #EXT-X-PART:DURATION=0.600,URI="1z-70.0.m4s",INDEPENDENT=YES
	// #EXT-X-PART:DURATION=0.400,URI="1z-70.1.m4s"
	// #EXTINF:1.000,
	// 1z-70.m4s
	// #EXT-X-PROGRAM-DATE-TIME:2026-01-02T03:04:06.000Z
	// #EXT-X-PART:DURATION=0.600,URI="1z-71.0.m4s",INDEPENDENT=YES
	// #EXT-X-PRELOAD-HINT:TYPE=PART,URI="1z-71.1.m4s"
	// true (fragment 3)(fragment 4)
}

// A player requests a playlist with the part that was announced to it.
func ExampleWindow_Status() {
	w := newWindow()
	defer w.Release()
	answer := func(query string) {
		r, blocking, err := hls.ParseReload(query)
		switch {
		case err != nil:
			fmt.Println("400:", err)
		case !blocking || w.Status(r) == hls.Ready:
			fmt.Println("200: the playlist")
		case w.Status(r) == hls.Wait:
			fmt.Println("wait until Add reports news")
		default:
			fmt.Println("400: too far ahead")
		}
	}
	answer("")
	answer("_HLS_msn=71&_HLS_part=0")
	answer("_HLS_msn=71&_HLS_part=1")
	answer("_HLS_msn=80")
	answer("_HLS_part=1")
	// Output:
	// 200: the playlist
	// 200: the playlist
	// wait until Add reports news
	// 400: too far ahead
	// 400: hls: _HLS_part without _HLS_msn
}

func ExampleAppendMultivariant() {
	os.Stdout.Write(hls.AppendMultivariant(nil, hls.Variant{
		URI:              "media.m3u8",
		Codecs:           "avc1.4d401f,mp4a.40.2",
		Width:            1280,
		Height:           720,
		FrameRate:        25,
		Bandwidth:        3_200_000,
		AverageBandwidth: 2_900_000,
	}))
	// Output:
	// #EXTM3U
	// #EXT-X-STREAM-INF:BANDWIDTH=3200000,AVERAGE-BANDWIDTH=2900000,CODECS="avc1.4d401f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000
	// media.m3u8
}
