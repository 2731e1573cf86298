package relay

import (
	"context"
	"io"
	"log/slog"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/mp4"
)

// A Recorder keeps what a stream consists of. Its methods never wait, and are called by one goroutine.
type Recorder interface {
	Init(body *millrace.Chain)                    // the init segment of the fragments that come; takes ownership of body
	Add(f mp4.FragmentInfo, body *millrace.Chain) // takes ownership of body
	Close()                                       // the stream has ended
}

// AwaitRecorders waits until no publisher is there any more and what they sent has been given to the recorders, all of
// which are closed. It is for the time after Close.
func (h *Hub) AwaitRecorders() {
	h.publishers.Wait()
	h.recording.Wait()
}

// record gives the fragments of s, which is FLV, to what Config.Record returns for it, if that is anything, until s ends
// or is lost to another node. It does nothing if that was begun before.
func (s *stream) record() {
	h := s.hub
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
	r := fragmentReader{stream: s}
	r.begin() // before the first frame is published
	h.recording.Go(func() {
		defer end()
		defer r.Release()
		if before != nil { // of a stream of the same name, which has ended
			<-before
			if to = h.cfg.Record(s.name); to == nil {
				return
			}
		}
		defer to.Close()
		recordTo(ctx, to, &r, s.log)
	})
}

// recordTo gives what r reads to a Recorder until the stream ends or ctx does.
func recordTo(ctx context.Context, to Recorder, r *fragmentReader, log *slog.Logger) {
	for {
		var c millrace.Chain
		f, err := r.Next(ctx, &c)
		if err != nil {
			if err != io.EOF && ctx.Err() == nil {
				log.Warn("recording ended", "reason", explain(err))
			}
			return
		}
		if f.NewInit {
			var init millrace.Chain
			r.AppendInit(&init)
			to.Init(&init)
		}
		f.Key = f.Key || f.Early // so that a recording has the audio before the first slide leaves
		to.Add(f.FragmentInfo, &c)
	}
}
