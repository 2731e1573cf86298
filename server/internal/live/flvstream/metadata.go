package flvstream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// trackNames lists the values in onMetaData that announce tracks. They must be correct, because
// players in browsers wait for every announced track.
var trackNames = [...]struct {
	name string // as in AMF0: the length, the name, and the type code of a boolean
	flag uint32
}{
	{"\x00\x08hasVideo\x01", VideoFlag},
	{"\x00\x08hasAudio\x01", AudioFlag},
}

// maxMetadata limits the metadata that StateTracks corrects, in bytes, because each viewer gets a
// copy. Usually, metadata is smaller than 1 KiB.
const maxMetadata = 16 << 10

// StateTracks corrects hasVideo and hasAudio in an onMetaData tag. flags contains VideoFlag if
// there is video, and AudioFlag if there is audio. If a value changes, StateTracks replaces the
// content of tag with a copy from the pool p.
func StateTracks(p *millrace.Pool, tag *millrace.Chain, flags uint32) {
	if tag.Len() > maxMetadata {
		return
	}
	for _, n := range trackNames {
		text := tag.Bytes()
		at := bytes.Index(text, []byte(n.name)) + len(n.name)
		want := byte(0)
		if flags&n.flag != 0 {
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

// maxFirstTags is the maximum number of tags that StateAll searches for metadata. Publishers send
// metadata first, or together with the sequence headers.
const maxFirstTags = 16

// StateAll calls StateTracks for each metadata tag among the first tags of a batch. The first tag
// begins at offset, in bytes from the start of the batch. All tags must be complete.
func StateAll(p *millrace.Pool, batch *millrace.Chain, offset int, flags uint32) {
	var done millrace.Chain
	batch.CutTo(&done, offset)
	for i := 0; i < maxFirstTags && batch.Len() > 0; i++ {
		const head = 11
		var h [head]byte
		batch.CopyTo(h[:])
		var tag millrace.Chain
		batch.CutTo(&tag, min(batch.Len(), head+int(h[1])<<16+int(h[2])<<8+int(h[3])+4))
		if flv.Type(h[0]) == flv.TypeScript {
			StateTracks(p, &tag, flags)
		}
		done.Merge(&tag)
	}
	done.Merge(batch)
	batch.Merge(&done)
}

// setDataFrame precedes metadata in a message from a publisher, as an AMF0 string.
const setDataFrame = "\x02\x00\x0d@setDataFrame"

// MarkMetadata inserts setDataFrame in each metadata message among the first RTMP messages of a
// batch, because some servers ignore the metadata of a publisher without it. The first message
// begins at offset, in bytes from the start of the batch. All messages must be complete, with complete
// headers. After a message with more than one chunk, of maxChunk bytes, MarkMetadata changes nothing.
func MarkMetadata(batch *millrace.Chain, offset, maxChunk int) {
	const head = 12
	var done millrace.Chain
	batch.CutTo(&done, offset)
	for i := 0; i < maxFirstTags && batch.Len() >= head; i++ {
		var h [head]byte
		batch.CopyTo(h[:])
		size, more := int(h[4])<<16|int(h[5])<<8|int(h[6]), 0
		if h[1]&h[2]&h[3] == 0xff { // an extended timestamp follows
			more = 4
		}
		if size > maxChunk {
			break
		}
		if flv.Type(h[7]) == flv.TypeScript && size+len(setDataFrame) <= min(maxMetadata, maxChunk) {
			batch.Discard(head)
			marked := size + len(setDataFrame)
			h[4], h[5], h[6] = byte(marked>>16), byte(marked>>8), byte(marked)
			done.AppendCopy(h[:])
			batch.CutTo(&done, more)
			done.AppendCopy([]byte(setDataFrame))
			batch.CutTo(&done, size)
			continue
		}
		batch.CutTo(&done, min(batch.Len(), head+more+size))
	}
	done.Merge(batch)
	batch.Merge(&done)
}

// PictureSize returns the width and height in an onMetaData tag, for example 640x360, or "" if the
// tag does not contain both. It borrows tag.
func PictureSize(tag []byte) string {
	number := func(name string) (int, bool) {
		_, after, ok := bytes.Cut(tag, []byte(name))
		if !ok || len(after) < 8 {
			return 0, false
		}
		v := math.Float64frombits(binary.BigEndian.Uint64(after))
		return int(v), v >= 1 && v <= 1<<16
	}
	width, ok := number("\x00\x05width\x00")
	height, too := number("\x00\x06height\x00")
	if !ok || !too {
		return ""
	}
	return fmt.Sprintf("%dx%d", width, height)
}
