package rtmp

import (
	"net/url"
	"strings"
)

// A Request is a client's request to publish or play.
type Request struct {
	Publish bool // the client wants to publish; otherwise to play
	// Application and stream name, as in "live/camera", without leading and trailing slashes and
	// without a query.
	Path string
	// Query has the parameters of the stream name, the application and the address. If a parameter
	// occurs several times, the value in the stream name is used, because OBS sends the user's
	// stream key there. People type keys literally. Therefore "+" and ";" are not decoded, and an
	// invalid escape is left unchanged.
	Query url.Values
	// RawQuery has the same parameters. They are as the client sent them, with "&" between them.
	RawQuery string
	Client   string // name of the client program, as it sends it
}

// newRequest combines the arguments of connect and of publish or play. If an address has several
// levels, some programs split it after the first level, and others before the last level.
// newRequest returns the same Path for both. Some programs also split an address at a slash inside
// the query. In that case, name has the rest of the query.
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
		appQuery, name = appQuery+"/"+name, "" // app already contains the stream name
	}
	for _, q := range []string{query, appQuery, address} {
		r.addQuery(q)
	}
	r.Path = strings.Trim(app+"/"+strings.Trim(name, "/"), "/")
	return r
}

// streamName returns the name in a stream key, without parameters and without leading and trailing
// slashes.
func streamName(key string) string {
	name, _, _ := strings.Cut(key, "?")
	return strings.Trim(name, "/")
}

// addQuery adds the parameters of query that r does not have yet.
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

// unescape returns text with its escapes decoded, or text unchanged if an escape is invalid.
func unescape(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
