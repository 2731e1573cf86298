package load

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"
)

func TestMarkerSurvives(t *testing.T) {
	for _, m := range []marker{
		{}, {stream: 1, seq: 1, sent: 1}, {stream: 1999, seq: math.MaxUint32 + 7,
			sent: time.Now().UnixNano()},
		{stream: 1<<31 - 1, seq: 1<<63 - 1, sent: math.MaxInt64},
	} {
		head := make([]byte, HeadLen)
		m.put(head[audioMarkerAt:])
		got, ok := findMarker(Audio, head)
		if !ok || got != m {
			t.Errorf("got %+v, %t, want %+v", got, ok, m)
		}
		if bytes.IndexByte(head[audioMarkerAt:audioMarkerAt+markerLen], 0) >= 0 {
			t.Errorf("marker %+v has a zero byte", m)
		}
		if _, ok := findMarker(Video, head); ok {
			t.Error("found a marker where there is none")
		}
		if _, ok := findMarker(Audio, head[:markerLen]); ok {
			t.Error("found a marker that is cut off")
		}
	}
}

func TestSynthIsARealTimeStream(t *testing.T) {
	const rate, seconds, keyEvery = 2_150_000, 60, 2
	s := NewSynth(3, rate, keyEvery*time.Second)
	kinds := make(map[byte]int)
	var size, keys int
	last := time.Duration(-1)
	for n := uint64(1); s.Due() < seconds*time.Second; n++ {
		due := s.Due()
		if due < last {
			t.Fatalf("tag %d is due at %v, before the one at %v", n, due, last)
		}
		last = due
		tag := s.Next(time.Unix(0, int64(due)))
		m, ok := findMarker(tag.Kind, tag.Payload)
		if !ok || m != (marker{3, n, int64(due)}) {
			t.Fatalf("tag %d carries %+v, %t", n, m, ok)
		}
		if tag.Timestamp != uint32(due/time.Millisecond) {
			t.Fatalf("tag %d has the timestamp %d at %v", n, tag.Timestamp, due)
		}
		kinds[tag.Kind]++
		size += len(tag.Payload)
		if tag.Kind == Video {
			checkAccessUnit(t, tag.Payload)
			if tag.Payload[0] == 0x17 {
				keys++
			}
		}
	}
	if kinds[Video] != 30*seconds || kinds[Audio] != 2584 || keys != seconds/keyEvery {
		t.Errorf("in %d s: %v tags, %d keyframes", seconds, kinds, keys)
	}
	if got := float64(size) * 8 / seconds; got < rate*0.98 || got > rate*1.02 {
		t.Errorf("%.0f bits a second, want %d", got, rate)
	}
}

// checkAccessUnit checks the NAL units of a video frame.
func checkAccessUnit(t *testing.T, p []byte) {
	t.Helper()
	var types []byte
	for nal := p[5:]; len(nal) > 0; {
		n := int(binary.BigEndian.Uint32(nal))
		if n < 1 || len(nal) < 4+n {
			t.Fatalf("NAL unit of %d bytes in %d", n, len(nal))
		}
		types = append(types, nal[4]&31)
		if bytes.IndexByte(nal[4:4+n], 0) >= 0 {
			t.Fatal("a zero byte inside a NAL unit")
		}
		nal = nal[4+n:]
	}
	want := []byte{6, 1}
	if p[0] == 0x17 {
		want[1] = 5
	}
	if !bytes.Equal(types, want) {
		t.Fatalf("NAL units %v, want %v", types, want)
	}
}

// Verify detects a change of any byte of a payload, and a payload of another stream.
func TestVerify(t *testing.T) {
	made, want := NewSynth(2, 1_000_000, time.Second), NewSynth(2, 1_000_000, time.Second)
	at := time.Unix(1, 2)
	for n := uint64(1); n < 100; n++ {
		tag := made.Next(at)
		if seq, sent, err := want.Verify(tag.Kind, tag.Payload); seq != n || !sent.Equal(at) ||
			err != nil {
			t.Fatalf("tag %d: %d, %v, %v, want its number and time", n, seq, sent, err)
		}
		if _, _, err := NewSynth(3, 1_000_000, time.Second).Verify(tag.Kind,
			tag.Payload); err == nil {
			t.Fatal("a tag of another stream was not found out")
		}
		wrong := bytes.Clone(tag.Payload)
		wrong[len(wrong)-1-int(n)] ^= 1
		if _, _, err := want.Verify(tag.Kind, wrong); err == nil {
			t.Fatal("a wrong byte was not found out")
		}
		if _, _, err := want.Verify(tag.Kind, tag.Payload[:len(tag.Payload)-1]); err == nil {
			t.Fatal("a missing byte was not found out")
		}
	}
	for _, h := range made.Headers(1_000_000) {
		if seq, _, err := want.Verify(h.Kind, h.Payload); seq != 0 || err != nil {
			t.Errorf("header of kind %d: %d, %v", h.Kind, seq, err)
		}
	}
}
