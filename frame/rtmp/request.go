package rtmp

import (
	"net/url"
	"strings"
)

// A Request is what a client wants of a server.
type Request struct {
	Publish bool   // to publish; otherwise to play
	Path    string // application and stream name, as in "live/camera", without slashes around it and without a query
	// Query has the parameters that may stand behind the stream name, the application or the address. Those of the stream
	// name come first: OBS sends what its user has entered as the stream key.
	Query  url.Values
	Client string // the program, as it calls itself
}

// newRequest puts together what connect and publish or play say. Some programs divide an address of several levels behind
// the first, others before the last: both are the same Path.
func newRequest(publish bool, connect Object, name string) *Request {
	r := &Request{Publish: publish, Query: make(url.Values), Client: connect.text("flashVer")}
	name, query, _ := strings.Cut(name, "?")
	r.addQuery(query)
	app, query, _ := strings.Cut(connect.text("app"), "?")
	r.addQuery(query)
	_, query, _ = strings.Cut(connect.text("tcUrl"), "?")
	r.addQuery(query)
	r.Path = strings.Trim(strings.Trim(app, "/")+"/"+strings.Trim(name, "/"), "/")
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
	values, _ := url.ParseQuery(query) // what cannot be read is left out
	for key, v := range values {
		if !r.Query.Has(key) {
			r.Query[key] = v
		}
	}
}
