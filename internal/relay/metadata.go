package relay

import (
	"bytes"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// trackNames are the booleans of onMetaData that say which tracks a stream has. Browsers' players
// wait for a track that one of them announces.
var trackNames = [...]struct {
	name string // as AMF0 has it: the length, the name, the type of a boolean
	flag uint32
}{
	{"\x00\x08hasVideo\x01", flvVideo},
	{"\x00\x08hasAudio\x01", flvAudio},
}

// maxMetadata bounds the metadata that are corrected, which is done for each viewer. They have
// hundreds of bytes.
const maxMetadata = 16 << 10

// stateTracks corrects hasVideo and hasAudio in an onMetaData tag if they contradict tracks, which
// are the flags of an FLV header. tag is then a copy in a block of p.
func stateTracks(p *millrace.Pool, tag *millrace.Chain, tracks uint32) {
	if tag.Len() > maxMetadata {
		return
	}
	for _, n := range trackNames {
		text := tag.Bytes()
		at := bytes.Index(text, []byte(n.name)) + len(n.name)
		want := byte(0)
		if tracks&n.flag != 0 {
			want = 1
		}
		if at < len(n.name) || at >= len(text) || text[at] == want {
			continue
		}
		d := p.Get(len(text))
		copy(d.Bytes(), text)
		d.Bytes()[at] = want
		r := d.Freeze(len(text))
		tag.Release()
		tag.Append(&r)
	}
}

// maxFirstTags bounds the tags in front of a viewer's first frames among which its metadata are:
// the publisher sends them first, or with the sequence headers.
const maxFirstTags = 16

// stateTracks corrects the metadata of what a viewer of FLV begins with, as its header is
// corrected. batch has whole tags from the given offset on.
func (v *viewer) stateTracks(batch *millrace.Chain, from int) {
	s := v.rendition.stream
	tracks := s.tracks.Load()
	if tracks == 0 || v.node != "" { // another node does so for its own viewers
		return
	}
	var done millrace.Chain
	batch.Cut(&done, from)
	for i := 0; i < maxFirstTags && batch.Len() > 0; i++ {
		const head = 11
		var h [head]byte
		batch.CopyTo(h[:])
		var tag millrace.Chain
		batch.Cut(&tag, min(batch.Len(), head+int(h[1])<<16+int(h[2])<<8+int(h[3])+4))
		if flv.Type(h[0]) == flv.TypeScript {
			stateTracks(s.memory, &tag, tracks)
		}
		done.Merge(&tag)
	}
	done.Merge(batch)
	batch.Merge(&done)
}
