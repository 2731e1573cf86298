package load

import (
	"encoding/json"
	"time"
)

// Report is the result of a load test. All byte counts are bytes of the payload of FLV tags.
type Report struct {
	Target      string    `json:"target"`
	Started     time.Time `json:"started"`
	Interrupted bool      `json:"interrupted,omitempty"`
	// EndedEarly is set if all publishers or all viewers ended before the load test.
	EndedEarly bool `json:"ended_early,omitempty"`

	// Measured is the duration of the measurement. Bytes is the number of bytes that all viewers
	// received in that time. Gaps, latencies and CPU time are also for that time. Lost tags, jumps
	// and early ends are counted for the whole run.
	Measured time.Duration `json:"measured_ns"`
	Bytes    int64         `json:"bytes"`

	Publishers Publishers `json:"publishers"`
	Viewers    Viewers    `json:"viewers"`
	Stalled    Viewers    `json:"stalled"`

	Server    *Usage `json:"server,omitempty"` // nil if unknown
	Generator *Usage `json:"generator,omitempty"`
}

// Publishers holds the combined results of all publishers.
type Publishers struct {
	Wanted    int   `json:"wanted"`
	Connected int   `json:"connected"`
	Tags      int64 `json:"tags"`
	Bytes     int64 `json:"bytes"`
	// Late is the time from when a tag is due until it is sent. If it grows, the generator has too
	// little CPU, and the other results are not valid.
	Late  Spread         `json:"late"`
	Ended map[string]int `json:"ended,omitempty"` // number of early ends, by reason
}

// Viewers holds the combined results of a group of viewers.
//
// The fields Lost, Jumps, Repeated and Latency are known only if this package has published the
// stream, because it adds a number and the time of sending to each tag. Otherwise Numbered is
// false, and these four fields are null in JSON.
type Viewers struct {
	Wanted    int   `json:"wanted"`
	Connected int   `json:"connected"`
	Bytes     int64 `json:"bytes"`
	Tags      int64 `json:"tags"`
	Numbered  bool  `json:"numbered"` // at least one tag had a number
	Lost      int64 `json:"lost"`     // tags that were not received
	Jumps     int64 `json:"jumps"`    // number of gaps in the tags' numbers
	Repeated  int64 `json:"repeated"` // tags that arrived twice or out of order
	// Gap is the time between two arrivals, if the viewer had to wait. Latency is the time from the
	// publisher's write to the arrival of the tag's last byte.
	Gap     Spread         `json:"gap"`
	Latency Spread         `json:"latency"`
	Ended   map[string]int `json:"ended,omitempty"` // number of early ends, by reason
}

// MarshalJSON encodes v. If Numbered is not set, Lost, Jumps, Repeated and Latency are null.
func (v Viewers) MarshalJSON() ([]byte, error) {
	type plain Viewers
	if v.Numbered {
		return json.Marshal(plain(v))
	}
	return json.Marshal(struct {
		plain
		Lost     *int64  `json:"lost"`
		Jumps    *int64  `json:"jumps"`
		Repeated *int64  `json:"repeated"`
		Latency  *Spread `json:"latency"`
	}{plain: plain(v)})
}

// Spread summarizes a distribution of times.
type Spread struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Usage is the resource use of processes during the measurement.
type Usage struct {
	CPU time.Duration `json:"cpu_ns"`
	// CPU seconds per 10^9 delivered bytes; 0 if no bytes were delivered.
	CPUPerGB float64 `json:"cpu_s_per_gb"`
	RSS      int64   `json:"rss_bytes"` // at the end of the measurement
	PeakRSS  int64   `json:"peak_rss_bytes"`
}

// Progress is the state of a running load test.
type Progress struct {
	Elapsed    time.Duration
	Total      time.Duration
	Measuring  bool
	Publishers int // publishers that the server has accepted
	Viewers    int // viewers that are watching now, including stalled ones
	Bytes      int64
	Tags       int64
	Lost       int64
	Ended      int64 // connections that ended early
}

func (r *run) progress(elapsed time.Duration) Progress {
	h, s := &r.healthy, &r.stalled
	return Progress{
		Elapsed:    elapsed,
		Total:      r.cfg.Ramp + r.cfg.Settle + r.cfg.Duration,
		Measuring:  r.measuring.Load(),
		Publishers: int(r.sent.connected.Load()),
		Viewers:    int(h.watching.Load() + s.watching.Load()),
		Bytes:      h.bytes.Load() + s.bytes.Load(),
		Tags:       h.tags.Load() + s.tags.Load(),
		Lost:       h.lost.Load(), // not s.lost: stalled viewers are expected to lose tags
		Ended:      h.ends.total() + s.ends.total() + r.sent.ends.total(),
	}
}

// mark holds the number of received bytes, and the resource use of the server and of this process,
// at the start or the end of the measurement.
type mark struct {
	at     time.Time
	bytes  int64
	server sample
	self   sample
}

func (r *run) mark() mark {
	return mark{
		at:     time.Now(),
		bytes:  r.healthy.bytes.Load() + r.stalled.bytes.Load(),
		server: sampleProcesses(r.cfg.ServerPIDs),
		self:   sampleSelf(),
	}
}

func (r *run) report(began time.Time, from, until mark) Report {
	rep := Report{
		Target:   r.proto.String(),
		Started:  began,
		Measured: until.at.Sub(from.at),
		Bytes:    until.bytes - from.bytes,
		Viewers:  r.healthy.report(),
		Stalled:  r.stalled.report(),
		Publishers: Publishers{
			Wanted: len(r.publishers), Connected: int(r.sent.connected.Load()),
			Tags: r.sent.tags.Load(), Bytes: r.sent.bytes.Load(),
			Late: r.sent.late.spread(), Ended: r.sent.ends.snapshot(),
		},
	}
	rep.Server = usage(from.server, until.server, rep.Bytes)
	rep.Generator = usage(from.self, until.self, rep.Bytes)
	return rep
}

// usage returns the resource use between two samples. The argument bytes is the number of bytes
// that viewers have received between the samples. If a sample is unknown, usage returns nil.
func usage(from, until sample, bytes int64) *Usage {
	if !from.known || !until.known {
		return nil
	}
	u := &Usage{CPU: until.cpu - from.cpu, RSS: until.rss, PeakRSS: until.peak}
	if bytes > 0 {
		u.CPUPerGB = u.CPU.Seconds() / (float64(bytes) / 1e9)
	}
	return u
}
