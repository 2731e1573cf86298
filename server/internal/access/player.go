package access

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/server/internal/hook"
)

// A player is an HLS player that the operator's hook has allowed.
type player struct {
	*hook.Play
	query string // query that was sent to the hook
}

type playerKey struct{}

// playerOf returns the player of a request, or nil if AskPlayer did not ask the hook about the
// request.
func (g *Gate) playerOf(r *http.Request) *player {
	if g.hook == nil {
		return nil
	}
	p, _ := r.Context().Value(playerKey{}).(*player)
	return p
}

// AskPlayer asks the operator's hook whether an HLS player may play the stream called name. If an
// earlier answer is still valid, AskPlayer uses it.
//
// AskPlayer returns the name of the stream to play, which the hook may have changed. It also
// returns a copy of r that contains the hook's answer. Pass this copy to NoteServed and AddedQuery.
//
// If there is no hook, or if the request is from another node of the cluster, AskPlayer returns r
// and name.
func (g *Gate) AskPlayer(r *http.Request, name string) (*http.Request, string, error) {
	if g.hook == nil {
		return r, name, nil
	}
	if _, ok := NodeOf(r); ok {
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

// NoteServed records that HLS data was sent to the player that made the request r. The number of
// bytes is n. If AskPlayer has not asked the hook about r, NoteServed does nothing.
func (g *Gate) NoteServed(r *http.Request, n int) {
	if p := g.playerOf(r); p != nil {
		p.Served(n)
	}
}

// Shown returns a string that distinguishes HLS players with the same address. The string contains
// the token of the request. If there is a hook, the string also contains the query, because the
// hook may answer differently for each query.
func (g *Gate) Shown(r *http.Request) string {
	text := g.Policy().requestToken(r)
	if g.hook != nil {
		text += " " + ownQuery(r.URL.RawQuery)
	}
	return text
}

// maxAddedToken is the maximum length in bytes of a token that is added to the URLs in a playlist.
// It keeps playlists small, because a playlist has hundreds of URLs. Signed tokens are never
// longer.
const maxAddedToken = 1 << 10

// AddedQuery returns the query, without "?", that must be added to each URL in a playlist. The
// argument r is the request for the playlist. Players do not copy the query of r to their later
// requests.
//
//   - If the hook was asked about r, the result is the query that was sent to the hook.
//   - Otherwise, if reading needs a token, the result is token=TOKEN, where TOKEN is the token in
//     the query of r. A token longer than maxAddedToken is not added.
//   - In all other cases, the result is "".
func (g *Gate) AddedQuery(r *http.Request) string {
	if p := g.playerOf(r); p != nil {
		return p.query
	}
	p := g.Policy()
	token := p.QueryToken(r.URL.RawQuery)
	if token == "" || len(token) > maxAddedToken || !p.readNeedsToken(r) {
		return ""
	}
	return "token=" + url.QueryEscape(token)
}

// IsPublic reports whether a shared cache may store the response to a request. This requires that
// the server has no read token and no hook, and that the request has no token.
func (g *Gate) IsPublic(r *http.Request) bool {
	p := g.Policy()
	return p.Read == "" && p.requestToken(r) == "" && g.hook == nil
}

// ownQuery returns a client's query without the parameters that HLS players add. It sorts the
// parameters, so that all requests of a player have the same query. It escapes characters that must
// not be in a playlist.
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

// notInPlaylists escapes the characters of a query that would end a URL in a playlist.
var notInPlaylists = strings.NewReplacer(" ", "%20", `"`, "%22", "#", "%23")
