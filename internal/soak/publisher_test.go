package soak

import (
	"fmt"
	"testing"
)

// A server has got all that was sent, no more, and only if the stream has ended.
func TestSummary(t *testing.T) {
	const streams = 2
	heads := int64(len(filmHeads()))
	for _, test := range []struct {
		stream        int // the last is plain
		ended         bool
		frames, bytes int64
		ok            bool
	}{
		{0, true, 100 + heads, 5000, true},
		{0, true, 100 + heads - 1, 5000, false},
		{0, true, 100 + heads + 1, 5000, false},
		{0, false, heads, 5000, false},
		{1, true, 7, 100, true},
		{1, true, 7, 99, false},
		{1, true, 7, 101, false},
		{1, false, 7, 0, false},
	} {
		s := &shift{server: &server{tally: &tally{}}}
		st := newStream(test.stream, streams, minRate)
		c := &camera{stream: st, show: st.begin(9)}
		if test.ended {
			st.end(c.show, 100)
		}
		err := s.checkSummary(c, fmt.Appendf(nil, `{"frames":%d,"bytes":%d}`, test.frames, test.bytes))
		if (err == nil) != test.ok || err != nil && !isWrong(err) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
