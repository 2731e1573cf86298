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

// Stats is a snapshot of a Hub. The maps have an entry for every key that there can be.
type Stats struct {
	Streams   int   // that viewers can find
	Viewers   int   // being served
	Published int64 // streams that were ever published
	BytesIn   int64
	FramesIn  int64
	GroupsCut int64 // GOPs longer than the kept frames
	LeftOut   int64 // NAL units of length 0, and damaged video frames, that MP4 is made without

	Pulled  int64 // bytes pulled from other nodes; in includes them
	ToNodes int64 // bytes of streams sent to other nodes; out includes them

	Waiting       int           // of the streams, those without a publisher at present
	Returns       int64         // publishers that came to a stream that waited
	Takeovers     int64         // publishers that took over from another one
	PublisherWait time.Duration // how long streams have waited for publishers, added up

	// Since the last frame of the stream that has a publisher and is silent for the longest time.
	SilentMax time.Duration

	HLS hlslive.Stats

	FurtherTracks int           // of all streams: see StreamInfo
	KeptBytes     int64         // by all streams
	Memory        int64         // see StreamInfo
	Pending       int64         // bytes that viewers have taken, and their connections have not
	Blocked       int           // viewers with a full connection
	Behind        int           // viewers that were over their allowance and have not caught up
	LagMax        time.Duration // of the viewer that is furthest behind; 0 when all keep up
	BehindLive    time.Duration // the largest BehindLive of a viewer: see StreamInfo

	FramesLost map[string]int64 // frames that viewers were moved past, by reason

	fanout.Stats // how viewers were written to
}

// Count returns how many streams there are.
func (h *Hub) Count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

// Stats returns a snapshot.
func (h *Hub) Stats() Stats {
	c := &h.counters
	list := h.Streams()
	st := Stats{
		Streams: len(list), Viewers: h.Viewers(), Published: c.published.Load(),
		BytesIn: c.bytesIn.Load(), FramesIn: c.framesIn.Load(), GroupsCut: c.forms.GroupsCut.Load(),
		LeftOut:    c.forms.Damaged.Load(),
		FramesLost: make(map[string]int64), Stats: c.forms.Fanout.Stats(),
	}
	st.Pulled, st.ToNodes = c.pulled.Load(), c.toNodes.Load()
	h.mu.Lock()
	st.HLS = h.hls.stats()
	h.mu.Unlock()
	st.Pending = h.pending()
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

// pending returns how many bytes viewers have taken from streams but their connections have not.
// Bytes that viewers share count for each.
func (h *Hub) pending() (sum int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.served {
		if _, writes := v.transport.WritingFor(); writes {
			sum += v.transport.Batch()
		}
	}
	return sum
}

// Viewers returns how many viewers are being served.
func (h *Hub) Viewers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.served)
}

// StreamInfo describes one stream, as JSON.
type StreamInfo struct {
	Name   string `json:"name"`
	Format string `json:"format"` // flv or raw
	// As in "h264 640x360"; "" without video, or if not known yet.
	Video string `json:"video"`
	Audio string `json:"audio"`
	// Of MP4 and HLS: "video", "audio" or "all"; "" if nothing is.
	LeftOut string `json:"left_out,omitempty"`
	// Its address, or "demo"; the last publisher's if there is none at present.
	Publisher string `json:"publisher,omitempty"`
	// Since there is no publisher; 0 while there is one.
	Waiting     float64 `json:"waiting_seconds"`
	Returns     int64   `json:"returns"`        // publishers that came while the stream waited
	Takeovers   int64   `json:"takeovers"`      // publishers that took over from another one
	Silent      float64 `json:"silent_seconds"` // since the last frame came
	Uptime      float64 `json:"uptime_seconds"`
	BitRate     int64   `json:"bits_per_second"`
	Viewers     int     `json:"viewers"`      // in all formats, and each node of Edges
	ViewersMP4  int     `json:"viewers_mp4"`  // of these, in MP4
	ViewersRTMP int     `json:"viewers_rtmp"` // over RTMP
	// HLS players, not in viewers: an estimate from their requests.
	ViewersHLS int `json:"viewers_hls"`
	// Of the viewer that is furthest behind; 0 when all keep up.
	LagMax float64 `json:"lag_seconds_max"`
	// The largest of all viewers; see fanout.LagReport.
	BehindLive float64 `json:"behind_live_seconds_max"`
	// Of the newest frame, by the clock of the MP4; 0 if none is made.
	MP4Time     float64 `json:"mp4_time_seconds"`
	KeyInterval float64 `json:"key_interval_seconds"` // the longest recent GOP
	KeptBytes   int64   `json:"kept_bytes"`
	// Of the blocks that its publishers' bytes are in, for all who hold a part of them.
	Memory     int64 `json:"memory_bytes"`
	MemoryHigh int64 `json:"memory_high_water"` // the most that these were
	// Tracks beyond the first video and the first audio track; viewers of FLV and RTMP get them.
	Further    int    `json:"further_tracks"`
	GroupsCut  uint64 `json:"groups_cut"`  // GOPs longer than the kept frames
	FramesLost int64  `json:"frames_lost"` // that viewers were moved past, added up
	// Viewers that are further behind than they may be.
	Stalled int `json:"stalled"`

	// In a cluster.
	Epoch uint64 `json:"epoch,omitempty"` // of the ownership
	// The node that the stream is pulled from; "" if it is this one.
	Owner string   `json:"owner,omitempty"`
	Edges []string `json:"edges,omitempty"` // the nodes that read the stream here

	waiting bool
	blocked int
}

// Streams describes the streams that viewers can find, by name.
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

// rateFresh is for how long a rate holds when nothing comes: encoders send several times a second.
const rateFresh = 2 * time.Second

// info describes s, which viewers can find.
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
	silent := time.Duration(now() - s.frameAt.Load())
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
		i.Waiting = time.Duration(now() - s.pause.since).Seconds()
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

// A holder is a stream, and the memory that its publishers' bytes are in.
type holder struct {
	*stream
	bytes   int64
	visible bool     // viewers can find it
	window  *liveHLS // its HLS; nil if none is made
}

// made returns the renditions of s that are being made.
func (s *holder) made() []*rendition.Rendition {
	if !s.visible {
		return nil
	}
	return s.forms.All()
}

// holders returns all streams, the largest first. Viewers cannot find some of them, because their
// first frames are incomplete.
func (h *Hub) holders() (list []holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range maps.Values(h.streams) {
		list = append(list, holder{s, s.memory.Stats().InUse, s.forms != nil, h.hls.of(s)})
	}
	slices.SortFunc(list, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	return list
}
