package live

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// maxRefusedNames limits the number of stream names that are closed to publishers; see
// [Operator.EndStream]. Each name needs about 200 bytes.
const maxRefusedNames = 10_000

// An Operator lists and ends the streams and viewers of a Hub.
type Operator struct{ hub *Hub }

// NewOperator returns an Operator of h.
func NewOperator(h *Hub) Operator { return Operator{h} }

// EndStream ends a stream, and reports whether the stream existed. The stream's viewers still
// receive their queued frames.
//
// For the duration d, the server then refuses publishers of the name. If d is 0, the server accepts
// them at once.
//
// If another node owns the stream, or if too many names are already refused, EndStream changes
// nothing and returns a [refuse.Refusal].
func (o Operator) EndStream(name string, d time.Duration) (existed bool, err error) {
	if err := streamname.Check(name); err != nil {
		return false, err
	}
	o.hub.mu.Lock()
	defer o.hub.mu.Unlock()
	s := o.hub.streams[name]
	if s != nil && s.pause == nil && s.publisher.isPull() {
		return false, refuse.New(http.StatusConflict,
			"the stream is published at the node %s: end it there",
			s.publisher.address)
	}
	at := time.Now()
	maps.DeleteFunc(o.hub.refused, func(_ string, until time.Time) bool { return !until.After(at) })
	if _, again := o.hub.refused[name]; d > 0 && !again &&
		len(o.hub.refused) >= maxRefusedNames {
		return false, refuse.New(http.StatusServiceUnavailable, "%d names are refused already",
			maxRefusedNames)
	}
	if d > 0 {
		o.hub.refused[name] = at.Add(d)
	} else {
		delete(o.hub.refused, name)
	}
	switch {
	case s == nil:
		return false, nil
	case s.pause != nil:
		registrar{o.hub}.endStream(s)
	default:
		s.ended = true
		s.publisher.cancel(errOperator)
		if s.successor != nil {
			s.successor.cancel(errOperator)
		}
	}
	return true, nil
}

// ViewerInfo describes one viewer, as JSON.
type ViewerInfo struct {
	ID         uint64  `json:"id"`
	Stream     string  `json:"stream"`
	Address    string  `json:"address"`
	Node       string  `json:"node,omitempty"`
	Form       string  `json:"form"`         // flv, mp4, rtmp or raw
	Path       string  `json:"path"`         // the kind of write call; see fanout.Viewer.Path
	Time       float64 `json:"time_seconds"` // since the viewer came
	Bytes      int64   `json:"bytes"`        // bytes of the stream that were sent
	Lag        float64 `json:"lag_seconds"`
	BehindLive float64 `json:"behind_live_seconds"`
}

// Viewers returns at most limit viewers of a stream, in the order of their arrival. It returns only
// viewers with an ID greater than lastID. ok is false if the stream does not exist.
func (o Operator) Viewers(name string, lastID uint64, limit int) (list []ViewerInfo, ok bool) {
	o.hub.mu.Lock()
	s := o.hub.find(name)
	var viewers []*Viewer
	if s != nil {
		for v := range o.hub.served {
			if v.stream == s && v.id > lastID {
				viewers = append(viewers, v)
			}
		}
	}
	o.hub.mu.Unlock()
	slices.SortFunc(viewers, func(a, b *Viewer) int { return cmp.Compare(a.id, b.id) })
	list = []ViewerInfo{} // encoded as [] instead of null
	at := nanotime()
	for _, v := range viewers[:min(limit, len(viewers))] {
		list = append(list, v.info(at))
	}
	return list, s != nil
}

func (v *Viewer) info(at int64) ViewerInfo {
	return ViewerInfo{
		ID: v.id, Stream: v.stream.name, Address: v.remote, Node: v.node,
		Form: v.rendition.Format().String(), Path: v.transport.Path(),
		Time: time.Duration(at - v.since).Seconds(), Bytes: v.transport.Sent(),
		Lag: v.transport.Lag().Seconds(), BehindLive: v.transport.BehindLive().Seconds(),
	}
}

// Stream describes the named stream. ok is false if viewers cannot find the stream.
func (o Operator) Stream(name string) (info StreamInfo, ok bool) {
	o.hub.mu.Lock()
	s := o.hub.find(name)
	o.hub.mu.Unlock()
	if s == nil {
		return StreamInfo{}, false
	}
	return o.hub.info(s), true
}

// EndViewer disconnects the viewer with the given ID, and returns the viewer's description. ok is
// false if the viewer does not exist.
func (o Operator) EndViewer(id uint64) (info ViewerInfo, ok bool) {
	o.hub.mu.Lock()
	var found *Viewer
	for v := range o.hub.served {
		if v.id == id {
			found = v
			break
		}
	}
	o.hub.mu.Unlock()
	if found == nil {
		return ViewerInfo{}, false
	}
	info = found.info(nanotime())
	found.transport.End(fanout.ByOperator)
	return info, true
}
