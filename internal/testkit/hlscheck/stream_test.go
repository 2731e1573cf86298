package hlscheck

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// A stream follows the rules: segments of four parts of 500 ms, starting with media sequence number
// 10.
type stream struct {
	parts  int          // number of parts so far
	window int          // number of segments
	breaks map[int]bool // segments after a discontinuity that have a new initialization section
	ended  bool         // after a complete segment
	within int          // number of complete segments that list parts; 0 means three, and -1 none
}

const (
	firstMSN   = 10
	perSegment = 4
	targetSecs = 2
	partSecs   = 0.5
	skipSecs   = 12
)

var epoch = time.Date(2026, 11, 24, 3, 0, 0, 0, time.UTC)

func partName(i int) string {
	return fmt.Sprintf("e-%d.%d.m4s", firstMSN+i/perSegment, i%perSegment)
}

func segmentName(msn int) string { return fmt.Sprintf("e-%d.m4s", msn) }

func (s *stream) inits(msn int) (n int) {
	for b := range s.breaks {
		if b <= msn {
			n++
		}
	}
	return n
}

// render returns the playlist, or a delta update of it.
func (s *stream) render(delta bool) string {
	var b strings.Builder
	open := firstMSN + s.parts/perSegment
	first := max(firstMSN, open-s.window)
	fmt.Fprintf(&b, "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:%d\n", targetSecs)
	fmt.Fprintf(&b,
		"#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=%g,CAN-SKIP-UNTIL=%d\n",
		3*partSecs, skipSecs)
	fmt.Fprintf(&b, "#EXT-X-PART-INF:PART-TARGET=%g\n", partSecs)
	fmt.Fprintf(&b, "#EXT-X-MEDIA-SEQUENCE:%d\n#EXT-X-DISCONTINUITY-SEQUENCE:%d\n", first,
		3+s.inits(first-1))
	from, within := first, 3
	if s.within != 0 {
		within = max(s.within, 0)
	}
	if skip := (open - first) - skipSecs/targetSecs; delta && skip > 0 {
		fmt.Fprintf(&b, "#EXT-X-SKIP:SKIPPED-SEGMENTS=%d\n", skip)
		from += skip
	}
	for msn := from; msn <= open; msn++ {
		n := perSegment
		if msn == open {
			n = s.parts % perSegment
		}
		if msn == open && n == 0 {
			break
		}
		if s.breaks[msn] {
			b.WriteString("#EXT-X-DISCONTINUITY\n")
		}
		if msn == first || s.breaks[msn] {
			fmt.Fprintf(&b, "#EXT-X-MAP:URI=\"e-i%d.mp4\"\n", s.inits(msn))
		}
		date := epoch.Add(time.Duration(msn-firstMSN) * targetSecs * time.Second)
		fmt.Fprintf(&b, "#EXT-X-PROGRAM-DATE-TIME:%s\n", date.Format("2006-01-02T15:04:05.000Z"))
		if msn >= open-within {
			for k := range n {
				i := (msn-firstMSN)*perSegment + k
				fmt.Fprintf(&b, "#EXT-X-PART:DURATION=%.3f,URI=\"%s\"", partSecs, partName(i))
				if k == 0 {
					b.WriteString(",INDEPENDENT=YES")
				}
				b.WriteString("\n")
			}
		}
		if msn < open {
			fmt.Fprintf(&b, "#EXTINF:%.5f,\n%s\n", float64(targetSecs), segmentName(msn))
		}
	}
	if s.ended {
		b.WriteString("#EXT-X-ENDLIST\n")
	} else {
		fmt.Fprintf(&b, "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"%s\"\n", partName(s.parts))
	}
	return b.String()
}

const multivariant = `#EXTM3U
#EXT-X-VERSION:9
#EXT-X-STREAM-INF:BANDWIDTH=2000000,AVERAGE-BANDWIDTH=1500000,CODECS="avc1.64001f,mp4a.40.2",RESOLUTION=1280x720,FRAME-RATE=25.000
media.m3u8
`

// mp4Box returns a box.
func mp4Box(typ string, body ...[]byte) []byte {
	b := append(make([]byte, 4), typ...)
	for _, p := range body {
		b = append(b, p...)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

func u32(v ...uint32) (b []byte) {
	for _, x := range v {
		b = binary.BigEndian.AppendUint32(b, x)
	}
	return b
}

// initBytes returns an initialization section with one track.
func initBytes(n int) []byte {
	return append(mp4Box("ftyp", []byte("iso6"), u32(uint32(n)), []byte("iso6")),
		mp4Box("moov", mp4Box("trak"), mp4Box("mvex", mp4Box("trex", u32(0, 1, 1, 0, 0, 0))))...)
}

// partBytes returns a part of two fragments.
func partBytes(i int) (b []byte) {
	for k := range 2 {
		traf := mp4Box("traf", mp4Box("tfhd", u32(0x020000, 1)),
			mp4Box("tfdt", u32(1<<24, 0, uint32(500*i+250*k))))
		b = append(b, mp4Box("moof", mp4Box("mfhd", u32(0, uint32(2*i+k))), traf)...)
		b = append(b, mp4Box("mdat", []byte(strings.Repeat(fmt.Sprintf("%d/%d ", i, k), 20)))...)
	}
	return b
}
