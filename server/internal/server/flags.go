package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/bytesize"
	"github.com/millrace-io/millrace/server/internal/live"
)

// A Flag describes how an operator sets a field of a [Config]. The command line, the configuration
// file, the --help text and the manual's list of flags all use this description.
type Flag struct {
	Name string
	// Value is a pointer to the option, usually a field of the Config: a *string, *bool, *int or
	// *time.Duration, or a pflag.Value.
	Value any
	Help  string // the effect, the limits, and the meaning of 0
	Page  string // page of the manual with more details; may be empty

	Min, Max int64 // limits of Value, in ns for a duration; a Max of 0 means no limit
	OrZero   bool  // whether 0 is valid although it is below Min

	Needs []string // the flag has no effect if none of these flags is set; may be nil
	// Secret means that the value is never printed. An operator can set it with an environment
	// variable, so that it does not appear in the list of processes.
	Secret bool
	// NoCommand means that the option has no flag, only an environment variable and a line in the
	// configuration file. On the command line, the value is part of the URL in another flag.
	NoCommand bool
}

// A FlagGroup is a group of related flags.
type FlagGroup struct {
	Title string
	Flags []Flag
}

// Flags returns the flags of c. The defaults are the current values of c.
func (c *Config) Flags() []FlagGroup {
	ns := func(d time.Duration) int64 { return int64(d) }
	return []FlagGroup{
		{"Addresses", []Flag{
			{Name: "listen", Value: &c.Listen,
				Help: "address to listen on; port 0: a free port, which the log shows"},
			{Name: "rtmp", Value: &c.RTMP, Page: "serve.md#rtmp",
				Help: `address for RTMP publishers and viewers; "" turns RTMP off`},
			{Name: "rtmps", Value: &c.RTMPS, Page: "serve.md#rtmp",
				Help: "the same over TLS, with the certificate of --tls-cert or --acme"},
			{Name: "admin", Value: &c.Admin, Page: "admin.md",
				Help: "second address, for the operator: a page, /api/streams, /metrics and /debug/pprof"},
			{Name: "tls-cert", Value: &c.TLSCert,
				Help: "PEM file with the certificate; turns the main listener to TLS"},
			{Name: "tls-key", Value: &c.TLSKey, Help: "PEM file with its key"},
			{Name: "acme", Value: &c.ACME, Page: "deploy.md#certificates",
				Help: "host names, as in live.example.org,…, for which to get certificates from Let's Encrypt instead; you agree to its terms"},
			{Name: "acme-cache", Value: &c.ACMECache, Needs: []string{"acme"},
				Page: "deploy.md#certificates",
				Help: "directory for these certificates; redis: the Redis of --cluster, for all nodes"},
			{Name: "acme-url", Value: &c.ACMEURL, Needs: []string{"acme"},
				Help: "directory URL of another authority (RFC 8555)"},
			{Name: "acme-ca", Value: &c.ACMECA, Needs: []string{"acme"},
				Help: "PEM file with authorities to trust for --acme-url, in addition to the system's"},
			{Name: "acme-email", Value: &c.ACMEEmail, Needs: []string{"acme"},
				Help: "address for messages from the authority"},
			{Name: "http-redirect", Value: &c.HTTPRedirect, Page: "deploy.md#certificates",
				Help: "address for HTTP without TLS, such as :80; redirects to https"},
			{Name: "trusted-proxies", Value: &c.TrustedProxies, Page: "access.md#behind-a-proxy",
				Help: "addresses or networks of proxies, as in 10.0.0.0/8,127.0.0.1; the client's address is taken from their PROXY header or X-Forwarded-For"},
		}},
		{"Who may publish and watch", []Flag{
			{Name: "publish-token", Value: &c.PublishToken, Secret: true, Page: "access.md",
				Help: "token for publishers; where other machines can reach the listener, publishing needs it, --token-key or --hook"},
			{Name: "read-token", Value: &c.ReadToken, Secret: true, Page: "access.md",
				Help: "token for viewers and all other readers; without it everyone may read; the publish token is accepted, too"},
			{Name: "admin-token", Value: &c.AdminToken, Secret: true, Page: "admin.md",
				Help: "token for --admin; required to end anything if other machines can reach it"},
			{Name: "token-key", Value: &c.TokenKey, Page: "access.md#signed-tokens",
				Help: "file with the keys that verify signed tokens (JWT)"},
			{Name: "cors", Value: &c.CORS, Page: "access.md#other-sites",
				Help: `sites that may play streams in their pages, as https://example.org,…; *: all; "": no other site`},
			{Name: "hook", Value: &c.Hook, Secret: true, Page: "hook.md",
				Help: "URL of your program that decides who may publish, play and record: http://[USER:PASSWORD@]HOST/PATH"},
			{Name: "hook-timeout", Value: &c.HookTimeout, Min: 1, Max: ns(maxHookTimeout),
				Needs: []string{"hook"},
				Help:  "time limit for an answer of the hook, retries included, at most 10s"},
			{Name: "hook-open", Value: &c.HookOpen, Needs: []string{"hook"},
				Help: "while the hook fails, allow all clients, under the names that they ask for, instead of refusing them with 503"},
		}},
		{"Streams", []Flag{
			{Name: "demo", Value: &c.Demo, Help: `play a built-in sample as the stream "demo"`},
			{Name: "latency", Value: &c.Latency, Max: ns(maxLatency), Page: "serve.md#latency",
				Help: "how long a frame may wait to be sent together with others, at most 1s; above 20ms longer costs less CPU; 0: send at once"},
			{Name: "keep-bytes", Value: (*bytesize.Size)(&c.KeepBytes), Min: 64 << 10,
				Help: "bytes that a stream keeps for new and slow viewers; with longer GOPs, new viewers wait for a keyframe"},
			{Name: "keep-frames", Value: &c.KeepFrames, Min: 2, Max: maxKeepFrames,
				Help: "video and audio frames that a stream keeps, at most 1048576"},
			{Name: "max-tag-bytes", Value: (*bytesize.Int)(&c.MaxTagBytes), Min: 1 << 10,
				Help: "maximum data of an FLV tag; a larger tag ends the stream"},
			{Name: "publish-timeout", Value: &c.PublishTimeout, Min: 1,
				Help: "end a publisher or an upload that sends nothing for this long"},
			{Name: "publisher-return", Value: &c.PublisherReturn,
				Page: "serve.md#publishers-that-come-and-go",
				Help: "how long an FLV stream and its viewers wait for a publisher to return, after a clean end at most 2s; 0: end at once"},
			{Name: "takeover", Value: choiceOf((*string)(&c.Takeover),
				string(live.TakeoverAlways), string(live.TakeoverStalled),
				string(live.TakeoverNever)),
				Page: "serve.md#publishers-that-come-and-go",
				Help: "whether a second publisher of a name replaces the first: always, stalled (if it has sent nothing for 2s) or never"},
			{Name: "viewer-wait", Value: &c.ViewerWait,
				Help: "how long a viewer waits for a publisher"},
		}},
		{"Slow viewers", []Flag{
			{Name: "lag-bytes", Value: (*bytesize.Size)(&c.LagBytes),
				Help: "how many bytes a viewer may be behind; 0: all kept bytes"},
			{Name: "lag-frames", Value: &c.LagFrames,
				Help: "how many frames a viewer may be behind; 0: all kept frames"},
			{Name: "lag-time", Value: &c.LagTime,
				Help: "how long a viewer may be behind; 0: no limit but the kept frames"},
			{Name: "lag-policy", Value: choiceOf((*string)(&c.LagPolicy), string(live.Skip),
				string(live.Drop)),
				Help: "for viewers beyond these limits: skip moves them to the newest keyframe, drop disconnects them"},
			{Name: "stall-timeout", Value: &c.StallTimeout, Min: 1,
				Help: "disconnect a viewer or a download that accepts no data for this long"},
			{Name: "unsent", Value: (*bytesize.Int)(&c.Unsent),
				Help: "limit for unsent data of a viewer or a download in the kernel; 0: the system's default"},
		}},
		{"Limits", []Flag{
			{Name: "max-streams", Value: &c.MaxStreams, Min: 1, Help: "maximum number of streams"},
			{Name: "max-viewers", Value: &c.MaxViewers, Min: 1,
				Help: "maximum number of viewers of all streams, including waiting ones"},
			{Name: "max-stream-viewers", Value: &c.MaxStreamViewers, Min: 1,
				Help: "maximum number of viewers per stream"},
			{Name: "max-connections", Value: &c.MaxConnections, Min: 1,
				Help: "maximum number of connections of the main listener, without HTTP/1 viewers; an idle one is closed for a new one"},
			{Name: "max-address-connections", Value: &c.MaxAddressConnections,
				Page: "access.md#limits-per-address",
				Help: "connections of one address, or of one IPv6 /64 network; behind a trusted proxy: simultaneous requests; 0: no limit"},
			{Name: "max-address-viewers", Value: &c.MaxAddressViewers,
				Page: "access.md#limits-per-address",
				Help: "new viewers per second from one address, averaged over 5s; 0: no limit"},
			{Name: "max-address-bytes", Value: (*bytesize.Size)(&c.MaxAddressBytes),
				Min: minAddressBytes, OrZero: true,
				Page: "access.md#limits-per-address",
				Help: "bytes per second to one address; above it, downloads slow down and new requests are refused; at least 64KiB; 0: no limit"},
			{Name: "memory", Value: (*bytesize.Size)(&c.MemoryBytes), Min: MinMemory, OrZero: true,
				Page: "serve.md#memory",
				Help: "memory limit of the server; near it, slow viewers are dropped and new clients are refused; " +
					"0: half of the machine's or the control group's memory"},
			{Name: "header-timeout", Value: &c.HeaderTimeout, Min: 1,
				Help: "time limit for a request header, and for a body that is not needed"},
			{Name: "idle-timeout", Value: &c.IdleTimeout, Min: 1,
				Help: "how long an idle connection stays open"},
			{Name: "drain-timeout", Value: &c.DrainTimeout, Page: "serve.md#shutdown",
				Help: "how long a shutdown waits for viewers to receive queued frames, and for downloads and uploads"},
		}},
		{"HLS", []Flag{
			{Name: "hls-part", Value: &c.HLS.Part, Min: ns(minHLSPart), Page: "hls.md",
				Help: "approximate length of a low-latency HLS part; streams with video use at least 282ms"},
			{Name: "hls-segment", Value: &c.HLS.Segment, Min: ns(time.Second),
				Max: ns(maxHLSSegment), Page: "hls.md",
				Help: "an HLS segment ends at the first keyframe after this time; from 1s to 8s"},
			{Name: "hls-segments", Value: &c.HLS.Segments, Min: 3, Max: maxHLSSegments,
				Page: "hls.md",
				Help: "segments in an HLS playlist, from 3 to 1000; more if they are short"},
			{Name: "hls-bytes", Value: (*bytesize.Size)(&c.HLS.MaxBytes), Min: 1 << 20,
				Page: "hls.md", Help: "memory for a stream's HLS segments"},
		}},
		{"Sending streams on", []Flag{
			{Name: "push", Value: &c.Push, Secret: true, Page: "push.md",
				Help: "send a stream on to another server: live/NAME=URL, with rtmp, rtmps, http or https; NAME may be a pattern if the URL has {name}; other words in braces are keys; may be repeated"},
			{Name: "push-keys", Value: &c.PushKeys, Needs: []string{"push", "hook"}, Page: "push.md#keys",
				Help: "file with the keys, in lines of WORD=KEY"},
			{Name: "push-retries", Value: &c.PushRetries, Needs: []string{"push", "hook", "admin"},
				Help: "retries in a row after which a push gives up, until the stream begins again; 0: never"},
			{Name: "push-ca", Value: &c.PushCA, Needs: []string{"push", "hook", "admin"},
				Help: "PEM file with authorities to trust in addition to the system's"},
		}},
		{"Recordings", []Flag{
			{Name: "record", Value: &c.Record, Page: "record.md",
				Help: "record streams to files in this directory: MP4 with an HLS playlist"},
			{Name: "record-streams", Value: &c.RecordStreams, Needs: []string{"record"},
				Help: "pattern for the names of recorded streams, such as cam-*"},
			{Name: "record-bytes", Value: (*bytesize.Size)(&c.RecordBytes),
				Needs: []string{"record"},
				Help:  "maximum size of all recordings; above it the oldest are deleted; 0: no limit"},
			{Name: "record-queue", Value: (*bytesize.Size)(&c.RecordQueue), Min: 1 << 20,
				Needs: []string{"record"},
				Help:  "memory per stream for frames that wait for the disk; above it, frames are lost up to a keyframe"},
			{Name: "record-every", Value: &c.RecordEvery, Min: ns(time.Minute),
				Needs: []string{"record"},
				Help:  "length of a file; files start at multiples of it, in UTC"},
		}},
		{"Files", []Flag{
			{Name: "root", Value: &c.Root, Help: "serve the files under this directory at /files/"},
			{Name: "files-listing", Value: &c.FilesListing, Needs: []string{"root"},
				Help: "list directories without index.html"},
			{Name: "files-precompressed", Value: &c.FilesPrecompressed, Needs: []string{"root"},
				Help: "send NAME.br, NAME.zst or NAME.gz for NAME to clients that accept it"},
			{Name: "files-drop-behind", Value: (*bytesize.Size)(&c.FilesDropBehind),
				Needs: []string{"root"},
				Help:  "drop files of at least this size from the page cache after sending (Linux, not on overlayfs); 0: never"},
			{Name: "max-downloads", Value: &c.MaxDownloads, Min: 1,
				Help: "maximum number of simultaneous file downloads, and of blob downloads"},
		}},
		{"Blobs", []Flag{
			{Name: "blobs", Value: &c.Blobs, Page: "blobs.md",
				Help: "store the blobs of /blobs/ in this directory, which must be used for nothing else"},
			{Name: "redis", Value: &c.Redis, Page: "cluster.md#redis",
				Help: "store the blobs in this Redis: redis://[USER:PASSWORD@]HOST:PORT[/DB], or an address as for --cluster"},
			{Name: "redis-password", Value: &c.RedisPassword, Secret: true, NoCommand: true,
				Needs: []string{"redis"},
				Help:  "password for a --redis without one"},
			{Name: "redis-prefix", Value: &c.RedisPrefix, Needs: []string{"redis"},
				Help: "prefix of the blobs' keys in Redis"},
			{Name: "max-blob-bytes", Value: (*bytesize.Size)(&c.MaxBlobBytes), Min: 1,
				Max:   maxBlobBytes,
				Needs: []string{"blobs", "redis"}, Help: "maximum size of a blob"},
			{Name: "max-uploads", Value: &c.MaxUploads, Min: 1, Needs: []string{"blobs", "redis"},
				Help: "maximum number of simultaneous uploads"},
		}},
		{"Cluster", []Flag{
			{Name: "cluster", Value: &c.Cluster, Page: "cluster.md",
				Help: "join the cluster in this Redis: redis://[USER:PASSWORD@]HOST:PORT[/DB] or rediss://"},
			{Name: "cluster-password", Value: &c.ClusterPassword, Secret: true, NoCommand: true,
				Needs: []string{"cluster"},
				Help:  "password for a --cluster without one"},
			{Name: "advertise", Value: &c.Advertise, Needs: []string{"cluster"},
				Help: "address at which other nodes reach this one, as in http://10.0.0.5:8080"},
			{Name: "cluster-token", Value: &c.ClusterToken, Secret: true,
				Needs: []string{"cluster"},
				Help:  "secret that all nodes share"},
			{Name: "cluster-ca", Value: &c.ClusterCA, Needs: []string{"cluster"},
				Help: "PEM file with authorities to trust for other nodes, in addition to the system's"},
			{Name: "cluster-lease", Value: &c.ClusterLease, Min: ns(time.Second), Max: ns(maxLease),
				Needs: []string{"cluster"},
				Help:  "a node that is silent for this long loses its streams; at most 1m"},
			{Name: "cluster-prefix", Value: &c.ClusterPrefix, Needs: []string{"cluster"},
				Help: "prefix of the keys in Redis; nodes with the same prefix form a cluster"},
			{Name: "cluster-cache", Value: (*bytesize.Size)(&c.ClusterCache), Min: 1 << 20,
				Needs: []string{"cluster"},
				Help:  "memory for HLS of other nodes"},
			{Name: "segments", Value: choiceOf(&c.Segments, "redis", ""),
				Needs: []string{"cluster"},
				Help:  `"redis": store recent HLS segments in the Redis of --cluster, so that they outlive this node`},
			{Name: "segments-keep", Value: &c.SegmentsKeep, Min: ns(10 * time.Second),
				Max:   ns(maxSegmentsKeep),
				Needs: []string{"segments"}, Help: "how long segments are stored, from 10s to 1h"},
		}},
	}
}

