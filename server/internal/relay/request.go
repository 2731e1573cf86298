package relay

import (
	"net/http"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/rendition"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// A watchRequest is what a viewer asks for.
type watchRequest struct {
	name   string // of the stream
	format rendition.Format
	asIs   bool   // in the format that comes, instead of format
	next   bool   // to begin at the next key frame, and not at the last one
	remote string // the viewer's address
	node   string // the address of the node that asks; "" for a viewer
	terms  Terms
}

// parseWatchRequest understands a request for name, which may end with a format.
func parseWatchRequest(r *http.Request, name string) (watchRequest, error) {
	name, ext := streamname.CutExt(name)
	want := watchRequest{name: name, asIs: ext == "", format: rendition.FLV, remote: r.RemoteAddr}
	if ext == streamname.MP4 {
		want.format = rendition.MP4
	}
	if err := streamname.Check(want.name); err != nil {
		return want, err
	}
	if q := r.URL.Query(); q.Has("start") {
		switch start := q.Get("start"); start {
		case "last":
		case "next":
			want.next = true
		default:
			return want, refuse.New(http.StatusBadRequest,
				"bad start=%.80q: want last (the newest key frame, as without it) or next (the next one)", start)
		}
	}
	return want, nil
}
