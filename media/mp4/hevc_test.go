package mp4_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/media/mp4"
)

// The sample entry hvc1 contains all parameter sets, in complete arrays ordered by type. Otherwise
// the entry is hev1.
func TestHEVCRecords(t *testing.T) {
	head := hevc322x182[:22]
	unit := func(kind string) string {
		at := strings.Index(hevc322x182[23:], kind+"\x00\x01") + 23 + 3
		n := int(hevc322x182[at])<<8 | int(hevc322x182[at+1])
		return hevc322x182[at : at+2+n]
	}
	vps, sps, pps := unit("\x20"), unit("\x21"), unit("\x22")
	sei, suffix := "\x00\x03\x4e\x01\x05", "\x00\x03\x50\x01\x06"
	array := func(kind byte, units ...string) string {
		return string([]byte{kind, 0, byte(len(units))}) + strings.Join(units, "")
	}
	record := func(arrays ...string) string {
		return head + string(rune(len(arrays))) + strings.Join(arrays, "")
	}
	whole := record(array(0xa0, vps), array(0xa1, sps), array(0xa2, pps))
	for _, tt := range []struct {
		name, in, entry, want string
	}{
		{"complete", whole, "hvc1", whole},
		{"none is marked as complete", record(array(0x20, vps), array(0x21, sps), array(0x22, pps)),
			"hvc1", whole},
		{"one is not", record(array(0xa0, vps), array(0x21, sps), array(0xa2, pps)), "hvc1", whole},
		{"out of order", record(array(0xa2, pps), array(0xa0, vps), array(0xa1, sps)), "hvc1",
			whole},
		{"the reserved bit is set", record(array(0x60, vps), array(0xe1, sps), array(0x62, pps)),
			"hvc1", whole},
		{"messages", record(array(0x28, suffix), array(0x27, sei), array(0x20, vps),
			array(0x21, sps), array(0x22, pps)), "hvc1",
			record(array(0xa0, vps), array(0xa1, sps), array(0xa2, pps), array(0xa7, sei),
				array(0xa8, suffix))},
		{"two arrays of a type", record(array(0x20, vps), array(0x21, sps), array(0x22, pps),
			array(0x22, pps)), "hvc1",
			record(array(0xa0, vps), array(0xa1, sps), array(0xa2, pps, pps))},
		{"empty arrays and units", record(array(0x20), array(0x20, vps, "\x00\x00"),
			array(0x21, sps), array(0x22, pps)), "hvc1", whole},
		{"arrays that do not belong there", record(array(0x23, sei), array(0x20, vps),
			array(0x21, sps), array(0x22, pps)), "hvc1", whole},
		{"no video parameter set", record(array(0xa1, sps), array(0xa2, pps)), "hev1",
			record(array(0x21, sps), array(0x22, pps))},
		{"no picture parameter set", record(array(0xa1, sps), array(0xa0, vps)), "hev1",
			record(array(0x20, vps), array(0x21, sps))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.tag(video, 0, "\x90hvc1"+tt.in)
			r.play("hvc1:K")
			r.flush()
			track := readInit(r.init())[0]
			if track.entry != tt.entry || track.record != tt.want {
				t.Errorf("%s with\n%x, want %s with\n%x", track.entry, track.record, tt.entry,
					tt.want)
			}
			movie, err := mp4.ReadMovie(r.init())
			if want := fmt.Sprint(tt.entry, ".1.6.L60.90"); err != nil || movie.Codecs != want {
				t.Errorf("codecs %s, want %s: %v", movie.Codecs, want, err)
			}
		})
	}
}
