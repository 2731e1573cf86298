package rtmp

import (
	"bytes"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

// A tagMaker makes FLV tags from a publisher's messages. It does not copy their bodies.
type tagMaker struct {
	enc       flv.Encoder
	body, tag millrace.Chain // both are empty between two messages
	begun     bool
}

func (r *tagMaker) release() {
	r.enc.Release()
	r.body.Release()
	r.tag.Release()
}

// setDataFrame is the encoded name "@setDataFrame". Encoders send this name before metadata, to ask
// the server to keep the metadata.
var setDataFrame = rtmp.AppendAMF(nil, "@setDataFrame")

// publish publishes the message m with the body r.body. It drops messages that viewers cannot use.
func (r *tagMaker) publish(p *live.Publisher, m rtmp.Message) error {
	if r.body.Len() == 0 {
		return nil
	}
	if m.Type == rtmp.TypeData {
		var head [len("\x02\x00\x0d@setDataFrame")]byte
		if n := r.body.CopyTo(head[:]); bytes.Equal(head[:n], setDataFrame) {
			r.body.Discard(n)
		}
		if r.body.Len() == 0 || r.body.CopyTo(head[:1]) == 0 || head[0] != setDataFrame[0] {
			r.body.Release() // no event name; some encoders send time codes like this
			return nil
		}
	}
	t, err := r.enc.Append(&r.tag, flv.Type(m.Type), m.Timestamp, &r.body)
	if err != nil {
		return err
	}
	if t.SequenceHeader && t.Payload+4 == t.Len() { // an empty sequence header
		r.tag.Release()
		return nil
	}
	if !r.begun {
		r.begun = true
		p.Begin(announcedTracks(t, &r.tag))
	}
	return p.WriteTag(t, &r.tag)
}

// announcedTracks returns the tracks that a publisher's first tag announces. It borrows tag.
func announcedTracks(t flv.Tag, tag *millrace.Chain) flv.Header {
	h := flv.Header{HasAudio: true, HasVideo: true}
	if t.Metadata && t.Len() <= flvstream.MaxPart {
		text := tag.Bytes()
		audio, video := bytes.Contains(text, []byte("audiocodecid")),
			bytes.Contains(text, []byte("videocodecid"))
		if audio != video {
			h = flv.Header{HasAudio: audio, HasVideo: video}
		}
	}
	return h
}
