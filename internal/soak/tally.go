package soak

import (
	"sync/atomic"
	"time"
)

// A tally counts what was done. Any goroutine may add to it.
type tally struct {
	Checked atomic.Int64 // bytes that were compared
	Sent    atomic.Int64 // bytes of streams and blobs

	Streams  atomic.Int64 // published, each time
	Broken   atomic.Int64 // of those, that broke off
	Viewers  atomic.Int64
	Movies   atomic.Int64 // of those, that watched MP4
	HTTP2    atomic.Int64 // and that came over HTTP/2
	Followed atomic.Int64 // and that got the last tag or byte of a stream
	Stalls   atomic.Int64
	Skips    atomic.Int64 // tags that viewers were moved past
	Cuts     atomic.Int64 // viewers of plain bytes and of MP4 that were disconnected because they were behind

	Files       atomic.Int64 // requests that were answered and checked
	Unmodified  atomic.Int64
	Aborted     atomic.Int64 // downloads that were broken off
	Puts        atomic.Int64
	Gets        atomic.Int64
	Deletes     atomic.Int64
	BrokenPuts  atomic.Int64
	Expired     atomic.Int64
	Interrupted atomic.Int64 // what failed because of a restart

	Terms atomic.Int64
	Kills atomic.Int64
	drain atomic.Int64 // the longest, in nanoseconds
}

func (t *tally) slowestDrain(d time.Duration) {
	for old := t.drain.Load(); int64(d) > old && !t.drain.CompareAndSwap(old, int64(d)); old = t.drain.Load() {
	}
}

// Done is what was done. Bytes and numbers are sums over all servers.
type Done struct {
	Checked      int64         `json:"checked_bytes"`
	Sent         int64         `json:"sent_bytes"`
	Streams      int64         `json:"streams"`
	Broken       int64         `json:"streams_broken_off"`
	Viewers      int64         `json:"viewers"`
	Movies       int64         `json:"viewers_mp4"`
	HTTP2        int64         `json:"viewers_http2"`
	Followed     int64         `json:"viewers_to_the_end"`
	Stalls       int64         `json:"stalls"`
	Skips        int64         `json:"skips"`
	Cuts         int64         `json:"cuts"`
	Files        int64         `json:"file_requests"`
	Unmodified   int64         `json:"file_not_modified"`
	Aborted      int64         `json:"downloads_aborted"`
	Puts         int64         `json:"puts"`
	Gets         int64         `json:"gets"`
	Deletes      int64         `json:"deletes"`
	BrokenPuts   int64         `json:"puts_broken_off"`
	Expired      int64         `json:"expired"`
	Interrupted  int64         `json:"interrupted"`
	Terms        int64         `json:"sigterm"`
	Kills        int64         `json:"sigkill"`
	SlowestDrain time.Duration `json:"slowest_drain_ns"`
}

func (t *tally) done() Done {
	return Done{
		Checked: t.Checked.Load(), Sent: t.Sent.Load(),
		Streams: t.Streams.Load(), Broken: t.Broken.Load(),
		Viewers: t.Viewers.Load(), Movies: t.Movies.Load(), HTTP2: t.HTTP2.Load(), Followed: t.Followed.Load(),
		Stalls: t.Stalls.Load(), Skips: t.Skips.Load(), Cuts: t.Cuts.Load(),
		Files: t.Files.Load(), Unmodified: t.Unmodified.Load(), Aborted: t.Aborted.Load(),
		Puts: t.Puts.Load(), Gets: t.Gets.Load(), Deletes: t.Deletes.Load(),
		BrokenPuts: t.BrokenPuts.Load(), Expired: t.Expired.Load(),
		Interrupted: t.Interrupted.Load(), Terms: t.Terms.Load(), Kills: t.Kills.Load(),
		SlowestDrain: time.Duration(t.drain.Load()),
	}
}
