package rtmp

import (
	"net/url"
	"strings"
)

// A Request is a client's request to publish or play.
type Request struct {
	Publish bool // false: the client wants to play
	// Path is the application and the stream name, such as "live/camera", without slashes at the
	// ends and without a query.
	Path string
	// Query has the parameters of the stream name, the application and the address, in this order
	// of precedence, because OBS users enter the stream key in the stream name. Users type keys
	// literally, so "+", ";" and invalid escapes are not decoded.
	Query url.Values
	// RawQuery has the query strings (after "?") of the stream name, the application and the
	// address as the client sent them, joined with "&".
	RawQuery string
	Client   string // name of the client program, as the client sent it
}

// newRequest makes a Request from the arguments of the connect command and of the publish or play
// command. name is the argument of publish or play, usually the stream name.
//
// For the address rtmp://host/a/b/c, some programs send the application "a" and the stream name
// "b/c", and others send "a/b" and "c". newRequest returns the Path "a/b/c" for both.
//
// Some programs split the address at a slash in its query. For rtmp://host/a/b?x=1/2, they send the
// application "a/b?x=1" and the name "2". newRequest then adds the name to the query.
func newRequest(publish bool, connect Object, name string) *Request {
	r := &Request{Publish: publish, Query: make(url.Values), Client: connect.text("flashVer")}
	name, query, hasQuery := strings.Cut(name, "?")
	app, appQuery, divided := strings.Cut(connect.text("app"), "?")
	_, address, _ := strings.Cut(connect.text("tcUrl"), "?")
	if address == appQuery {
		address = ""
	}
	app = strings.Trim(app, "/")
	if divided && !hasQuery && name != "" && strings.Contains(app, "/") {
		appQuery, name = appQuery+"/"+name, "" // app already has the stream name
	}
	for _, q := range []string{query, appQuery, address} {
		r.addQuery(q)
	}
	r.Path = strings.Trim(app+"/"+strings.Trim(name, "/"), "/")
	return r
}

func streamName(key string) string {
	name, _, _ := strings.Cut(key, "?")
	return strings.Trim(name, "/")
}

// addQuery appends query to r.RawQuery. It adds the parameters of query to r.Query, except
// parameters that r.Query already has.
func (r *Request) addQuery(query string) {
	if query == "" {
		return
	}
	if r.RawQuery != "" {
		r.RawQuery += "&"
	}
	r.RawQuery += query
	values := make(url.Values)
	for parameter := range strings.SplitSeq(query, "&") {
		if key, value, _ := strings.Cut(parameter, "="); parameter != "" {
			key = unescape(key)
			values[key] = append(values[key], unescape(value))
		}
	}
	for key, v := range values {
		if !r.Query.Has(key) {
			r.Query[key] = v
		}
	}
}

// unescape decodes the URL escapes in text. If one is invalid, it returns text unchanged.
func unescape(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
