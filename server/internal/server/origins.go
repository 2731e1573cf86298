package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// origins are the sites whose pages may play streams; "*" stands for all.
type origins []string

// parseOrigins understands a list with commas.
func parseOrigins(list string) (origins, error) {
	var o origins
	for origin := range strings.SplitSeq(list, ",") {
		origin = strings.ToLower(strings.TrimSpace(origin))
		u, err := url.Parse(origin)
		switch {
		case origin == "":
			continue
		case origin != "*" && (err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host):
			return nil, fmt.Errorf("--cors has %.80q, want origins such as https://example.org or http://localhost:3000, or *",
				origin)
		}
		o = append(o, origin)
	}
	return o, nil
}

// allow sets the headers of an answer that a page of another site may read, and reports whether it may.
func (o *origins) allow(h http.Header, r *http.Request) bool {
	if slices.Contains(*o, "*") {
		h.Set("Access-Control-Allow-Origin", "*")
		return true
	}
	if len(*o) > 0 {
		h.Add("Vary", "Origin")
	}
	origin := r.Header.Get("Origin")
	if !slices.Contains(*o, strings.ToLower(origin)) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	return true
}
