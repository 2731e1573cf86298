package soak

import (
	"bytes"
	"errors"
	"time"

	"github.com/millrace-io/millrace/bench/fmp4"
	"github.com/millrace-io/millrace/internal/load"
)

// An mp4View watches a stream as fragmented MP4, and compares every sample with the payload of its
// tag. It counts lost tags itself. Package load cannot count them, because samples do not arrive in
// the order of their tags.
type mp4View struct {
	view
	file    fmp4.Reader
	tracks  [load.Video + 1]mp4Track // by kind of tag
	first   uint64                   // lowest tag number so far
	samples uint64
}

type mp4Track struct {
	last uint64 // tag number of the last sample
	end  int64  // end time of the last sample
}

// heldBack is the maximum number of missing tags that does not count as a loss. A viewer may
// disconnect after a fragment of one track, and then misses the other track's fragment.
const heldBack = 100

// errBehind is the error of an MP4 viewer that the server has disconnected for being behind.
var errBehind = errors.New("disconnected by the server")

// Next implements load.Subscription. It reads a fragment, or a box of the file's header.
func (v *mp4View) Next(a *load.Arrival) error {
	kind, box, err := v.nextBox()
	if err == nil {
		*a = load.Arrival{Kind: load.Video, Size: len(box), Waited: true, At: time.Now()}
		switch kind {
		case "ftyp":
		case "moov":
			if err := v.file.Header(box[8:]); err != nil {
				return v.wrong("%v", err)
			}
		case "moof":
			err = v.readFragment(bytes.Clone(box))
		default:
			err = v.wrong("a box %q after tag %d", kind, v.last)
		}
	}
	if isCut(err) && v.ctx.Err() == nil && v.session.up.Err() == nil {
		v.session.cut.Add(1)
		return errBehind
	}
	return err
}

// Close implements load.Subscription. If more than heldBack tags are missing, Close adds their
// number to the session's counter lost.
func (v *mp4View) Close() error {
	if missing := v.last - v.first + 1 - v.samples; v.samples > 0 && missing > heldBack {
		v.session.lost.Add(int64(missing))
	}
	return v.Subscription.Close()
}

// nextBox reads the next box. The returned bytes include the size and the kind of the box. They are
// valid until the next call.
func (v *mp4View) nextBox() (kind string, box []byte, err error) {
	head, err := v.Peek(8)
	if err != nil {
		return "", nil, err
	}
	kind, size, err := fmp4.ParseHead(head)
	if err != nil {
		return "", nil, v.wrong("after tag %d: %v", v.last, err)
	}
	box, err = v.Read(size)
	return kind, box, err
}

// readFragment reads the mdat box that follows a moof box, and compares its samples with their
// tags.
func (v *mp4View) readFragment(moof []byte) error {
	kind, mdat, err := v.nextBox()
	if err != nil {
		return err
	}
	if kind != "mdat" {
		return v.wrong("a box %q where mdat is due, after tag %d", kind, v.last)
	}
	v.session.done.add(checked, int64(len(moof)+len(mdat)))
	err = v.file.Fragment(moof, mdat, v.checkSample)
	if bad := (*wrongError)(nil); err != nil && !errors.As(err, &bad) {
		return v.wrong("a fragment after tag %d: %v", v.last, err)
	}
	return err
}

// checkSample compares a sample with its tag, and checks that it begins after the previous sample
// of the track.
func (v *mp4View) checkSample(s fmp4.Sample) error {
	seq, err := v.verify(s.Kind, s.Payload)
	t := &v.tracks[s.Kind]
	switch {
	case err != nil:
		return err
	case seq <= t.last:
		return v.wrong("the sample of tag %d after that of tag %d", seq, t.last)
	case s.Start < t.end:
		return v.wrong("the sample of tag %d begins at %d, before the previous one is over at %d",
			seq, s.Start, t.end)
	case v.samples == 0:
		v.first = seq
	}
	v.first, v.last = min(v.first, seq), max(v.last, seq)
	v.samples++
	*t = mp4Track{last: seq, end: s.End}
	return nil
}
