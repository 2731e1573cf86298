package access

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/server/internal/hook"
)

// A player is an HLS player that the hook has allowed.
type player struct {
	*hook.Play
	query string // query of the client's request
}

type playerKey struct{}

// playerOf returns the player of a request, or nil if the hook was not asked about the request.
func playerOf(r *http.Request) *player {
	p, _ := r.Context().Value(playerKey{}).(*player)
	return p
}

// AskPlayer asks the hook about an HLS player, unless an earlier answer is still valid. It returns
// the request to serve, and the public name of the stream. If there is no hook, or the request is
// from another node, it returns r and name.
func (g *Gate) AskPlayer(r *http.Request, name string) (*http.Request, string, error) {
	if _, ok := NodeOf(r); ok || g.hook == nil {
		return r, name, nil
	}
	q := g.Question(hook.PlayBegin, r, name, hook.HLS)
	q.Address = withoutPort(q.Address)
	q.Query = ownQuery(r.URL.RawQuery)
	p := &player{query: q.Query}
	var err error
	if p.Play, err = g.hook.Play(r.Context(), q); err != nil {
		return r, "", err
	}
	a := p.Answer()
	if name, err = publicName(name, &a); err != nil {
		return r, "", err
	}
	return r.WithContext(context.WithValue(r.Context(), playerKey{}, p)), name, nil
}

// NoteServed counts n HLS bytes as sent to the player of r, if the hook was asked about r.
func NoteServed(r *http.Request, n int) {
	if p := playerOf(r); p != nil {
		p.Served(n)
	}
}

// Shown returns the credentials that distinguish an HLS player from others at its address. They are
// the token and, if there is a hook, also the player's whole query, because the hook is asked about
// each query.
func (g *Gate) Shown(r *http.Request) string {
	shown := g.Policy().shownToken(r)
	if g.hook != nil {
		shown += " " + ownQuery(r.URL.RawQuery)
	}
	return shown
}

// maxAddedToken limits the length in bytes of the token that is added to the addresses in a
// playlist, because a playlist has hundreds of addresses. Signed tokens are never longer.
const maxAddedToken = 1 << 10

// AddedQuery returns the query, without "?", that is added to each address in a playlist. It must
// be added because players do not repeat their own query. If the hook was asked about r, it is the
// whole query that the hook has seen. Otherwise it is the token, if reading needs a token.
func (g *Gate) AddedQuery(r *http.Request) string {
	if p := playerOf(r); p != nil {
		return p.query
	}
	p := g.Policy()
	if !p.readNeedsToken(r) {
		return ""
	}
	if token := p.QueryToken(r.URL.RawQuery); token != "" && len(token) <= maxAddedToken {
		return "token=" + url.QueryEscape(token)
	}
	return ""
}

// IsPublic reports whether a shared cache may keep the response to a request. It may if everyone
// may read, there is no hook, and the request contains no token.
func (g *Gate) IsPublic(r *http.Request) bool {
	p := g.Policy()
	return p.Read == "" && p.shownToken(r) == "" && g.hook == nil
}

// ownQuery returns a client's query without the parameters that HLS players add. It sorts the
// parameters, so that all requests of a player have the same query. It escapes the result for a
// playlist.
func ownQuery(query string) string {
	own := strings.Split(query, "&")
	own = slices.DeleteFunc(own, func(parameter string) bool {
		return parameter == "" || strings.HasPrefix(parameter, "_HLS_")
	})
	slices.SortStableFunc(own, func(a, b string) int {
		key, _, _ := strings.Cut(a, "=")
		other, _, _ := strings.Cut(b, "=")
		return strings.Compare(key, other)
	})
	return notInPlaylists.Replace(strings.Join(own, "&"))
}

// notInPlaylists escapes characters that are allowed in a client's query but end an address in a
// playlist.
var notInPlaylists = strings.NewReplacer(" ", "%20", `"`, "%22", "#", "%23")
