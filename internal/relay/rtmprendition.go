package relay

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/frame/rtmp"
	"github.com/millrace-io/millrace/internal/relay/flvstream"
)

// An rtmpRendition makes RTMP messages: a header of twelve bytes with the time as it is, and the body by reference, in one
// chunk. All viewers get the same ones.
type rtmpRendition struct {
	*conversion
	enc      rtmp.Encoder
	body     millrace.Chain // of the tag at hand; empty between tags
	message  millrace.Chain // made of it; the same
	starts   flvstream.StartFinder
	preamble flvstream.Preamble
	tracks   int32 // stream.trackSet when the preamble was set last
}

// newRTMPMaker returns what makes RTMP. s.mu is held.
func (s *stream) newRTMPMaker(c *conversion) maker {
	m := &rtmpRendition{conversion: c, tracks: s.trackSet.Load()}
	m.starts.Gap.Open = s.noVideo.Load() // then the cursor is at a piece of sound
	var announced millrace.Chain
	m.enc.SetChunkSize(&announced, s.hub.rtmpChunk())
	announced.Release() // each viewer has been told so by its connection
	return m
}

// rtmpChunk is the size of the chunks that RTMP clients are told to expect: no tag is longer.
func (h *Hub) rtmpChunk() int { return min(h.cfg.MaxTagBytes, flv.MaxData) }

// write makes a message of t.
func (m *rtmpRendition) write(t flv.Tag, tag *millrace.Chain, _ bool) error {
	tag.Discard(t.Len() - t.Size - 4) // the tag's header
	tag.Cut(&m.body, t.Size)
	tag.Release()
	chunks := rtmp.DataChunks
	switch t.Type {
	case flv.TypeAudio:
		chunks = rtmp.AudioChunks
	case flv.TypeVideo:
		chunks = rtmp.VideoChunks
	}
	head := rtmp.Message{Type: rtmp.Type(t.Type), ChunkStream: chunks, Stream: rtmp.Stream, Timestamp: t.Timestamp}
	if err := m.enc.Append(&m.message, head, &m.body); err != nil {
		return err
	}
	m.starts.Note(t)
	if s := m.live.stream; m.tracks != s.trackSet.Load() {
		m.tracks = s.trackSet.Load()
		m.starts.Video = s.tracks.Load()&flvstream.VideoFlag != 0
		m.preamble.Without.Video, m.preamble.Without.Audio = !m.starts.Video, s.tracks.Load()&flvstream.AudioFlag == 0
		var all millrace.Chain
		m.preamble.Clone(&all)
		m.out.ring.SetPreamble(&all)
	}
	start := m.starts.IsStart(t, m.out.startIsKept)
	if part := m.preamble.Part(t); part != nil {
		flvstream.Keep(m.live.stream.memory, part, &m.message)
		var all millrace.Chain
		m.preamble.Clone(&all)
		defer m.out.ring.SetPreamble(&all)
	}
	return m.publish(&m.message, broadcast.Frame{Key: start})
}

// finish has nothing to publish: no message waits.
func (m *rtmpRendition) finish() error { return nil }

func (m *rtmpRendition) release() {
	m.enc.Release()
	m.body.Release()
	m.message.Release()
	m.preamble.Release()
}
