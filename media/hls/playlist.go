package hls

import "strconv"

// AppendPlaylist appends the media playlist to dst. Before the first call to [Window.Init], the
// playlist has no PRELOAD-HINT.
//
// If skip is set, AppendPlaylist appends a delta update: one EXT-X-SKIP replaces the segments that
// end more than six times Config.Target before the end of the newest segment. After [Window.End],
// AppendPlaylist ignores skip.
func (w *Window) AppendPlaylist(dst []byte, skip bool) []byte {
	listed := w.segs[w.listed:]
	first := w.open
	if len(listed) > 0 {
		first = listed[0]
	}
	dst = append(dst, "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:"...)
	dst = strconv.AppendInt(dst, w.target()/1000, 10)
	dst = append(dst, "\n#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK="...)
	dst = appendSeconds(dst, 3*w.part)
	dst = append(dst, ",CAN-SKIP-UNTIL="...)
	dst = appendSeconds(dst, 6*w.target())
	dst = append(dst, "\n#EXT-X-PART-INF:PART-TARGET="...)
	dst = appendSeconds(dst, w.part)
	dst = append(dst, "\n#EXT-X-MEDIA-SEQUENCE:"...)
	dst = strconv.AppendUint(dst, first.msn, 10)
	dst = append(dst, "\n#EXT-X-DISCONTINUITY-SEQUENCE:"...)
	dst = strconv.AppendUint(dst, w.firstDiscontinuity(first), 10)
	dst = append(dst, '\n')

	after := w.listedFor() // time from the end of s to the end of the last segment, in ms
	skipped := 0
	for i, s := range listed {
		after -= s.extinf()
		if skip && !w.ended && i == skipped && after > 6*w.target() {
			skipped++
			continue
		}
		if i == skipped && i > 0 {
			dst = append(dst, "#EXT-X-SKIP:SKIPPED-SEGMENTS="...)
			dst = strconv.AppendInt(dst, int64(i), 10)
			dst = append(dst, '\n')
		}
		dst = w.appendHead(dst, s, i == 0 || !s.sharesInit(listed[i-1]))
		if after+w.open.partStart < 3*w.target() {
			dst = w.appendParts(dst, s)
		}
		if s.gap {
			dst = append(dst, "#EXT-X-GAP\n"...)
		}
		dst = append(dst, "#EXTINF:"...)
		dst = appendSeconds(dst, s.extinf())
		dst = append(dst, ",\n"...)
		dst = Object{KindSegment, s.epoch, s.msn, 0}.appendName(dst)
		dst = append(dst, '\n')
	}
	if s := w.open; len(s.parts) > 0 {
		dst = w.appendHead(dst, s, len(listed) == 0 || !s.sharesInit(listed[len(listed)-1]))
		dst = w.appendParts(dst, s)
	}
	switch {
	case w.ended:
		return append(dst, "#EXT-X-ENDLIST\n"...)
	case len(w.inits) == 0:
		return dst
	}
	dst = append(dst, "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\""...)
	dst = Object{KindPart, w.config.Epoch, w.open.msn, len(w.open.parts)}.appendName(dst)
	return append(dst, "\"\n"...)
}

// firstDiscontinuity returns the EXT-X-DISCONTINUITY-SEQUENCE for a playlist that begins with the
// segment s. The number does not include a DISCONTINUITY directly before s.
func (w *Window) firstDiscontinuity(s *segment) uint64 {
	switch {
	case s == w.open && s.empty():
		return w.discontinuity
	case s.discontinuity:
		return s.number - 1
	}
	return s.number
}

func (s *segment) sharesInit(before *segment) bool {
	return s.epoch == before.epoch && s.init == before.init
}

func (w *Window) appendHead(dst []byte, s *segment, newMap bool) []byte {
	if s.discontinuity {
		dst = append(dst, "#EXT-X-DISCONTINUITY\n"...)
	}
	if newMap {
		dst = append(dst, "#EXT-X-MAP:URI=\""...)
		dst = Object{KindInit, s.epoch, s.init, 0}.appendName(dst)
		dst = append(dst, "\"\n"...)
	}
	if !s.time.IsZero() {
		dst = append(dst, "#EXT-X-PROGRAM-DATE-TIME:"...)
		dst = s.time.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
		dst = append(dst, '\n')
	}
	return dst
}

func (w *Window) appendParts(dst []byte, s *segment) []byte {
	for i := range s.parts {
		p := &s.parts[i]
		dst = append(dst, "#EXT-X-PART:DURATION="...)
		dst = appendSeconds(dst, p.duration)
		dst = append(dst, ",URI=\""...)
		dst = Object{KindPart, w.config.Epoch, s.msn, i}.appendName(dst)
		dst = append(dst, '"')
		if p.independent {
			dst = append(dst, ",INDEPENDENT=YES"...)
		}
		dst = append(dst, '\n')
	}
	return dst
}

// appendSeconds appends a duration of ms milliseconds, in seconds with three decimals.
func appendSeconds(dst []byte, ms int64) []byte {
	dst = strconv.AppendInt(dst, ms/1000, 10)
	ms %= 1000
	return append(dst, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
}

// Variant describes a media playlist. AppendMultivariant omits zero fields, except Bandwidth.
type Variant struct {
	URI string // URI of the media playlist, without line breaks
	// Codecs has the RFC 6381 names of the codecs, separated by commas, without quotes. Package mp4
	// returns the names in this form.
	Codecs                      string
	Width, Height               int     // in pixels
	FrameRate                   float64 // video frames per second
	Bandwidth, AverageBandwidth int64   // bits per second; see [Window.Bandwidth]
}

// AppendMultivariant appends a multivariant playlist with one variant to dst.
func AppendMultivariant(dst []byte, v Variant) []byte {
	dst = append(dst, "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH="...)
	dst = strconv.AppendInt(dst, v.Bandwidth, 10)
	if v.AverageBandwidth > 0 {
		dst = append(dst, ",AVERAGE-BANDWIDTH="...)
		dst = strconv.AppendInt(dst, v.AverageBandwidth, 10)
	}
	if v.Codecs != "" {
		dst = append(dst, ",CODECS=\""...)
		dst = append(dst, v.Codecs...)
		dst = append(dst, '"')
	}
	if v.Width > 0 && v.Height > 0 {
		dst = append(dst, ",RESOLUTION="...)
		dst = strconv.AppendInt(dst, int64(v.Width), 10)
		dst = append(dst, 'x')
		dst = strconv.AppendInt(dst, int64(v.Height), 10)
	}
	if v.FrameRate > 0 {
		dst = append(dst, ",FRAME-RATE="...)
		dst = strconv.AppendFloat(dst, v.FrameRate, 'f', 3, 64)
	}
	dst = append(dst, '\n')
	dst = append(dst, v.URI...)
	return append(dst, '\n')
}
