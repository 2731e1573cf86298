package web

import (
	"bytes"
	"hash/maphash"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// A players value serves HLS players, for streams on this node and on other nodes.
type players struct {
	cfg     Config
	hls     live.HLS
	viewers live.Admission
	peers   live.Peers
}

// serve serves GET and HEAD requests for /live/NAME/OBJECT.
func (s *players) serve(w http.ResponseWriter, r *http.Request, name, object string) {
	s.cfg.Origins.Allow(w.Header(), r)
	if r.ProtoMajor == 2 {
		noWriteLimit(w) // otherwise the limit would end a request that waits for the next part
	}
	answer.Of(r).GiveBack()
	err := streamname.Check(name)
	if err == nil {
		account := address.Of(r.Context())
		if err = account.StartRequest(); err == nil {
			defer account.EndRequest()
			err = s.admitPlayer(account, r, name, object)
		}
	}
	if err == nil {
		r, name, err = s.cfg.Gate.AskPlayer(r, name)
	}
	if err == nil {
		err = s.serveHere(w, r, name, object)
		if s.cfg.Remote != nil && err != nil && object != streamname.Poster {
			err = s.serveElsewhere(w, r, name, object, err)
		}
	}
	if err != nil {
		s.cfg.Budget.RefuseViewer(w, r, err)
	}
}

var playerSeed = maphash.MakeSeed()

// admitPlayer counts an HLS player as a viewer of its client address when the player requests the
// first playlist. It returns a [refuse.Refusal] if the address has too many new viewers or has
// received too many bytes.
//
// Two requests from the same address count as different players if they are for different streams
// or have different tokens or queries.
func (s *players) admitPlayer(account *address.Account, r *http.Request, name,
	object string) error {
	begins := object == hlslive.MasterName
	if account == nil || !begins && !hlslive.IsMedia(object) {
		return nil
	}
	var h maphash.Hash
	h.SetSeed(playerSeed)
	h.WriteString(name + " " + s.cfg.Gate.Shown(r))
	return account.Player(h.Sum64(), begins)
}

func (s *players) serveHere(w http.ResponseWriter, r *http.Request, name, object string) error {
	switch {
	case object == hlslive.MasterName:
		return s.serveMaster(w, r, name)
	case hlslive.IsMedia(object):
		return s.serveMedia(w, r, name, object)
	case object == streamname.Poster:
		return s.servePoster(w, r, name)
	}
	return s.serveObject(w, r, name, object)
}

func (s *players) serveMaster(w http.ResponseWriter, r *http.Request, name string) error {
	list, err := s.hls.Master(r.Context(), name)
	if err != nil {
		return err
	}
	return s.servePlaylist(w, r, list, time.Second)
}

func (s *players) serveMedia(w http.ResponseWriter, r *http.Request, name, object string) error {
	want, blocks, err := hls.ParseReload(r.URL.RawQuery)
	if err != nil {
		return refuse.New(http.StatusBadRequest, "%v", err)
	}
	list, err := s.hls.Media(r.Context(), name, object, want, blocks)
	if err != nil {
		return err
	}
	// If the request names a segment or a part, all players get the same response, so a cache may
	// keep the response for longer.
	fresh := time.Second
	switch {
	case list.Late:
		fresh = 0
	case blocks:
		fresh = list.Target
	}
	return s.servePlaylist(w, r, list, fresh)
}

// Values of response headers. Responses share them, so they must not be changed.
var (
	playlistType  = []string{"application/vnd.apple.mpegurl"}
	objectType    = []string{"video/mp4"}
	gzipEncoding  = []string{"gzip"}
	varyEncoding  = []string{"Accept-Encoding"}
	publicObject  = []string{"public" + objectAge}
	privateObject = []string{"private" + objectAge}
)

// objectAge lets a cache keep a segment for an hour. A segment never changes.
const objectAge = ", max-age=3600, immutable"

// servePlaylist sends a playlist. fresh is how long a cache may keep the playlist.
func (s *players) servePlaylist(w http.ResponseWriter, r *http.Request, list *hlslive.Playlist,
	fresh time.Duration) error {
	if s.wantsGzip(r) {
		return s.writePlaylist(w, r, list.Gzip, true, fresh)
	}
	return s.writePlaylist(w, r, list.Text, false, fresh)
}

// wantsGzip reports whether to send the copy of a playlist that was compressed with gzip in
// advance. It returns false in two cases: if the client does not accept gzip, or if the query of
// the request must be added to the URLs in the playlist.
func (s *players) wantsGzip(r *http.Request) bool {
	return chunk.AcceptsEncoding(r.Header["Accept-Encoding"], "gzip") &&
		s.cfg.Gate.AddedQuery(r) == ""
}

// writePlaylist sends body, the text of a playlist. If gzipped is set, body is already compressed.
// If writePlaylist returns an error, the error is a [refuse.Refusal], and nothing has been sent.
func (s *players) writePlaylist(w http.ResponseWriter, r *http.Request, body []byte, gzipped bool,
	fresh time.Duration) error {
	query := ""
	if !gzipped {
		query = s.cfg.Gate.AddedQuery(r)
	}
	more := len(body)
	if query != "" {
		more += bytes.Count(body, []byte("\n")) * (len(query) + 1)
	}
	if err := answer.Of(r).Resume(more); err != nil {
		return err
	}
	if query != "" {
		body = addQuery(body, query)
	}
	s.cfg.Gate.NoteServed(r, len(body))
	h := w.Header()
	h["Content-Type"] = playlistType
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if h["Vary"] == nil {
		h["Vary"] = varyEncoding
	} else {
		h.Add("Vary", varyEncoding[0])
	}
	if gzipped {
		h["Content-Encoding"] = gzipEncoding
	}
	h.Set("Cache-Control", s.cacheFor(r, fresh))
	s.cfg.Budget.LimitWrite(w)
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		address.Of(r.Context()).Add(int64(len(body)))
		_, _ = w.Write(body) // an error means that the client has gone
	}
	return nil
}

