package web

import (
	"net/http"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// parseWatchRequest parses a request for the stream called name. The name may have the extension of
// a format.
func parseWatchRequest(r *http.Request, name string) (live.WatchRequest, error) {
	name, ext := streamname.CutExt(name)
	want := live.WatchRequest{Name: name, AsIs: ext == "", Format: rendition.FLV,
		Remote: r.RemoteAddr}
	if ext == streamname.MP4 {
		want.Format = rendition.MP4
	}
	if err := streamname.Check(want.Name); err != nil {
		return want, err
	}
	q := r.URL.Query()
	if q.Has("bound") {
		var err error
		if want.Bound, err = live.ParseBound(q.Get("bound")); err != nil {
			return want, err
		}
	}
	if q.Has("start") {
		switch start := q.Get("start"); start {
		case "last":
		case "next":
			want.Next = true
		default:
			return want, refuse.New(http.StatusBadRequest,
				"bad start=%.80q: want last (the newest keyframe, as without it) or next (the next one)", start)
		}
	}
	return want, nil
}
