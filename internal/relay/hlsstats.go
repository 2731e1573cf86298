package relay

import "time"

// hlsRates are what fragments come to.
type hlsRates struct {
	frames, bytes int
	lasts         time.Duration
}

func (r *hlsRates) add(f fragment, lasts time.Duration, bytes int) {
	r.frames += f.Pictures
	r.bytes += bytes
	r.lasts += lasts
}

// pictures returns how many there are in a second.
func (r *hlsRates) pictures() float64 { return float64(r.frames) / max(r.lasts.Seconds(), 1e-3) }

// bits returns how many there are in a second.
func (r *hlsRates) bits() int64 { return int64(float64(8*r.bytes) / max(r.lasts.Seconds(), 1e-3)) }

// An audience estimates how many players follow a playlist, which tell nothing of themselves: each asks for it again
// when what it has got will have been played.
type audience struct {
	since    int64         // when the present period began; see now
	sum, was time.Duration // what the players of this period and of the last one have got
}

// add notes a request, at a time of now, for what lasts so long.
func (a *audience) add(at int64, period, lasts time.Duration) {
	a.turn(at, period)
	a.sum += lasts
}

// turn begins a period if the present one is over.
func (a *audience) turn(at int64, period time.Duration) {
	switch passed := time.Duration(at - a.since); {
	case passed >= 2*period:
		a.since, a.sum, a.was = at, 0, 0
	case passed >= period:
		a.since, a.sum, a.was = a.since+int64(period), 0, a.sum
	}
}

// size returns how many players there were in the last period.
func (a *audience) size(at int64, period time.Duration) int {
	a.turn(at, period)
	return int((a.was + period/2) / period)
}

// HLSStats is what HLS comes to, over all streams.
type HLSStats struct {
	Windows int   // streams of which HLS is made
	Bytes   int64 // in their windows
	Waiting int   // requests that wait for what comes next
	Viewers int   // players, by what they ask for

	Rendered  int64 // media playlists that were made
	Playlists int64 // media playlists that were sent
	Objects   int64 // segments, parts and initialization segments that were sent
	BytesOut  int64 // of objects
}

// hlsStats adds up the windows that there are.
func (h *Hub) hlsStats() HLSStats {
	c := &h.counters
	st := HLSStats{Rendered: c.hlsRendered.Load(), Playlists: c.hlsPlaylists.Load(), Objects: c.hlsObjects.Load(),
		BytesOut: c.hlsBytes.Load()}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.hls {
		st.Windows++
		viewers, waiting, bytes := w.stats()
		st.Viewers += viewers
		st.Waiting += waiting
		st.Bytes += bytes
	}
	return st
}

func (w *hlsWindow) stats() (viewers, waiting int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.window == nil {
		return 0, w.waiting, 0
	}
	return w.audience.size(now(), w.cfg.Target), w.waiting, w.window.Bytes()
}
