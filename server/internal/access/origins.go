package access

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// Origins lists the other web sites that may play streams. "*" means all sites. The zero value
// allows no site.
type Origins struct{ list atomic.Pointer[[]string] }

// ParseOrigins parses a comma-separated list of origins.
func ParseOrigins(list string) ([]string, error) {
	var origins []string
	for origin := range strings.SplitSeq(list, ",") {
		origin = strings.ToLower(strings.TrimSpace(origin))
		u, err := url.Parse(origin)
		switch {
		case origin == "":
			continue
		case origin != "*" && (err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host):
			return nil, fmt.Errorf(
				"--cors has %.80q, want origins such as https://example.org or http://localhost:3000, or *",
				origin)
		}
		origins = append(origins, origin)
	}
	return origins, nil
}

// Set replaces the list of origins. It takes ownership of list.
func (o *Origins) Set(list []string) { o.list.Store(&list) }

// Ancestors returns the frame-ancestors directive of a Content-Security-Policy, with the sites that
// may embed the player. It returns "" if all sites may.
func (o *Origins) Ancestors() string {
	list := []string{"frame-ancestors 'self'"}
	if set := o.list.Load(); set != nil {
		list = append(list, *set...)
	}
	if slices.Contains(list, "*") { // in a policy, * would not include files and programs
		return ""
	}
	return strings.Join(list, " ")
}

// allOrigins is a header value that all responses share, so it must not be changed.
var allOrigins = []string{"*"}

// Allow sets the CORS headers in h, the header of the response to r. It reports whether the page
// that sent r may read the response. The caller may serve the request even if the result is false.
func (o *Origins) Allow(h http.Header, r *http.Request) bool {
	var list []string
	if set := o.list.Load(); set != nil {
		list = *set
	}
	if slices.Contains(list, "*") {
		h["Access-Control-Allow-Origin"] = allOrigins
		return true
	}
	if len(list) > 0 {
		h.Add("Vary", "Origin")
	}
	origin := r.Header.Get("Origin")
	if !slices.Contains(list, strings.ToLower(origin)) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	return true
}
