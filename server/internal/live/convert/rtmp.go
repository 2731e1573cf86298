package convert

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// An rtmpMaker makes RTMP messages. A message is one chunk: a header of twelve bytes with an
// absolute timestamp, and a reference to the tag's body. All viewers get the same messages.
type rtmpMaker struct {
	*Conversion
	enc      rtmp.Encoder
	body     millrace.Chain // body of the current tag; empty between tags
	message  millrace.Chain // message with that body; empty between tags
	starts   flvstream.StartFinder
	preamble flvstream.Preamble
	tracks   int32 // Facts.TrackSet when the preamble was set last
}

// RTMP returns a Conversion that converts a stream to RTMP messages, and publishes the messages to
// the ring out.
//
// The chunk size is source.MaxTag, or rtmp.MaxAnnounced if that is less. If source.MaxTag is also
// the maximum message size of an [rtmp.ServerConn], the ServerConn announces the same chunk size,
// and can send the chunks unchanged.
func RTMP(source Source, report Reporter, out *broadcast.Ring) *Conversion {
	m := &rtmpMaker{Conversion: newConversion(source, report, out),
		tracks: source.Facts.TrackSet.Load()}
	m.maker = m
	m.starts.Gap.Open = source.Facts.NoVideo.Load() // without video, the cursor is at audio
	var announced millrace.Chain
	m.enc.SetChunkSize(&announced, min(source.MaxTag, rtmp.MaxAnnounced))
	announced.Release() // each viewer's connection announces the chunk size itself
	return m.Conversion
}

func (m *rtmpMaker) write(t flv.Tag, tag *millrace.Chain, _ bool) error {
	tag.Discard(t.Len() - t.Size - 4) // remove the tag's header
	tag.CutTo(&m.body, t.Size)
	tag.Release()
	chunks := rtmp.DataChunks
	switch t.Type {
	case flv.TypeAudio:
		chunks = rtmp.AudioChunks
	case flv.TypeVideo:
		chunks = rtmp.VideoChunks
	}
	head := rtmp.Message{Type: rtmp.Type(t.Type), ChunkStream: chunks, Stream: rtmp.Stream,
		Timestamp: t.Timestamp}
	if err := m.enc.Append(&m.message, head, &m.body); err != nil {
		return err
	}
	m.starts.Note(t)
	if f := m.source.Facts; m.tracks != f.TrackSet.Load() {
		m.tracks = f.TrackSet.Load()
		m.starts.Video = f.Tracks.Load()&flvstream.VideoFlag != 0
		m.preamble.Without.Video, m.preamble.Without.Audio = !m.starts.Video,
			f.Tracks.Load()&flvstream.AudioFlag == 0
		var all millrace.Chain
		m.preamble.CloneTo(&all)
		m.out.SetPreamble(&all)
	}
	start := m.starts.IsStart(t, m.startIsKept)
	if part := m.preamble.Part(t); part != nil {
		flvstream.Keep(m.source.Memory, part, &m.message)
		var all millrace.Chain
		m.preamble.CloneTo(&all)
		defer m.out.SetPreamble(&all)
	}
	return m.publish(&m.message, broadcast.Frame{Key: start})
}

// finish does nothing, because write holds no messages back.
func (m *rtmpMaker) finish() error { return nil }

func (m *rtmpMaker) release() {
	m.enc.Release()
	m.body.Release()
	m.message.Release()
	m.preamble.Release()
}
