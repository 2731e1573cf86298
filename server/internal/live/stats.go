package live

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// Stats is a snapshot of a Hub. Each map has an entry for every possible key.
type Stats struct {
	Streams   int   // streams that viewers can find
	Viewers   int   // viewers that are being served
	Published int64 // streams that were ever published
	BytesIn   int64
	FramesIn  int64
	GroupsCut int64 // GOPs that were too long to be kept whole
	LeftOut   int64 // NAL units of length 0 and damaged video frames, which MP4 omits
	Unstarted int64 // frames between a change of the codecs and the next keyframe, which MP4 omits

	Pulled  int64 // bytes pulled from other nodes; also counted as bytes in
	ToNodes int64 // bytes of streams sent to other nodes; also counted as bytes out

	Waiting       int           // streams without a publisher at present
	Returns       int64         // publishers that came to a waiting stream
	Takeovers     int64         // publishers that took over from another one
	PublisherWait time.Duration // total time that streams have waited for publishers

	SilentMax time.Duration

	HLS hlslive.Stats

	FurtherTracks int           // the sum of StreamInfo.Further
	KeptBytes     int64         // bytes that all streams keep
	Memory        int64         // sum of StreamInfo.Memory
	Pending       int64         // size of the batches that are being written to viewers
	Blocked       int           // viewers with a blocking write in progress
	Behind        int           // viewers that exceeded the lag limits and have not caught up
	LagMax        time.Duration // lag of the viewer that is furthest behind; 0 if all keep up
	BehindLive    time.Duration // the largest StreamInfo.BehindLive

	FramesLost map[string]int64 // frames that viewers have lost, by reason

	fanout.Stats // counts of viewers and of writes
}

// Count returns the number of streams, including those that viewers cannot find yet.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

// Stats returns a snapshot of h.
func (h *Hub) Stats() Stats {
	c := &h.counters
	list := h.Streams()
	st := Stats{
		Streams: len(list), Viewers: h.Viewers(), Published: c.published.Load(),
		BytesIn: c.bytesIn.Load(), FramesIn: c.framesIn.Load(), GroupsCut: c.forms.GroupsCut.Load(),
		LeftOut: c.forms.Damaged.Load(), Unstarted: c.forms.Unstarted.Load(),
		FramesLost: make(map[string]int64), Stats: c.forms.Fanout.Stats(),
	}
	st.Pulled, st.ToNodes = c.pulled.Load(), c.toNodes.Load()
	h.mu.Lock()
	st.HLS = h.hls.stats()
	h.mu.Unlock()
	st.Pending = h.pendingBytes()
	st.Returns, st.Takeovers = c.returns.Load(), c.takeovers.Load()
	st.PublisherWait = time.Duration(c.waited.Load())
	for _, s := range list {
		if s.waiting {
			st.Waiting++
			st.PublisherWait += time.Duration(s.Waiting * 1e9)
		} else {
			st.SilentMax = max(st.SilentMax, time.Duration(s.Silent*1e9))
		}
		st.FurtherTracks += s.Further
		st.KeptBytes += s.KeptBytes
		st.Blocked += s.blocked
		st.Behind += s.Stalled
		st.LagMax = max(st.LagMax, time.Duration(s.LagMax*1e9))
		st.BehindLive = max(st.BehindLive, time.Duration(s.BehindLive*1e9))
	}
	for _, s := range h.holders() {
		st.Memory += s.bytes
	}
	for why := broadcast.LagBytes; why <= broadcast.Refused; why++ {
		st.FramesLost[why.String()] = c.forms.Lost[why].Load()
	}
	return st
}

// pendingBytes returns the total size of the batches that are being written to viewers. A batch
// counts in full until all of it is written. Shared bytes count once for each viewer.
func (h *Hub) pendingBytes() (sum int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.served {
		if _, writes := v.transport.WritingFor(); writes {
			sum += v.transport.Batch()
		}
	}
	return sum
}

// Viewers returns the number of viewers that are being served.
func (h *Hub) Viewers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.served)
}

