package live_test

import (
	"bytes"
	"encoding/hex"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/media/flv"
)

// hvcC is the sequence header of a 322x182 video by x265: ffmpeg -f lavfi -i testsrc=size=322x182
// -c:v libx265 -tag:v hvc1 x.mp4 writes it to its hvcC box. (ffmpeg 5 cannot write it to FLV.)
const hvcC = "0101600000009000000000003cf000fcfdf8f800000f03200001001840010c01ffff01600000030090000003000003003c95" +
	"9809210001002a42010101600000030090000003000003003ca00a480b9c9596566924caf0168080000003008000000c8422" +
	"000100074401c172b46240"

// Codecs identified by FourCC, and the unofficial number 12 for H.265, reach viewers unchanged, and
// are in MP4 if it supports them.
func TestRTMPEnhanced(t *testing.T) {
	record, err := hex.DecodeString(hvcC)
	if err != nil {
		t.Fatal(err)
	}
	video := func(at uint32, data string) []byte { return flvTag(flv.TypeVideo, at, []byte(data)) }
	sound := func(at uint32, data string) []byte { return flvTag(flv.TypeAudio, at, []byte(data)) }
	for name, tags := range map[string][][]byte{
		"hvc1": {
			video(0, "\x90hvc1"+string(record)), sound(0, "\x90Opushead"),
			video(0, "\x91hvc1\x00\x00\x28"+unitOf("key")), sound(20, "\x91Opussound"),
			video(40, "\xa3hvc1"+unitOf("delta")), video(80, "\xa3hvc1"+unitOf("delta")),
		},
		"classic-12": {
			video(0, "\x1c\x00\x00\x00\x00"+string(record)),
			video(0, "\x1c\x01\x00\x00\x28"+unitOf("key")),
			video(40, "\x2c\x01\xff\xff\xd8"+unitOf("delta")),
			video(80, "\x2c\x01\x00\x00\x00"+unitOf("delta")),
		},
		"av01": {video(0, "\x90av01head"), video(0, "\x91av01key"), video(40, "\xa1av01delta")},
	} {
		f := serveRTMP(t, nil)
		var watching sync.WaitGroup
		var byRTMP [][]byte
		var byMP4 []byte
		viewers := 1
		watching.Go(func() {
			byRTMP, _ = f.playRTMP(name, 0).Rest()
		})
		if name != "av01" {
			viewers++
			watching.Go(func() { byMP4 = f.Watcher("/live/"+name+".mp4", 0).Rest() })
		}
		f.waiting(name, viewers)
		p := f.publishRTMP(name, 4096)
		_ = p.SendTags(tags...)
		unpublish(t, p)
		watching.Wait()
		wantTags(t, name, byRTMP, tags)
		// The arrays of parameter sets follow 23 bytes. MP4 marks them as complete.
		if name != "av01" && (!bytes.Contains(byMP4, append([]byte("hvcC"), record[:23]...)) ||
			!bytes.Contains(byMP4, []byte("key"))) {
			t.Errorf("%s: the MP4 of %d bytes has not the codec's record, or no picture", name,
				len(byMP4))
		}
	}
}
