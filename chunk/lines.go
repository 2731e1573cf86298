package chunk

import "bytes"

// Lines cuts behind line feeds, so that a line ends with LF or CR LF, which belong to it. What follows the last line feed
// of the source is a line, too.
func Lines() Cutter { return lines{} }

type lines struct{}

// Cut looks for the last line feed from the back: how many lines there are before it makes no difference.
func (lines) Cut(w *Window) int {
	seen, limit := w.Seen, min(len(w.Data), w.Limit)
	w.Seen = len(w.Data)
	if seen < limit {
		if i := lastLineFeed(w.Data[seen:limit]); i >= 0 {
			w.Seen = limit
			return seen + i + 1
		}
		seen = limit
	}
	if i := bytes.IndexByte(w.Data[seen:], '\n'); i >= 0 {
		w.Seen = seen + i + 1
		return w.Seen
	}
	return 0
}

// usualLine is what a line is seldom longer than.
const usualLine = 256

// lastLineFeed is bytes.LastIndexByte, which looks at byte after byte, for p that most often has a line feed near its end
// and otherwise most often none: finding that out from the front is many times as fast.
func lastLineFeed(p []byte) int {
	tail := max(len(p)-usualLine, 0)
	if i := bytes.LastIndexByte(p[tail:], '\n'); i >= 0 {
		return tail + i
	}
	if bytes.IndexByte(p[:tail], '\n') < 0 {
		return -1
	}
	return bytes.LastIndexByte(p[:tail], '\n')
}

func (lines) Whole(*Window) bool { return true }