// cacheFor returns the Cache-Control header of a response that caches may keep for a time.
func (s *players) cacheFor(r *http.Request, fresh time.Duration) string {
	who := "private"
	if s.cfg.Gate.IsPublic(r) {
		who = "public"
	}
	return who + ", max-age=" + strconv.Itoa(int(fresh/time.Second))
}

// addQuery returns the text of a playlist with query added to every URL.
func addQuery(text []byte, query string) []byte {
	var b bytes.Buffer
	query = "?" + query
	for line := range bytes.Lines(text) {
		uri := []byte(`URI="`)
		switch before, after, ok := bytes.Cut(line, uri); {
		case line[0] != '#' && line[0] != '\n':
			b.Write(bytes.TrimSuffix(line, []byte("\n")))
			b.WriteString(query + "\n")
		case ok:
			address, rest, _ := bytes.Cut(after, []byte(`"`))
			b.Write(before)
			b.Write(uri)
			b.Write(address)
			b.WriteString(query + `"`)
			b.Write(rest)
		default:
			b.Write(line)
		}
	}
	return b.Bytes()
}

func (s *players) serveObject(w http.ResponseWriter, r *http.Request, name, object string) error {
	o, ok := hls.ParseObject(object)
	if !ok {
		return refuse.New(http.StatusNotFound,
			"nothing here: see %s for the stream", hlslive.MasterName).For(refuse.Path)
	}
	body := newObjectBody()
	defer body.release()
	if err := s.hls.Object(r.Context(), name, o, &body.rest); err != nil {
		return err
	}
	return s.writeObject(w, r, object, body)
}

