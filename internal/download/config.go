package download

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Config says what is to be fetched, and how.
type Config struct {
	URL    string
	Path   string    // where the file is to be; empty: it is written to Stdout
	Stdout io.Writer // used only if Path is empty
	Force  bool      // replace what is at Path, and a Path.part of unknown or other origin

	// Retries is how many tries in a row may fail without any progress, and how often a file may be started over.
	Retries      int
	StallTimeout time.Duration // a try that gets no byte for this long has failed
	Backoff      time.Duration // before the second try; doubled after each that gets nothing, short after one that gets much

	Client   *http.Client                 // nil: one that trusts the system's roots, and no redirect from https to http
	Progress func(bytes int64, all int64) // called with how much there is, of how much (-1: nobody knows); nil: nobody is told
	Note     func(text string)            // called with what a user may want to know, a sentence; nil: nobody is told
}

// Defaults returns the configuration of a download that was asked for nothing special.
func Defaults() Config {
	return Config{
		// With the backoff below, a server may be away for half a minute: as long as one takes to start again.
		Retries: 5,
		// A roaming handover is over by then, and a connection that a router has forgotten is not waited for in vain.
		StallTimeout: 30 * time.Second,
		// A server that closes connections because it starts anew is there again after a second.
		Backoff: time.Second,
	}
}

// A Result says what a download has brought.
type Result struct {
	Bytes   int64 // that the file has
	Fetched int64 // that came over the network; more than Bytes if the file was started over
	Resumed int64 // that were there before, and still are
	Tries   int
	Checked bool // the length was compared with what the server said; otherwise it said nothing
}

// check refuses what cannot work, naming the field by its flag.
func (c *Config) check() error {
	u, err := url.Parse(c.URL)
	if err != nil {
		var bad *url.Error // which would repeat a password
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return fmt.Errorf("the URL, which begins with http:// or https://, cannot be read: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("%q is no http or https URL", u.Redacted())
	case c.Retries < 0:
		return fmt.Errorf("--retries is %d, want at least 0", c.Retries)
	case c.StallTimeout <= 0:
		return fmt.Errorf("--stall-timeout is %v, want more than 0", c.StallTimeout)
	case c.Path == "" && c.Stdout == nil:
		return errors.New("there is nowhere to write to")
	}
	return nil
}
