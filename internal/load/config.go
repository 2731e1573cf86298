package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Limits of a load test. Without them, a typing error could turn a test into a denial-of-service
// attack.
const (
	maxStreams  = 2_000
	maxViewers  = 50_000 // of all streams together
	maxDuration = 24 * time.Hour
	maxBitRate  = 200_000_000
	minBitRate  = 150_000 // audio alone is 128 kbit/s
)

// DialFunc opens a connection, like the DialContext method of net.Dialer.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Config describes a load test. It must have a URL or a Protocol, and Streams or Names. Any other
// zero field stands for its default.
type Config struct {
	// URL is the server's URL, such as http://127.0.0.1:8080. The streams are at URL/live/NAME. If
	// the host is not this machine, Check returns an error unless AllowRemote is set.
	URL         string
	AllowRemote bool

	// Ending is appended to a stream's name in the URL, for servers that expect /live/NAME.flv.
	Ending string

	// Names are the names of the streams. If Names is empty, the names are load-0, load-1, and so
	// on, and the field Streams is the number of streams.
	Names   []string
	Streams int
	// NoPublish is for streams that another program publishes. Lost frames and latency are then
	// unknown, unless that program uses this package, too.
	NoPublish bool
	// Token authorizes the publishers, and the viewers if they need authorization.
	Token string

	// Viewers is the number of viewers of each stream. Stalled is the total number of viewers that
	// stop reading after the response header. These viewers start to read again after StallFor
	// (default one minute).
	Viewers  int
	Stalled  int
	StallFor time.Duration

	// BitRate is the rate of a stream's audio and video together, in bits per second (default 2.15
	// Mbit/s). KeyInterval is the time between keyframes (default 2 s).
	BitRate     int
	KeyInterval time.Duration

	// During Ramp (default 1 s) the viewers start one by one. After Settle (default 1 s) the
	// measurement begins, and it lasts for Duration (default 10 s).
	Ramp, Settle, Duration time.Duration

	// ServerPIDs are the process ids of the server on this machine. The report then has the
	// server's CPU time and memory (Linux only).
	ServerPIDs []int

	// Protocol transfers the streams. If Protocol is nil, the streams are transferred as FLV over
	// HTTP.
	//
	// Dial makes the connections for FLV over HTTP. The default is the DialContext method of a
	// net.Dialer. If Protocol is set, Dial is not used.
	Protocol Protocol
	Dial     DialFunc
}

// WithDefaults returns c with the defaults in place of zero values.
func (c Config) WithDefaults() Config {
	defaultTo(&c.StallFor, time.Minute)
	defaultTo(&c.BitRate, 2_150_000)
	defaultTo(&c.KeyInterval, 2*time.Second)
	defaultTo(&c.Ramp, time.Second)
	defaultTo(&c.Settle, time.Second)
	defaultTo(&c.Duration, 10*time.Second)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	return c
}

func defaultTo[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (c Config) streamNames() []string {
	if len(c.Names) > 0 {
		return c.Names
	}
	names := make([]string, c.Streams)
	for i := range names {
		names[i] = fmt.Sprintf("load-%d", i)
	}
	return names
}

// Check returns an error for values that Run cannot use.
func (c Config) Check() error {
	c = c.WithDefaults()
	streams := c.Streams
	if len(c.Names) > 0 {
		streams = len(c.Names)
	}
	switch {
	case streams < 1 || streams > maxStreams:
		return fmt.Errorf("load: %d streams: the limit is 1 to %d", streams, maxStreams)
	case c.Viewers < 0 || c.Viewers > maxViewers/streams:
		return fmt.Errorf("load: %d viewers for each of %d streams: the limit is %d in all",
			c.Viewers, streams, maxViewers)
	case c.Viewers == 0 && c.NoPublish:
		return errors.New("load: neither publishers nor viewers")
	case c.Stalled < 0 || c.Stalled > streams*c.Viewers:
		return fmt.Errorf("load: %d stalled viewers out of %d", c.Stalled, streams*c.Viewers)
	case c.BitRate < minBitRate || c.BitRate > maxBitRate:
		return fmt.Errorf("load: bit rate of %d: the limit is %d to %d bits a second", c.BitRate,
			minBitRate, maxBitRate)
	case c.KeyInterval < 100*time.Millisecond || c.KeyInterval > time.Minute:
		return fmt.Errorf("load: keyframe interval of %v: the limit is 100ms to 1m", c.KeyInterval)
	}
	for _, d := range []time.Duration{c.Ramp, c.Settle, c.Duration, c.StallFor} {
		if d < 0 || d > maxDuration {
			return fmt.Errorf("load: a time of %v: the limit is %v", d, maxDuration)
		}
	}
	for _, name := range c.Names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if err := checkProcesses(c.ServerPIDs); err != nil {
		return err
	}
	if c.Protocol != nil {
		return nil
	}
	return c.checkURL()
}

const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// checkName returns an error if the name would change other parts of an HTTP request line.
func checkName(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if strings.Trim(part, ".") == "" || strings.Trim(part, nameBytes) != "" {
			return fmt.Errorf(
				"load: bad stream name %.80q: want A-Z a-z 0-9 . _ -, not dots alone, in parts with a slash between them", name)
		}
	}
	return nil
}

func (c Config) checkURL() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		return fmt.Errorf("load: --url is %q, want http://HOST:PORT", c.URL)
	}
	if c.AllowRemote || u.Hostname() == "localhost" {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("load: %s is another machine: --remote allows a load on it", u.Hostname())
	}
	return nil
}
