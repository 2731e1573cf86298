package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // for playerPage
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/millrace-io/millrace/server/internal/streamname"
)

// playerPage is the page at /live/NAME/, which shows the video of a stream, and nothing else. Pages
// of other sites may show it in a frame. A frame does not get the cookie with the token, so
// everything is in this one file, and its script passes the query to the stream.
//
//go:embed player.html
var playerPage []byte

// playerPolicy is the Content-Security-Policy of playerPage without [access.Origins.Ancestors].
var playerPolicy = "default-src 'none'; script-src " + hashOf("script") + "; style-src " +
	hashOf("style") + "; connect-src 'self'; media-src 'self' blob:; base-uri 'none'; form-action 'none'; "

// hashOf returns the source expression for an inline element of playerPage.
func hashOf(element string) string {
	_, rest, _ := bytes.Cut(playerPage, []byte("<"+element+">"))
	text, _, ok := bytes.Cut(rest, []byte("</"+element+">"))
	if !ok {
		panic("web: the player has no " + element)
	}
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// servePlayer serves GET and HEAD requests for /live/NAME/.
func (s *Service) servePlayer(w http.ResponseWriter, r *http.Request, name string) error {
	if err := streamname.Check(name); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(playerPage)))
	h.Set("Content-Security-Policy", playerPolicy+s.cfg.Origins.Ancestors())
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(playerPage) // an error means that the client has gone
	}
	return nil
}
