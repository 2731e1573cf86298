package convert

import (
	"errors"
	"io"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// ErrNoPicture means that a stream has no keyframe that MP4 can contain.
var ErrNoPicture = errors.New("no keyframe of H.264 or H.265")

// Poster appends an MP4 file with the first video frame at source.Cursor to dst, which then owns
// the file. The cursor must be at a keyframe, with batches of one frame. Poster closes the cursor,
// and does not wait for frames.
func Poster(source Source, dst *millrace.Chain) error {
	defer source.Cursor.Close()
	var tags, tag, frame millrace.Chain
	defer tag.Release()
	defer frame.Release()
	tags.AppendCopy(source.Head)
	_, end := source.Cursor.Take(&tags)
	if end != nil && end != io.EOF {
		tags.Release()
		return end
	}
	r := millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		if tags.Len() == 0 {
			return io.EOF
		}
		dst.Merge(&tags)
		return nil
	})
	defer r.Release()
	m := mp4.NewMuxer(mp4.Tracks(true, false))
	defer m.Release()
	dec := flv.NewDecoder(r, flv.MaxTag(source.MaxTag))
	for {
		t, err := dec.Next(&tag)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if t.Type == flv.TypeVideo {
			_, _ = m.WriteTag(&frame, t, &tag) // what is not in the file leaves it empty
		}
		tag.Release()
	}
	if m.Flush(&frame).Samples == 0 {
		return ErrNoPicture
	}
	if err := m.AppendInit(dst); err != nil {
		return err
	}
	dst.Merge(&frame)
	return nil
}