// writeObject sends the bytes of an HLS object. It borrows body, and may remove bytes from it. If
// writeObject returns an error, the error is a [refuse.Refusal], and nothing has been sent.
func (s *players) writeObject(w http.ResponseWriter, r *http.Request, object string,
	body *objectBody) error {
	if err := answer.Of(r).Resume(0); err != nil {
		return err
	}
	h := w.Header()
	etag := `"` + object + `"`
	h["Etag"] = []string{etag}
	// A shared cache may keep the response only if it is public.
	h["Cache-Control"] = privateObject
	if s.cfg.Gate.IsPublic(r) {
		h["Cache-Control"] = publicObject
	}
	if strings.Contains(r.Header.Get("If-None-Match"), etag) { // a weak tag or a list also matches
		s.cfg.Budget.LimitWrite(w)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	s.writeVideo(w, r, body)
	return nil
}

// servePoster sends the newest keyframe of a stream.
func (s *players) servePoster(w http.ResponseWriter, r *http.Request, name string) error {
	body := newObjectBody()
	defer body.release()
	if err := s.viewers.Poster(r.Context(), name, &body.rest); err != nil {
		return err
	}
	if err := answer.Of(r).Resume(0); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", s.cacheFor(r, time.Second))
	s.writeVideo(w, r, body)
	return nil
}

// writeVideo sends body as a response. The caller has set the headers for caches.
func (s *players) writeVideo(w http.ResponseWriter, r *http.Request, body *objectBody) {
	h := w.Header()
	h["Content-Type"] = objectType
	h.Set("Content-Length", strconv.Itoa(body.rest.Len()))
	if r.Method == http.MethodHead {
		s.cfg.Budget.LimitWrite(w)
		w.WriteHeader(http.StatusOK)
		return
	}
	s.cfg.Gate.NoteServed(r, body.rest.Len())
	s.sendBody(w, r, body)
}

// bodyStep is the number of bytes that a client must accept within the stall timeout. A body that
// is not much longer is sent in one step.
const bodyStep = 256 << 10

// sendBody sends the bytes of body to the client. If the client has gone or accepts no data,
// sendBody panics with http.ErrAbortHandler.
func (s *players) sendBody(w http.ResponseWriter, r *http.Request, body *objectBody) {
	loan := answer.Of(r)
	loan.LendHLS(body.rest.Len())
	account := address.Of(r.Context())
	to, http1 := w.(io.ReaderFrom)
	conn, plain := tcpconn.FromContext(r.Context()).(*proxy.Conn) // false if the client uses TLS
	if http1 && plain && body.rest.Len() > 0 {
		body.takeHead(w, conn)
	}
	for body.rest.Len() > 0 {
		n := body.rest.Len()
		if n > bodyStep+bodyStep/4 {
			n = bodyStep
		}
		account.Pace(r.Context(), int64(n))
		s.cfg.Budget.LimitWrite(w)
		if !loan.Renew() {
			panic(http.ErrAbortHandler)
		}
		body.rest.CutTo(&body.step, n)
		var err error
		if http1 {
			_, err = to.ReadFrom(body)
		} else {
			_, err = body.step.WriteTo(w)
		}
		if err != nil {
			panic(http.ErrAbortHandler) // because the response is incomplete
		}
	}
}

// An objectBody is the body of a response with an HLS object. Over HTTP/1 without TLS, it is a
// [proxy.Body]: it sends the response header together with the first bytes of the body.
type objectBody struct {
	head millrace.Chain // the response header, if takeHead was called
	step millrace.Chain // the bytes to send now
	rest millrace.Chain // the bytes after step
}

// objectBodies reuses the Chains, which keep their lists of pieces.
var objectBodies = sync.Pool{New: func() any { return new(objectBody) }}

// newObjectBody returns an empty objectBody. The caller must call release.
func newObjectBody() *objectBody { return objectBodies.Get().(*objectBody) }

func (b *objectBody) release() {
	b.head.Release()
	b.step.Release()
	b.rest.Release()
	objectBodies.Put(b)
}

// takeHead makes net/http write the response header to b.head instead of conn. The header must
// contain a Content-Length. Otherwise net/http would not call Send.
func (b *objectBody) takeHead(w http.ResponseWriter, conn *proxy.Conn) {
	conn.KeepHead(&b.head)
	defer conn.KeepHead(nil)
	_ = http.NewResponseController(w).Flush()
}

// Send sends the response header, if it has not been sent yet, and b.step with one writev.
func (b *objectBody) Send(c *net.TCPConn) (int64, error) {
	head := int64(b.head.Len())
	b.head.Merge(&b.step)
	n, err := b.head.WriteTo(c)
	return max(0, n-head), err
}

// WriteTo writes b.step to w. net/http calls it if the client uses TLS.
func (b *objectBody) WriteTo(w io.Writer) (int64, error) { return b.step.WriteTo(w) }

// Read makes b an io.Reader, which net/http requires. Because b has the method WriteTo, net/http
// reads only the beginning of b, and only if takeHead was not called.
func (b *objectBody) Read(p []byte) (int, error) {
	n := b.step.CopyTo(p)
	b.step.Discard(n)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
