package hlslive

import "time"

// rates sum up fragments.
type rates struct {
	frames, bytes int
	lasts         time.Duration
}

func (r *rates) add(f Fragment, lasts time.Duration, bytes int) {
	r.frames += f.Pictures
	r.bytes += bytes
	r.lasts += lasts
}

// frameRate returns the video frames a second.
func (r *rates) frameRate() float64 { return float64(r.frames) / max(r.lasts.Seconds(), 1e-3) }

// bandwidth returns the bits a second.
func (r *rates) bandwidth() int64 {
	return int64(float64(8*r.bytes) / max(r.lasts.Seconds(),
		1e-3))
}

// A playerEstimate estimates the players of a playlist from their requests, because HLS players do
// not identify themselves: each asks again after the duration of the media that it got.
type playerEstimate struct {
	since    int64         // when the present period began; see now
	sum, was time.Duration // durations that players got in this period, and in the last one
}

// add notes a request, at a time of now, that gets something of that duration.
func (e *playerEstimate) add(at int64, period, lasts time.Duration) {
	e.turn(at, period)
	e.sum += lasts
}

// turn begins a period if the present one is over.
func (e *playerEstimate) turn(at int64, period time.Duration) {
	switch passed := time.Duration(at - e.since); {
	case passed >= 2*period:
		e.since, e.sum, e.was = at, 0, 0
	case passed >= period:
		e.since, e.sum, e.was = e.since+int64(period), 0, e.sum
	}
}

// size returns the number of players in the last period.
func (e *playerEstimate) size(at int64, period time.Duration) int {
	e.turn(at, period)
	return int((e.was + period/2) / period)
}

// Stats describe one Window, or the sum of several.
type Stats struct {
	Windows int   // streams of which HLS is made
	Bytes   int64 // in their windows
	Waiting int   // requests that wait for the next part
	Viewers int   // players, estimated from their requests

	Rendered  int64 // media playlists that were made
	Playlists int64 // media playlists that were sent
	Objects   int64 // segments, parts and init segments that were sent
	BytesOut  int64 // of objects
}

// Stats returns the counters, as the Stats of no window.
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