func (f Flag) check() error {
	var n int64
	format := func(n int64) string { return fmt.Sprint(n) }
	switch v := f.Value.(type) {
	case *int:
		n = int64(*v)
	case *bytesize.Size:
		n, format = int64(*v), bytesize.Format
	case *bytesize.Int:
		n, format = int64(*v), bytesize.Format
	case *time.Duration:
		n, format = int64(*v), func(n int64) string { return time.Duration(n).String() }
	case *choice:
		if err := v.Set(v.String()); err != nil {
			return fmt.Errorf("--%s is %q, %w", f.Name, v.String(), err)
		}
		return nil
	default:
		return nil
	}
	switch {
	case n == 0 && f.OrZero:
	case n < f.Min:
		return fmt.Errorf("--%s is %s, want at least %s", f.Name, format(n), format(f.Min))
	case f.Max > 0 && n > f.Max:
		return fmt.Errorf("--%s is %s, want at most %s", f.Name, format(n), format(f.Max))
	}
	return nil
}

// A choice is the value of a flag that must be one of several words.
type choice struct {
	value *string
	words []string
}

func choiceOf(value *string, words ...string) *choice { return &choice{value, words} }

// String returns the chosen word.
func (c *choice) String() string {
	if c.value == nil { // pflag calls String on the zero value
		return ""
	}
	return *c.value
}

// Type returns the name that the help text shows for the type of the flag's value.
func (*choice) Type() string { return "word" }

// Set sets the word, or returns an error if it is not one of c.words.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		words := slices.DeleteFunc(slices.Clone(c.words), func(w string) bool { return w == "" })
		return fmt.Errorf("want %s", join(words, "or"))
	}
	*c.value = word
	return nil
}

// join returns a text such as "a, b or c".
func join(words []string, conjunction string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + conjunction + " " + words[len(words)-1]
}
