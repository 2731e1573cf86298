package rtmp

import (
	"net/url"
	"strings"
)

// A Request is a client's request to publish or play.
type Request struct {
	Publish bool // to publish; otherwise to play
	// Application and stream name, as in "live/camera", without slashes around it and without a
	// query.
	Path string
	// Query has the parameters of the stream name, the application and the address. The stream name
	// wins: OBS sends the user's stream key there. People type keys literally: "+" and ";" stand
	// for themselves, and an invalid escape is left unchanged.
	Query url.Values
	// RawQuery is the same as the client sent it, with "&" between them.
	RawQuery string
	Client   string // the program, as it calls itself
}

// newRequest combines the arguments of connect and of publish or play. Some programs split an
// address with several levels after the first level, others before the last: both give the same
// Path. They also split it at a slash inside the query; name then has the rest of the query.
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
		appQuery, name = appQuery+"/"+name, "" // app names the stream already
	}
	for _, q := range []string{query, appQuery, address} {
		r.addQuery(q)
	}
	r.Path = strings.Trim(app+"/"+strings.Trim(name, "/"), "/")
	return r
}

// streamName returns the name in a stream key, without the parameters and the slashes around it.
func streamName(key string) string {
	name, _, _ := strings.Cut(key, "?")
	return strings.Trim(name, "/")
}

// addQuery adds parameters that are not known yet.
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

// unescape returns text without its escapes, or text if an escape is invalid.
func unescape(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
