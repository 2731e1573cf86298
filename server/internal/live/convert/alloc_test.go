//go:build !race && !invariants

package convert

import (
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/media/flv"
)

// In steady state a tag costs no allocation when it is converted to an RTMP message.
func TestRTMPAllocatesNothing(t *testing.T) {
	s := newTestStream(t)
	out := broadcast.New(broadcast.MaxFrames(64))
	defer out.Close()
	view := out.Cursor()
	defer view.Close()
	c := RTMP(s.source(), &testReport{}, out)
	defer c.source.Cursor.Close()
	defer c.maker.release()
	var taken millrace.Chain
	convert := func(body []byte) {
		tag := s.tag(&c.tag, flv.TypeVideo, body)
		err := c.maker.write(tag, &c.tag, false)
		if err == nil {
			_, err = view.Take(&taken)
		}
		if err != nil {
			t.Fatal(err)
		}
		taken.Release()
		s.now += 40
	}
	convert(avcHeader)
	group := func() {
		for range 200 {
			convert(keyframe)
			for range 24 {
				convert(video)
			}
		}
	}
	group() // until all buffers have their size
	if allocs := alloctest.Count(0, group); allocs != 0 {
		t.Errorf("%v allocations in 5000 tags, want 0", allocs)
	}
}
