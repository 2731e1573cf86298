package flvstream

import "testing"

// The keyframe interval is known after two keyframes. It follows an encoder that changes or varies
// it, and ignores a single odd timestamp and a single pause.
func TestKeyMeter(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   []uint32
		want int64
	}{
		{"none", nil, 0},
		{"one", []uint32{1000}, 0},
		{"two", []uint32{1000, 3000}, 2000},
		{"steady", []uint32{0, 2000, 4000, 6000, 8000}, 2000},
		{"round the 32 bits", []uint32{1<<32 - 3000, 1<<32 - 1000, 1000, 3000}, 2000},
		{"one is ahead", []uint32{0, 2000, 9000, 6000}, 2000},
		{"one is ahead, the second", []uint32{0, 9000, 4000, 6000}, 2000},
		{"one is ahead, now", []uint32{0, 2000, 4000, 6000, 30_000}, 2000},
		{"one is behind", []uint32{60_000, 62_000, 4000, 66_000, 68_000}, 2000},
		{"a pause", []uint32{0, 2000, 4000, 19_000}, 2000},
		{"a pause, and after it", []uint32{0, 2000, 4000, 19_000, 21_000}, 2000},
		{"an hour back", []uint32{3_600_000, 3_602_000, 0, 2000, 4000}, 2000},
		{"longer from now on", []uint32{0, 2000, 4000, 6000, 16_000, 26_000}, 10_000},
		{"shorter for a while", []uint32{0, 10_000, 20_000, 22_000, 24_000, 26_000, 28_000}, 2000},
		{"long and short", []uint32{0, 4000, 5000, 9000, 10_000, 14_000}, 4000},
		{"scenes between", []uint32{0, 500, 4000, 8000, 8300, 12_000}, 3700},
	} {
		var k KeyMeter
		for _, at := range tt.at {
			k.Note(at)
		}
		if got := k.Usual(); got != tt.want {
			t.Errorf("%s: %d ms, want %d", tt.name, got, tt.want)
		}
	}
	var k KeyMeter
	for i, tt := range []struct {
		at   uint32
		want int64
	}{{1000, 0}, {3000, 2000}, {4000, 2000}, {5000, 1000}, {4000, 1000}, {6000, 2000},
		{1<<32 - 500, 2000}} {
		k.Note(tt.at)
		if got := k.Longest(); got != tt.want {
			t.Errorf("keyframe %d: %d ms, want %d", i, got, tt.want)
		}
	}
}
