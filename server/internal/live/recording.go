package live

import (
	"context"
	"io"
	"log/slog"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// record begins to record s, which must be FLV. A goroutine passes the fragments of s to the
// Recorder that Config.Record returns, until s ends or moves to another node. record does nothing
// if Config.Record returns nil, if s is already being recorded, or if another node owns s.
func (h *Hub) record(s *stream) {
	if h.cfg.Record == nil {
		return
	}
	h.mu.Lock()
	if s.stopRecord != nil || h.cfg.Cluster != nil && s.lease == nil {
		h.mu.Unlock()
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stopRecord = stop
	before, done := h.records[s.name], make(chan struct{})
	h.records[s.name] = done
	h.mu.Unlock()
	end := func() {
		stop()
		h.mu.Lock()
		if h.records[s.name] == done {
			delete(h.records, s.name)
		}
		h.mu.Unlock()
		close(done)
	}
	var to Recorder
	if before == nil {
		if to = h.cfg.Record(s.name); to == nil {
			end()
			return
		}
	}
	r := s.forms.Fragments() // created here, so that r includes the first frame
	h.recording.Go(func() {
		defer end()
		defer r.Release()
		if before != nil { // an earlier stream of that name is still being recorded
			<-before
			if to = h.cfg.Record(s.name); to == nil {
				return
			}
		}
		defer to.Close()
		recordTo(ctx, to, r, s.log)
	})
}

func recordTo(ctx context.Context, to Recorder, r *rendition.FragmentReader, log *slog.Logger) {
	for {
		var c millrace.Chain
		f, err := r.Next(ctx, &c)
		if err != nil {
			if err != io.EOF && ctx.Err() == nil {
				log.Warn("recording ended", "reason", Explain(err))
			}
			return
		}
		if f.NewInit {
			var init millrace.Chain
			r.AppendInit(&init)
			to.Init(&init)
		}
		f.Key = f.Key || f.Early // so that a recording has the audio that precedes the first slide
		to.Add(f.FragmentInfo, &c)
	}
}
