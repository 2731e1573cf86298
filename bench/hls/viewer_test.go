package hls

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// A script has the server's successive responses for each address. The last response repeats. It
// records the requests.
type script struct {
	answers  map[string][]string
	requests []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	uri := r.URL.RequestURI()
	s.requests = append(s.requests, uri)
	list := s.answers[uri]
	if len(list) == 0 {
		http.NotFound(w, r)
		return
	}
	if len(list) > 1 {
		s.answers[uri] = list[1:]
	}
	io.WriteString(w, list[0])
}

// watch runs a viewer on the script to its end.
func (s *script) watch(t *testing.T, parts bool) (*viewer, error) {
	srv := httptest.NewServer(s)
	defer srv.Close()
	s.answers["/x/index.m3u8"] = []string{"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nmedia.m3u8\n"}
	a := &audience{addr: srv.Listener.Addr().String(), path: "/x/index.m3u8", parts: parts}
	a.measuring.Store(true)
	v := newViewer(a, nil)
	return v, v.watch(t.Context())
}

// playlist returns a playlist that starts with segment 5, which has two parts. made is the number
// of parts in it and in segment 6.
func playlist(control string, made int, end string) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"#EXTM3U\n#EXT-X-TARGETDURATION:0\n#EXT-X-SERVER-CONTROL:%s\n#EXT-X-MEDIA-SEQUENCE:5\n#EXT-X-MAP:URI=\"init\"\n", control)
	for i := range made {
		fmt.Fprintf(&b, "#EXT-X-PART:DURATION=1,URI=\"%d.%d\"\n", 5+i/2, i%2)
		if i%2 == 1 {
			fmt.Fprintf(&b, "#EXTINF:2,\n%d\n", 5+i/2)
		}
	}
	return b.String() + end
}

const (
	llControl = "CAN-BLOCK-RELOAD=YES,CAN-SKIP-UNTIL=12"
	endList   = "#EXT-X-ENDLIST\n"
)

func TestWatchParts(t *testing.T) {
	const reload = "/x/media.m3u8?_HLS_msn=%d&_HLS_part=%d&_HLS_skip=YES"
	s := &script{answers: map[string][]string{
		"/x/media.m3u8":           {playlist(llControl, 1, "")},
		fmt.Sprintf(reload, 5, 1): {playlist(llControl, 2, "")},
		fmt.Sprintf(reload, 6, 0): {playlist(llControl, 4, "")}, // two at once
		fmt.Sprintf(reload, 7, 0): {playlist(llControl, 5, endList)},
		"/x/init":                 {"init"},
	}}
	for _, part := range []string{"5.1", "6.0", "6.1", "7.0"} {
		s.answers["/x/"+part] = []string{"part " + part}
	}
	v, err := s.watch(t, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/x/index.m3u8", "/x/media.m3u8", "/x/init", fmt.Sprintf(reload, 5, 1),
		"/x/5.1", fmt.Sprintf(reload, 6, 0), "/x/6.0",
		"/x/6.1", fmt.Sprintf(reload, 7, 0), "/x/7.0"}
	if !slices.Equal(s.requests, want) {
		t.Errorf("requests %q,\nwant %q", s.requests, want)
	}
	if v.bytes.Load() != 4*int64(len("part 5.1")) || v.fetched.Load() != 4 ||
		v.requests.Load() != 8 || len(v.got) != 4 {
		t.Errorf("%d bytes, %d parts, %d requests, %d samples", v.bytes.Load(), v.fetched.Load(),
			v.requests.Load(), len(v.got))
	}
	if v.got[0].arrival == v.got[1].arrival || v.got[3].arrival != v.arrivals.of("/x/7.0") {
		t.Error("the samples are not of their parts")
	}
}

func TestWatchSegments(t *testing.T) {
	s := &script{answers: map[string][]string{
		"/x/media.m3u8": {playlist("", 4, ""), playlist("", 4, ""), playlist("", 6, ""),
			playlist("", 10, endList)},
		"/x/init": {"init"},
	}}
	for _, segment := range []string{"6", "7", "8", "9"} {
		s.answers["/x/"+segment] = []string{segment}
	}
	if _, err := s.watch(t, false); err != nil {
		t.Fatal(err)
	}
	const media = "/x/media.m3u8"
	want := []string{"/x/index.m3u8", media, "/x/init", "/x/6", media, media, "/x/7", media, "/x/8",
		"/x/9"}
	if !slices.Equal(s.requests, want) {
		t.Errorf("requests %q,\nwant %q", s.requests, want)
	}
}

func TestWatchFails(t *testing.T) {
	for _, test := range []struct {
		name, media, reload string
		want                string
	}{
		{"no blocking reload", playlist("", 1, ""), "", errNoBlocking.Error()},
		{"nothing new", playlist(llControl, 1, ""), playlist(llControl, 1, ""),
			errNothingNew.Error()},
		{"refused", playlist(llControl, 1, ""), "", "status 404"},
		{"no such part", playlist(llControl, 1, ""), playlist(llControl, 2, ""), "status 404"},
		{"no playlist", "<html>", "", "/x/media.m3u8 is not a playlist"},
	} {
		s := &script{answers: map[string][]string{"/x/media.m3u8": {test.media},
			"/x/init": {"init"}}}
		if test.reload != "" {
			s.answers["/x/media.m3u8?_HLS_msn=5&_HLS_part=1&_HLS_skip=YES"] = []string{test.reload}
		}
		if _, err := s.watch(t, true); err == nil || err.Error() != test.want {
			t.Errorf("%s: error %v, want %s", test.name, err, test.want)
		}
	}
}
