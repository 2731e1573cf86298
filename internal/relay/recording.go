package relay

import (
	"context"
	"io"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/mp4"
)

// A Recorder keeps what a stream consists of. Its methods never wait, and are called by one goroutine.
type Recorder interface {
	Init(body *millrace.Chain)                    // the init segment of the fragments that come; takes ownership of body
	Add(f mp4.FragmentInfo, body *millrace.Chain) // takes ownership of body
	Close()                                       // the stream has ended
}

// record gives the fragments of s to what Config.Record returns for it, if that is anything, until s ends.
func (s *stream) record() {
	if s.hub.cfg.Record == nil || s.live.format != formatFLV {
		return
	}
	to := s.hub.cfg.Record(s.name)
	if to == nil {
		return
	}
	r := fragmentReader{stream: s}
	r.begin() // before the first frame is published
	s.hub.recording.Go(func() {
		defer to.Close()
		defer r.release()
		for {
			var c millrace.Chain
			f, err := r.next(context.Background(), &c)
			if err != nil {
				if err != io.EOF {
					s.log.Warn("recording ended", "reason", explain(err))
				}
				return
			}
			if f.newInit {
				var init millrace.Chain
				r.init.Clone(&init)
				to.Init(&init)
			}
			to.Add(f.FragmentInfo, &c)
		}
	})
}
