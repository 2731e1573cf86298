package flvstream

import (
	"testing"

	"github.com/millrace-io/millrace/media/flv"
)

// The memory for tracks other than the default ones is limited, and kept tags can be replaced.
func TestTrackPartsAreBounded(t *testing.T) {
	in := &Preamble{}
	keep := func(track byte, size int) bool {
		tag := flv.Tag{Type: flv.TypeVideo, Packet: flv.PacketSequenceHeader, SequenceHeader: true,
			Track: track, Size: size}
		part := in.Part(tag)
		if part == nil {
			return false
		}
		part.Release()
		part.AppendCopy(make([]byte, tag.Len()))
		return true
	}
	defer in.Release()
	for n := range byte(maxTrackParts) {
		if !keep(n+1, 100) {
			t.Fatalf("track %d of %d is not kept", n+1, maxTrackParts)
		}
	}
	if keep(maxTrackParts+1, 100) {
		t.Errorf("more than %d are kept", maxTrackParts)
	}
	const least = (100 + 15) * (maxTrackParts - 1) // of the other tracks
	if !keep(1, MaxPart-least-15) || !keep(1, 50) || !keep(1, MaxPart-least-15) {
		t.Error("as much as fits is not kept")
	}
	if keep(2, 101) || keep(1, MaxPart-least-14) {
		t.Error("more than fits is kept")
	}
	if !keep(0, 1000) {
		t.Error("the default track's is not kept")
	}
}
