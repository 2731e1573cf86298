package web

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The name determines the format, and the query where the viewer starts.
func TestParseWatchRequest(t *testing.T) {
	const remote = "192.0.2.1:1234" // httptest's remote address
	for _, tt := range []struct {
		name, query string
		want        live.WatchRequest
		status      int
	}{
		{"cam", "", live.WatchRequest{Name: "cam", AsIs: true, Format: rendition.FLV}, 0},
		{"cam.flv", "", live.WatchRequest{Name: "cam", Format: rendition.FLV}, 0},
		{"cam.mp4", "", live.WatchRequest{Name: "cam", Format: rendition.MP4}, 0},
		{"a/b/cam.mp4", "start=next&token=x",
			live.WatchRequest{Name: "a/b/cam", Format: rendition.MP4, Next: true}, 0},
		{"cam", "start=last", live.WatchRequest{Name: "cam", AsIs: true, Format: rendition.FLV}, 0},
		{"cam", "bound=250ms",
			live.WatchRequest{Name: "cam", AsIs: true, Format: rendition.FLV,
				Bound: 200 * time.Millisecond}, 0},
		{"cam", "bound=2s", live.WatchRequest{}, http.StatusBadRequest},
		{"cam", "start=", live.WatchRequest{}, http.StatusBadRequest},
		{"cam", "start=now", live.WatchRequest{}, http.StatusBadRequest},
		{"", "", live.WatchRequest{}, http.StatusBadRequest},
		{".mp4", "", live.WatchRequest{}, http.StatusBadRequest},
	} {
		got, err := parseWatchRequest(httptest.NewRequest(http.MethodGet, "/?"+tt.query, nil),
			tt.name)
		if status := refuse.Status(err); err != nil && status != tt.status || err == nil &&
			tt.status != 0 {
			t.Errorf("%q?%s: %v, want status %d", tt.name, tt.query, err, tt.status)
			continue
		}
		if tt.want.Remote = remote; err == nil && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q?%s: %+v, want %+v", tt.name, tt.query, got, tt.want)
		}
	}
}
