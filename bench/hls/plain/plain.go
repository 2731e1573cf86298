// Package plain is a server of low-latency HLS in the usual style of Go, for comparison with
// millrace serve. It follows gohlslib, the HLS library of MediaMTX. Each part is one buffer, into
// which the samples are copied. A segment is the concatenation of its parts. A request for a
// playlist waits on a condition variable until a new part is ready. Each waiting request then
// renders the playlist for itself, under the stream's mutex.
//
// Where the design of gohlslib does not matter, this server is cheaper. Fragments come from
// media/mp4, so that viewers get the same bytes from both servers. Playlists are appended to one
// buffer with strconv. A segment is concatenated once instead of for each request. Every body has a
// Content-Length, so that net/http sends it in one piece. PART-TARGET and TARGETDURATION do not
// change. Like gohlslib, the server does not compress with gzip.
package plain

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

const (
	partTarget    = 200 * time.Millisecond
	segmentTarget = 2 * time.Second // a segment ends at the first keyframe at or after this time
	maxSegments   = 7               // complete segments in a playlist, as in gohlslib by default
	partSegments  = 2               // complete segments listed with their parts, as in gohlslib
)

// A Server accepts FLV streams with video at POST /live/NAME and serves them at GET
// /live/NAME/index.m3u8. It has no authentication and no limits: it is for benchmarks only.
type Server struct {
	mu      sync.Mutex
	streams map[string]*stream

	rendered, parts atomic.Int64
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		s.metrics(w)
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/live/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPost {
		if err := s.publish(path, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		return
	}
	name, file, _ := strings.Cut(path, "/")
	s.mu.Lock()
	st := s.streams[name]
	s.mu.Unlock()
	switch {
	case st == nil:
		http.NotFound(w, r)
	case file == "index.m3u8":
		send(w, playlistType, "no-cache", []byte(multivariant))
	case file == "media.m3u8":
		st.servePlaylist(w, r)
	default:
		st.serveFile(w, r, file)
	}
}

// multivariant is the multivariant playlist. All streams have the format of the synthetic stream of
// package internal/load: 1280x720, H.264 Main Profile.
const multivariant = "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-INDEPENDENT-SEGMENTS\n" +
	"#EXT-X-STREAM-INF:BANDWIDTH=3000000,CODECS=\"avc1.4d401f,mp4a.40.2\",RESOLUTION=1280x720,FRAME-RATE=30.000\nmedia.m3u8\n"

const (
	playlistType = "application/vnd.apple.mpegurl"
	mediaType    = "video/mp4"
	mediaCache   = "max-age=3600"
)

func send(w http.ResponseWriter, kind, cache string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", cache)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

func (s *Server) metrics(w http.ResponseWriter) {
	allocs := []metrics.Sample{{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/tiny/allocs:objects"}}
	metrics.Read(allocs)
	fmt.Fprintf(w, "plain_playlists_rendered_total %d\nplain_allocs_total %d\n",
		s.rendered.Load(), allocs[0].Value.Uint64()+allocs[1].Value.Uint64())
}

func (s *Server) publish(name string, body io.Reader) error {
	st := &stream{server: s, files: make(map[string][]byte)}
	st.cond.L = &st.mu
	s.mu.Lock()
	if s.streams == nil {
		s.streams = make(map[string]*stream)
	}
	_, taken := s.streams[name]
	if !taken {
		s.streams[name] = st
	}
	s.mu.Unlock()
	if taken {
		return errors.New("the stream has a publisher")
	}
	defer func() {
		s.mu.Lock()
		delete(s.streams, name)
		s.mu.Unlock()
		st.close()
	}()
	r := millrace.NewReader(body)
	defer r.Release()
	d := flv.NewDecoder(r)
	header, err := d.Header()
	if err != nil {
		return err
	}
	m := mp4.NewMuxer(mp4.Tracks(header.HasVideo, header.HasAudio))
	defer m.Release()
	var tag, out millrace.Chain
	defer tag.Release()
	defer out.Release()
	for {
		t, err := d.Next(&tag)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := m.WriteTag(&out, t, &tag)
		if err != nil {
			return err
		}
		if f.NewInit {
			var init millrace.Chain
			if err := m.AppendInit(&init); err != nil {
				return err
			}
			st.setInit(copied(&init))
		}
		if t.Type == flv.TypeVideo && t.Packet == flv.PacketFrame {
			st.add(f, &out, t.Timestamp)
		}
	}
}

// copied returns a copy of the chain's bytes, and releases the chain.
func copied(c *millrace.Chain) []byte {
	b := make([]byte, c.Len())
	c.CopyTo(b)
	c.Release()
	return b
}