// StreamInfo describes one stream, as JSON.
type StreamInfo struct {
	Name   string `json:"name"`
	Format string `json:"format"` // flv or raw
	// Codec and size, for example "h264 640x360"; "" if there is no video or the codec is unknown.
	Video string `json:"video"`
	Audio string `json:"audio"`
	// The tracks that MP4 and HLS omit: "video", "audio" or "all"; "" if they omit none.
	LeftOut string `json:"left_out,omitempty"`
	// The address of the current or last publisher; "demo" for the built-in demo.
	Publisher   string  `json:"publisher,omitempty"`
	Waiting     float64 `json:"waiting_seconds"`
	Returns     int64   `json:"returns"`        // publishers that came while the stream waited
	Takeovers   int64   `json:"takeovers"`      // publishers that took over from another one
	Silent      float64 `json:"silent_seconds"` // since the last frame
	Uptime      float64 `json:"uptime_seconds"`
	BitRate     int64   `json:"bits_per_second"`
	Viewers     int     `json:"viewers"`      // in all formats; each node of Edges counts as one
	ViewersMP4  int     `json:"viewers_mp4"`  // viewers of MP4; part of Viewers
	ViewersRTMP int     `json:"viewers_rtmp"` // viewers over RTMP; part of Viewers
	ViewersHLS  int     `json:"viewers_hls"`
	LagMax      float64 `json:"lag_seconds_max"`
	BehindLive  float64 `json:"behind_live_seconds_max"`
	MP4Time     float64 `json:"mp4_time_seconds"`
	KeyInterval float64 `json:"key_interval_seconds"` // the longest recent GOP
	KeptBytes   int64   `json:"kept_bytes"`
	// Size of the memory blocks that hold the publishers' bytes. A block counts in full while any
	// part of it is in use.
	Memory     int64 `json:"memory_bytes"`
	MemoryHigh int64 `json:"memory_high_water"` // the highest value of Memory
	// Tracks beyond the first video and the first audio track. Viewers of FLV and RTMP get them.
	Further    int    `json:"further_tracks"`
	GroupsCut  uint64 `json:"groups_cut"`  // GOPs that were too long to be kept whole
	FramesLost int64  `json:"frames_lost"` // frames that viewers have lost, in total
	Stalled    int    `json:"stalled"`

	// The following fields are set only in a cluster.
	Epoch uint64   `json:"epoch,omitempty"` // the epoch of the stream's ownership
	Owner string   `json:"owner,omitempty"`
	Edges []string `json:"edges,omitempty"` // the nodes that read the stream here

	waiting bool
	blocked int
}

// Streams describes all streams with a known format, sorted by name.
func (h *Hub) Streams() []StreamInfo {
	h.mu.Lock()
	streams := slices.Collect(maps.Values(h.streams))
	streams = slices.DeleteFunc(streams, func(s *stream) bool { return s.forms == nil })
	h.mu.Unlock()
	list := make([]StreamInfo, 0, len(streams))
	for _, s := range streams {
		list = append(list, h.info(s))
	}
	slices.SortFunc(list, func(a, b StreamInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// rateFresh is how long a measured bit rate remains valid without new frames. Encoders send frames
// several times a second, so after a longer pause the rate is out of date.
const rateFresh = 2 * time.Second

// info describes the stream s. The format of s must be known.
func (h *Hub) info(s *stream) StreamInfo {
	facts := s.forms.Facts()
	i := StreamInfo{
		Name: s.name, Format: s.forms.Format().String(), Returns: s.returns.Load(),
		Takeovers: s.takeovers.Load(),
		Uptime:    time.Since(s.started).Seconds(), FramesLost: s.forms.Lost(),
		Further: int(facts.Further.Load()), GroupsCut: s.forms.Stats().GroupsCut,
	}
	mem := s.memory.Stats()
	i.Memory, i.MemoryHigh = mem.InUse, mem.HighWater
	silent := time.Duration(nanotime() - s.frameAt.Load())
	if i.Silent = silent.Seconds(); silent < rateFresh {
		i.BitRate = s.forms.Rate()
	}
	if t := facts.Video.Load(); t != nil {
		i.Video = t.Name
	}
	if t := facts.Audio.Load(); t != nil {
		i.Audio = t.Name
	}
	if s.forms.Format() == rendition.FLV {
		i.LeftOut = facts.LeftOut()
	}
	h.mu.Lock()
	if i.Publisher = s.publisher.address; s.pause != nil {
		i.waiting = true
		i.Waiting = time.Duration(nanotime() - s.pause.since).Seconds()
	}
	if i.Edges = s.edges(); s.lease != nil {
		i.Epoch = s.lease.Epoch()
	} else if p := s.publisher; p.isPull() {
		i.Epoch, i.Owner = p.epoch, p.address
	}
	hls := h.hls.byName[s.name]
	h.mu.Unlock()
	if hls != nil {
		i.ViewersHLS = hls.Stats().Viewers
	}
	var lag fanout.LagReport
	for _, r := range s.forms.All() {
		lag.Add(r.Fanout().Lag())
		i.KeptBytes += r.Stats().Bytes
	}
	i.BehindLive = lag.Live.Seconds()
	i.KeyInterval = float64(max(facts.KeyInterval.Load(), facts.GOP.Load())) / 1e3
	i.LagMax, i.Stalled, i.blocked = lag.Most.Seconds(), lag.Behind, lag.Blocked
	i.ViewersMP4, i.ViewersRTMP = s.forms.Viewers(rendition.MP4), s.forms.Viewers(rendition.RTMP)
	i.MP4Time = s.forms.MP4Time().Seconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	i.Viewers = s.viewers + len(i.Edges)
	return i
}

type holder struct {
	*stream
	bytes   int64
	visible bool     // viewers can find the stream
	window  *liveHLS // the stream's HLS, or nil
}

// renditions returns the existing renditions of the stream, or nil if viewers cannot find it yet.
func (s *holder) renditions() []*rendition.Rendition {
	if !s.visible {
		return nil
	}
	return s.forms.All()
}

// holders returns all streams, the largest first. It includes streams that viewers cannot find yet.
func (h *Hub) holders() (list []holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range maps.Values(h.streams) {
		list = append(list, holder{s, s.memory.Stats().InUse, s.forms != nil, h.hls.get(s)})
	}
	slices.SortFunc(list, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	return list
}
