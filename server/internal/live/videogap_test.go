package live_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// pieces returns n audio tags of 21 ms each, starting at the given time.
func pieces(n int, at uint32) (tags [][]byte) {
	for i := range n {
		tags = append(tags, flvTag(flv.TypeAudio, at+uint32(21*i),
			fmt.Appendf([]byte{0xaf, 1}, "piece %d", i)))
	}
	return tags
}

// Late viewers of a stream without video, or without recent video, start with audio. When video
// returns, they get it. If there was no video at all, they get its sequence header with its first
// frame, and MP4 ends there.
func TestLateViewersInAVideoGap(t *testing.T) {
	for name, pictures := range map[string]int{"no picture": 0, "a group that is not kept": 6} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) { c.KeepFrames = 200 })
			sc := newScript(1, 3, 100)
			start := bytes.Join([][]byte{sc.start(), bytes.Join(sc.tags[:pictures], nil)}, nil)
			dark := pieces(600, 120)
			p := f.Publisher("cam")
			p.Send(append(start, bytes.Join(dark, nil)...))
			f.published("cam", len(start)+len(bytes.Join(dark, nil))-len(sc.header))
			w := f.Watcher("/live/cam.flv", 0)
			m := f.Watcher("/live/cam.mp4", 0)
			f.viewers(2)

			more := pieces(150, 120+21*600)
			p.Send(bytes.Join(more, nil))
			first := sc.start()
			if pictures == 0 {
				first = bytes.Join([][]byte{sc.header, sc.config[0], sc.config[2]}, nil)
				first[4] = flvstream.AudioFlag
			}
			want := bytes.Join([][]byte{first, dark[len(dark)-1], bytes.Join(more, nil)}, nil)
			same(t, "the sound", w.Next(len(want)), want)
			for _, kind := range []string{"ftyp", "moov", "moof", "mdat"} {
				if got, body := box(m); got != kind {
					t.Fatalf("MP4: a box %s, want %s", got, kind)
				} else if kind == "mdat" && !bytes.HasPrefix(body, []byte("piece 599piece 0")) {
					t.Errorf("MP4 begins with %.20q", body)
				}
			}
			if pictures > 0 {
				f.Logged("there is audio but no video", "stream=cam")
			}

			again := flvTag(flv.TypeVideo, 120+21*750,
				[]byte("\x17\x01\x00\x00\x00"+unitOf("again")))
			p.Send(bytes.Join([][]byte{again, pieces(1, 120+21*750)[0]}, nil))
			if pictures == 0 {
				header := sc.config[1]
				header = flvTag(flv.TypeVideo, 120+21*750, header[11:len(header)-4])
				same(t, "the sequence header", w.Next(len(sc.config[1])), header)
			}
			same(t, "the picture", w.Next(len(again)), again)
			late := f.Watcher("/live/cam.flv", 0)
			late.Next(len(sc.start()))
			same(t, "the picture", late.Next(len(again)), again)
			p.End()
			if got := strings.Contains(string(m.Rest()), "again"); got != (pictures > 0) {
				t.Errorf("MP4 continues with the picture: %v", got)
			}
		})
	}
}
