package live_test

import (
	"bytes"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// metadata returns an onMetaData tag that also says which tracks exist.
func metadata(at uint32, video, audio byte) []byte {
	data := "\x02\x00\x0aonMetaData\x08\x00\x00\x00\x04\x00\x05width\x00\x40\x84\x00\x00\x00\x00\x00\x00" +
		"\x00\x08hasVideo\x01" + string([]byte{video}) +
		"\x00\x08hasAudio\x01" + string([]byte{audio}) +
		"\x00\x07encoder\x02\x00\x08hasAudio\x00\x00\x09"
	return flvTag(flv.TypeScript, at, []byte(data))
}

// hasVideo and hasAudio in FLV metadata match the header. All other bytes are the publisher's.
func TestMetadataStateTheTracksThatExist(t *testing.T) {
	sc := newScript(6, 25, 100) // GOPs of one second
	videoHeader, audioHeader := sc.config[1], sc.config[2]
	video, audio := only(flv.TypeVideo, sc.tags), only(flv.TypeAudio, sc.tags)
	for _, tt := range []struct {
		name         string
		video, audio byte // according to the metadata
		first        [][]byte
		tags         [][]byte
		wantVideo    byte
		wantAudio    byte
	}{
		{"true", 1, 1, [][]byte{videoHeader, audioHeader}, sc.tags, 1, 1},
		{"audio that never comes", 1, 1, [][]byte{videoHeader}, video, 1, 0},
		{"video that never comes", 1, 1, [][]byte{audioHeader}, audio, 0, 1},
		{"audio that is denied", 1, 0, [][]byte{videoHeader, audioHeader}, sc.tags, 1, 1},
		{"all wrong", 0, 1, [][]byte{videoHeader}, video, 1, 0},
	} {
		for _, place := range []int{0, len(tt.first)} { // of the metadata
			t.Run(tt.name, func(t *testing.T) {
				f := serve(t, nil)
				stream := func(video, audio byte) (head, rest []byte) {
					flags := video*flvstream.VideoFlag | audio*flvstream.AudioFlag
					tags := append([][]byte{[]byte("FLV\x01"), {flags},
						[]byte("\x00\x00\x00\x09\x00\x00\x00\x00")}, tt.first[:place]...)
					tags = append(append(tags, metadata(0, video, audio)), tt.first[place:]...)
					return join(tags), join(append(append([][]byte{}, tt.tags...),
						metadata(5000, video, audio)))
				}
				waits := f.Ask("/live/cam", 0)
				f.waiting("cam", 1)
				p := f.Publisher("cam")
				head, rest := stream(tt.video, tt.audio)
				head[4] = 5
				p.Send(head)
				p.Send(rest)
				f.published("cam", len(head)+len(rest)-13)
				late := f.Watcher("/live/cam", 0)
				f.viewers(2)
				end := metadata(6000, tt.video, tt.audio)
				p.Send(end)
				p.End()
				wantHead, wantRest := stream(tt.wantVideo, tt.wantAudio)
				want := join([][]byte{wantHead, wantRest,
					metadata(6000, tt.wantVideo, tt.wantAudio)})
				waits.Begin()
				same(t, "who came early", waits.Rest(), want)
				got := late.Rest()
				if !bytes.HasPrefix(got, join([][]byte{wantHead[:13],
					metadata(0, tt.wantVideo, tt.wantAudio)})) {
					t.Errorf("who came late begins with %q", got[:200])
				}
				if bytes.Count(got, metadata(6000, tt.wantVideo, tt.wantAudio)) != 1 {
					t.Error("who came late gets other metadata later")
				}
			})
		}
	}
}

// Metadata that arrive after a viewer has started also say which tracks exist.
func TestMetadataAfterAViewerHasBegun(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 25, 100)
	viewer := f.Ask("/live/cam", 0)
	f.waiting("cam", 1)
	p := f.Publisher("cam")
	begin := join([][]byte{[]byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"), sc.config[1],
		sc.config[2]})
	p.Send(begin)
	viewer.Begin()
	same(t, "the beginning", viewer.Next(len(begin)), begin)
	p.Send(join([][]byte{metadata(0, 1, 0), join(sc.tags)}))
	p.End()
	same(t, "the rest", viewer.Rest(), join([][]byte{metadata(0, 1, 1), join(sc.tags)}))
}
