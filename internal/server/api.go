package server

import (
	"net/http"
	"time"
)

// apiReport is the answer to /api/streams.
type apiReport struct {
	Server  apiServer   `json:"server"`
	Streams []apiStream `json:"streams"`
}

type apiServer struct {
	Version  string  `json:"version"`
	Uptime   float64 `json:"uptime_seconds"`
	Streams  int     `json:"streams"`
	Viewers  int     `json:"viewers"`
	BytesOut int64   `json:"bytes_out"`
	Files    string  `json:"files"`    // what there is at /files/: off, named (no lists) or listed
	Blobs    bool    `json:"blobs"`    // there are some at /blobs/, or may be
	Publish  string  `json:"publish"`  // who may: open, token or off
	Loopback bool    `json:"loopback"` // only this machine reaches the server, unless through a proxy
}

type apiStream struct {
	Name       string  `json:"name"`
	Format     string  `json:"format"` // flv or raw
	Video      string  `json:"video"`  // as in "h264 640x360"; "" if there are no pictures, or not yet
	Audio      string  `json:"audio"`
	Publisher  string  `json:"publisher,omitempty"` // its address, for those who may know it, or "demo"
	Uptime     float64 `json:"uptime_seconds"`
	BitRate    int64   `json:"bits_per_second"`
	Viewers    int     `json:"viewers"`         // in all forms
	ViewersMP4 int     `json:"viewers_mp4"`     // of these, in MP4
	LagMax     float64 `json:"lag_seconds_max"` // of the viewer that is furthest behind; 0 when all keep up
	KeptBytes  int64   `json:"kept_bytes"`
	GroupsCut  uint64  `json:"groups_cut"`  // groups of pictures that were longer than what is kept
	FramesLost int64   `json:"frames_lost"` // that viewers were moved past, added up
	Stalled    int     `json:"stalled"`     // viewers that are further behind than they may be
}

// apiStreams answers GET /api/streams. Where a publisher is, is nobody's business but the operator's: its address is told where
// only this machine asks.
func (s *Server) apiStreams(w http.ResponseWriter, _ *http.Request) {
	s.tellStreams(w, s.gate.loopback)
}

// adminStreams is apiStreams for the admin listener.
func (s *Server) adminStreams(w http.ResponseWriter, _ *http.Request) { s.tellStreams(w, true) }

func (s *Server) tellStreams(w http.ResponseWriter, addresses bool) {
	streams := s.registry.all()
	report := apiReport{
		Server: apiServer{
			Version: s.cfg.Version, Uptime: time.Since(s.started).Seconds(),
			Streams: len(streams), Viewers: s.census.count(), BytesOut: s.metrics.bytesOut(),
			Files: s.shelf.offer(), Blobs: s.vault != nil, Publish: s.gate.policy(), Loopback: s.gate.loopback,
		},
		Streams: make([]apiStream, 0, len(streams)), // [] and not null when there is none
	}
	for _, st := range streams {
		r := st.report()
		if !addresses && st.publisher != demoName {
			r.Publisher = ""
		}
		report.Streams = append(report.Streams, r)
	}
	answer(w, http.StatusOK, report)
}

func (s *stream) report() apiStream {
	r := apiStream{
		Name: s.name, Format: s.live.form.String(), Publisher: s.publisher,
		Uptime: time.Since(s.started).Seconds(), BitRate: s.rate.Load(), FramesLost: s.lost.Load(),
	}
	if t := s.video.Load(); t != nil {
		r.Video = t.name
	}
	if t := s.audio.Load(); t != nil {
		r.Audio = t.name
	}
	kept := s.live.ring.Stats()
	r.KeptBytes, r.GroupsCut = kept.Bytes, kept.GroupsCut
	r.Stalled, r.LagMax = s.live.behind()

	s.mu.Lock()
	r.Viewers = s.viewers
	m := s.mp4
	if m != nil {
		r.ViewersMP4 = m.viewers
	}
	s.mu.Unlock()
	if m != nil {
		r.KeptBytes += m.out.ring.Stats().Bytes
		stalled, lag := m.out.behind()
		r.Stalled += stalled
		r.LagMax = max(r.LagMax, lag)
	}
	return r
}
