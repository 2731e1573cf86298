package download

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// maxHeader bounds what a server's headers may take. Real ones have a few KiB.
	maxHeader = 64 << 10

	// maxRedirects is what net/http allows, too.
	maxRedirects = 10
)

// A redirectError refuses to follow.
type redirectError struct{ reason string }

func (e *redirectError) Error() string { return e.reason }

// newClient returns a client that has connections of its own, and what closes them.
func newClient() (*http.Client, func()) {
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // nothing is decoded on the way: lengths and ranges are of the bytes as sent
		MaxResponseHeaderBytes: maxHeader,
		TLSHandshakeTimeout:    10 * time.Second, // as net/http's own client
	}
	c := &http.Client{Transport: t, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return &redirectError{"the server redirects more than 10 times"}
		}
		if next.URL.Scheme != "http" && next.URL.Scheme != "https" {
			return &redirectError{fmt.Sprintf("the server redirects to a %.20q URL", next.URL.Scheme)}
		}
		if via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return &redirectError{"the server redirects from https to http, where anybody could change the file"}
		}
		return nil
	}}
	return c, t.CloseIdleConnections
}
