package hlslive

import "time"

// A rates value adds up the fragments of a stream, to determine their frame rate and bit rate.
type rates struct {
	frames, bytes int
	lasts         time.Duration
}

func (r *rates) add(f Fragment, duration time.Duration, bytes int) {
	r.frames += f.Pictures
	r.bytes += bytes
	r.lasts += duration
}

func (r *rates) frameRate() float64 { return float64(r.frames) / max(r.lasts.Seconds(), 1e-3) }

func (r *rates) bandwidth() int64 {
	return int64(float64(8*r.bytes) / max(r.lasts.Seconds(), 1e-3))
}

// A playerEstimate estimates the number of players of a playlist from their requests, because HLS
// players do not identify themselves. A player requests one second of media per second. The number
// of players is therefore the total duration of the media that is sent in a period, divided by the
// length of the period.
//
// In all methods, t is the current time (see nanotime), and period is the length of a period.
type playerEstimate struct {
	since    int64         // when the current period began; see nanotime
	sum, was time.Duration // total duration sent in this period, and in the previous period
}

func (e *playerEstimate) add(t int64, period, duration time.Duration) {
	e.turn(t, period)
	e.sum += duration
}

// turn begins a new period if the current period is over.
func (e *playerEstimate) turn(t int64, period time.Duration) {
	switch passed := time.Duration(t - e.since); {
	case passed >= 2*period:
		e.since, e.sum, e.was = t, 0, 0
	case passed >= period:
		e.since, e.sum, e.was = e.since+int64(period), 0, e.sum
	}
}

// size returns the estimated number of players in the last complete period.
func (e *playerEstimate) size(t int64, period time.Duration) int {
	e.turn(t, period)
	return int((e.was + period/2) / period)
}

// Stats has the number of viewers and the counters of one Window, or their sums for all Windows.
type Stats struct {
	Windows int   // streams that have HLS
	Bytes   int64 // bytes in the windows of these streams
	Waiting int   // requests that wait for the next part
	Viewers int   // players, estimated from their requests

	Rendered  int64 // media playlists that were made
	Playlists int64 // media playlists that were sent
	Objects   int64 // segments, parts and init segments that were sent
	BytesOut  int64 // bytes of these objects
}

// Stats returns the counters. It leaves the fields that only [Window.Stats] knows at 0.
func (c *Counters) Stats() Stats {
	return Stats{Rendered: c.Rendered.Load(), Playlists: c.Playlists.Load(),
		Objects: c.Objects.Load(), BytesOut: c.Bytes.Load()}
}

// Add adds other to s.
func (s *Stats) Add(other Stats) {
	s.Windows += other.Windows
	s.Bytes += other.Bytes
	s.Waiting += other.Waiting
	s.Viewers += other.Viewers
	s.Rendered += other.Rendered
	s.Playlists += other.Playlists
	s.Objects += other.Objects
	s.BytesOut += other.BytesOut
}
