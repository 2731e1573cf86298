package upload

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Config says what is to be put where, and how.
type Config struct {
	URL      string
	Path     string    // the file; empty: Stdin is read to its end
	Stdin    io.Reader // used only if Path is empty
	Token    string    // shown as Authorization: Bearer; empty: none
	TTL      time.Duration
	IfAbsent bool // only if there is nothing at URL

	Retries      int           // how many tries may fail
	StallTimeout time.Duration // a try has failed when the server takes nothing of it, or says nothing, for this long
	Backoff      time.Duration // before the second try; doubled after each further one

	Client   *http.Client                // nil: one that trusts the system's roots
	Progress func(bytes int64, of int64) // called with how much was read, of how much (-1: nobody knows); nil: nobody is told
	Note     func(text string)           // called with what a user may want to know, a sentence; nil: nobody is told
}

// Defaults returns the configuration of an upload that was asked for nothing special.
func Defaults() Config {
	return Config{
		// With the backoff below, a server may be away for half a minute: as long as one takes to start again.
		Retries: 5,
		// As a download.
		StallTimeout: 30 * time.Second,
		Backoff:      time.Second,
	}
}

// A Result says what an upload has done.
type Result struct {
	Bytes   int64
	Created bool   // there was nothing at the URL
	ETag    string // of what is there now, as the server has it; or ""
	Tries   int
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
	case c.TTL < 0 || c.TTL > 0 && c.TTL < time.Millisecond:
		return fmt.Errorf("--ttl is %v, want at least 1ms, or 0 for ever", c.TTL)
	case c.Retries < 0:
		return fmt.Errorf("--retries is %d, want at least 0", c.Retries)
	case c.StallTimeout <= 0:
		return fmt.Errorf("--stall-timeout is %v, want more than 0", c.StallTimeout)
	case c.Path == "" && c.Stdin == nil:
		return errors.New("there is nothing to read")
	}
	return nil
}
