package web

import (
	"bytes"
	"hash/maphash"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/tcpconn"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// A players value serves the requests of HLS players for streams on this node and on other nodes.
type players struct {
	cfg   Config
	hls   live.HLS
	peers live.Peers
}

// serve serves GET and HEAD requests for /live/NAME/OBJECT.
func (s *players) serve(w http.ResponseWriter, r *http.Request, name, object string) {
	s.cfg.Origins.Allow(w.Header(), r)
	noWriteLimit(w) // a request may wait for the next part
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
		if s.cfg.Remote != nil && err != nil {
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

const playlistType = "application/vnd.apple.mpegurl"

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
	query := s.cfg.Gate.AddedQuery(r)
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
	access.NoteServed(r, len(body))
	h := w.Header()
	h.Set("Content-Type", playlistType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Add("Vary", "Accept-Encoding")
	if gzipped {
		h.Set("Content-Encoding", "gzip")
	}
	s.setCacheControl(w, r, fresh, "")
	s.cfg.Budget.LimitWrite(w)
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		address.Of(r.Context()).Add(int64(len(body)))
		_, _ = w.Write(body) // an error means that the client has gone
	}
	return nil
}

// setCacheControl sets the header Cache-Control. A cache may keep the response for maxAge. A shared
// cache may keep it only if the response is public (see access.Gate.IsPublic). suffix is appended
// to the header's value, for example ", immutable".
func (s *players) setCacheControl(w http.ResponseWriter, r *http.Request, maxAge time.Duration,
	suffix string) {
	who := "public"
	if !s.cfg.Gate.IsPublic(r) {
		who = "private"
	}
	w.Header().Set("Cache-Control", who+", max-age="+strconv.Itoa(int(maxAge/time.Second))+suffix)
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

// objectFresh is how long a cache may keep a segment. A segment never changes.
const objectFresh = time.Hour

func (s *players) serveObject(w http.ResponseWriter, r *http.Request, name, object string) error {
	o, ok := hls.ParseObject(object)
	if !ok {
		return refuse.New(http.StatusNotFound,
			"nothing here: see %s for the stream", hlslive.MasterName).For(refuse.Path)
	}
	var body millrace.Chain
	defer body.Release()
	if err := s.hls.Object(r.Context(), name, o, &body); err != nil {
		return err
	}
	return s.writeObject(w, r, object, &body)
}

// writeObject sends the bytes of an HLS object. It borrows body, and may remove bytes from it. If
// writeObject returns an error, the error is a [refuse.Refusal], and nothing has been sent.
func (s *players) writeObject(w http.ResponseWriter, r *http.Request, object string,
	body *millrace.Chain) error {
	if err := answer.Of(r).Resume(0); err != nil {
		return err
	}
	s.cfg.Budget.LimitWrite(w)
	h := w.Header()
	etag := `"` + object + `"`
	h.Set("ETag", etag)
	s.setCacheControl(w, r, objectFresh, ", immutable")
	if strings.Contains(r.Header.Get("If-None-Match"), etag) { // a weak tag or a list also matches
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "video/mp4")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		access.NoteServed(r, body.Len())
		s.sendChain(w, r, body)
	}
	return nil
}

// chainStep is the number of bytes that a client must accept within the stall timeout.
const chainStep = 256 << 10

// sendChain sends the bytes of c to the client. If the client has gone or accepts no data,
// sendChain panics with http.ErrAbortHandler.
func (s *players) sendChain(w http.ResponseWriter, r *http.Request, c *millrace.Chain) {
	var step millrace.Chain
	defer step.Release()
	loan := answer.Of(r)
	loan.LendHLS(c.Len())
	account := address.Of(r.Context())
	tcp := tcpconn.Plain(tcpconn.FromContext(r.Context()))
	for c.Len() > 0 {
		account.Pace(r.Context(), int64(min(c.Len(), chainStep)))
		s.cfg.Budget.LimitWrite(w)
		if !loan.Renew() {
			panic(http.ErrAbortHandler)
		}
		c.CutTo(&step, min(c.Len(), chainStep))
		var err error
		if rf, ok := w.(io.ReaderFrom); ok {
			_, err = rf.ReadFrom(chainBody{&step, tcp})
		} else {
			_, err = step.WriteTo(w)
		}
		if err != nil {
			panic(http.ErrAbortHandler) // because the response is incomplete
		}
	}
}

// A chainBody is the body of a response. Over HTTP/1 without TLS, net/http passes it to the TCP
// connection, which calls WriteTo. WriteTo sends all pieces of the chain with one writev.
type chainBody struct {
	*millrace.Chain
	tcp *net.TCPConn // nil if the client does not use plain TCP
}

// Read copies bytes to p. net/http reads the first 512 bytes of a body in this way to detect its
// type. These bytes are sent together with the response header.
func (b chainBody) Read(p []byte) (int, error) {
	n := b.CopyTo(p)
	b.Discard(n)
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo writes all of b to w.
func (b chainBody) WriteTo(w io.Writer) (int64, error) {
	// If w has the method SetNoDelay, w is the TCP connection b.tcp, or a wrapper from package net
	// that contains b.tcp. In both cases, write to b.tcp, because Chain.WriteTo does not use writev
	// for a wrapper.
	if _, ok := w.(interface{ SetNoDelay(bool) error }); ok && b.tcp != nil {
		w = b.tcp
	}
	return b.Chain.WriteTo(w)
}
