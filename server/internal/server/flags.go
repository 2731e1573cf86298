package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/bytesize"
	"github.com/millrace-io/millrace/server/internal/live"
)

// A Flag is a field of a [Config] as an operator sets it: --help, the configuration file, the checks of its value and the
// page of the manual are made from it.
type Flag struct {
	Name  string
	Value any    // points to the field: a *string, *bool, *int or *time.Duration, or has the methods of pflag.Value
	Help  string // what it does, with limits, and what 0 means
	Page  string // the page of the manual that says more; may be empty

	Min, Max int64 // of numbers, bytes, and times in ns; a Max of 0 is no limit
	OrZero   bool  // 0 may be, too

	Needs     []string // without one of these flags it has no effect; may be nil
	Secret    bool     // it is never printed, and its variable does not show in the list of processes
	NoCommand bool     // it has a variable and a line in the file, and no flag: that is in the URL of another one
}

// A FlagGroup is what belongs together.
type FlagGroup struct {
	Title string
	Flags []Flag
}

// Flags returns the flags of c. Their defaults are what c has.
func (c *Config) Flags() []FlagGroup {
	ns := func(d time.Duration) int64 { return int64(d) }
	return []FlagGroup{
		{"Addresses", []Flag{
			{Name: "listen", Value: &c.Listen, Help: "address to listen on; port 0: a free one, which the log tells"},
			{Name: "rtmp", Value: &c.RTMP, Page: "serve.md#rtmp", Help: `address for RTMP, to publish and to watch; "" turns RTMP off`},
			{Name: "rtmps", Value: &c.RTMPS, Page: "serve.md#rtmp", Help: "the same over TLS, with the certificate of --tls-cert"},
			{Name: "admin", Value: &c.Admin, Page: "admin.md",
				Help: "second address, for the operator: decisions, /debug/pprof, /metrics and /api/streams"},
			{Name: "tls-cert", Value: &c.TLSCert, Help: "file with the certificate, in PEM: the main listener speaks TLS then"},
			{Name: "tls-key", Value: &c.TLSKey, Help: "file with its key, in PEM"},
			{Name: "trusted-proxies", Value: &c.TrustedProxies, Page: "access.md#behind-a-proxy",
				Help: "addresses or networks of proxies, as in 10.0.0.0/8,127.0.0.1: their PROXY headers and X-Forwarded-For say who the client is"},
		}},
		{"Who may publish and watch", []Flag{
			{Name: "publish-token", Value: &c.PublishToken, Secret: true, Page: "access.md",
				Help: "token that publishers must show; needed when other machines can reach the listener"},
			{Name: "read-token", Value: &c.ReadToken, Secret: true, Page: "access.md",
				Help: "token that all readers must show; without one everyone may read; the publish token opens as well"},
			{Name: "admin-token", Value: &c.AdminToken, Secret: true, Page: "admin.md",
				Help: "token that clients of --admin must show; needed to decide when other machines can reach it"},
			{Name: "token-key", Value: &c.TokenKey, Page: "access.md#signed-tokens",
				Help: "file with the keys of signed tokens (JWT), as millrace token makes them: each is for a stream and a time"},
			{Name: "cors", Value: &c.CORS, Page: "access.md#other-sites",
				Help: `sites whose pages may play streams, as https://example.org,…; *: all; "": no other site`},
			{Name: "hook", Value: &c.Hook, Secret: true, Page: "hook.md",
				Help: "ask http://[USER:PASSWORD@]HOST/PATH who may publish, play and record, and tell it of each end"},
			{Name: "hook-timeout", Value: &c.HookTimeout, Min: 1, Max: ns(maxHookTimeout), Needs: []string{"hook"},
				Help: "how long it may take to answer, with all attempts, at most 10s"},
			{Name: "hook-open", Value: &c.HookOpen, Needs: []string{"hook"},
				Help: "allow all, under the names that clients say, while the hook fails; otherwise they get 503"},
		}},
		{"Streams", []Flag{
			{Name: "demo", Value: &c.Demo, Help: `play a built-in sample as the stream "demo"`},
			{Name: "latency", Value: &c.Latency, Max: ns(maxLatency), Page: "serve.md#latency",
				Help: "how long a frame may wait to be sent together with others, at most 1s: longer costs less CPU, from about 20ms on; 0: not at all"},
			{Name: "keep-bytes", Value: (*bytesize.Size)(&c.KeepBytes), Min: 64 << 10,
				Help: "what a stream keeps for viewers that join or are behind; a longer group of pictures is not for late viewers"},
			{Name: "keep-frames", Value: &c.KeepFrames, Min: 2, Max: maxKeepFrames,
				Help: "how many frames a stream keeps, video and audio, at most 1048576"},
			{Name: "max-tag-bytes", Value: (*bytesize.Int)(&c.MaxTagBytes), Min: 1 << 10,
				Help: "longest data of an FLV tag; a longer one ends its stream"},
			{Name: "publish-timeout", Value: &c.PublishTimeout, Min: 1,
				Help: "a publisher or an upload that sends nothing for so long is ended"},
			{Name: "publisher-return", Value: &c.PublisherReturn, Page: "serve.md#publishers-that-come-and-go",
				Help: "how long a stream of FLV waits for a publisher that is gone, after a clean end at most 2s; viewers stay; 0: it ends at once"},
			{Name: "takeover", Value: choiceOf((*string)(&c.Takeover),
				string(live.TakeoverAlways), string(live.TakeoverStalled), string(live.TakeoverNever)),
				Page: "serve.md#publishers-that-come-and-go",
				Help: "whether a second publisher of a name ends the first: always, stalled (if that has sent nothing for 2s) or never"},
			{Name: "viewer-wait", Value: &c.ViewerWait, Help: "how long a viewer waits for a publisher to come"},
		}},
		{"Viewers that are behind", []Flag{
			{Name: "lag-bytes", Value: (*bytesize.Size)(&c.LagBytes), Help: "how far behind a viewer may be; 0: as far as is kept"},
			{Name: "lag-frames", Value: &c.LagFrames, Help: "how many frames a viewer may be behind; 0: as far as is kept"},
			{Name: "lag-time", Value: &c.LagTime, Help: "how long a viewer may be behind; 0: as far as is kept"},
			{Name: "lag-policy", Value: choiceOf((*string)(&c.LagPolicy), string(live.Skip), string(live.Drop)),
				Help: "what happens to a viewer beyond that: skip moves it to the newest key frame, drop disconnects it"},
			{Name: "stall-timeout", Value: &c.StallTimeout, Min: 1,
				Help: "a viewer or download that takes nothing for so long is disconnected in any case"},
			{Name: "unsent", Value: (*bytesize.Int)(&c.Unsent),
				Help: "what the kernel may hold for a viewer or a download without having sent it; 0: the system's default"},
		}},
		{"Limits", []Flag{
			{Name: "max-streams", Value: &c.MaxStreams, Min: 1, Help: "streams at a time"},
			{Name: "max-viewers", Value: &c.MaxViewers, Min: 1, Help: "viewers of all streams, including those that wait for a publisher"},
			{Name: "max-stream-viewers", Value: &c.MaxStreamViewers, Min: 1, Help: "viewers a stream"},
			{Name: "max-connections", Value: &c.MaxConnections, Min: 1,
				Help: "connections of the main listener, without viewers by HTTP/1; one that waits for a request gives way to a new one"},
			{Name: "max-address-connections", Value: &c.MaxAddressConnections, Page: "access.md#limits-per-address",
				Help: "connections of one address, or of one /64 of IPv6; behind a trusted proxy: requests; 0: no limit"},
			{Name: "max-address-viewers", Value: &c.MaxAddressViewers, Page: "access.md#limits-per-address",
				Help: "new viewers a second of one address, on average over 5s; 0: no limit"},
			{Name: "max-address-bytes", Value: (*bytesize.Size)(&c.MaxAddressBytes), Min: minAddressBytes, OrZero: true,
				Page: "access.md#limits-per-address",
				Help: "bytes a second that one address gets: downloads are slowed down, new requests are refused; at least 64KiB; 0: no limit"},
			{Name: "memory", Value: (*bytesize.Size)(&c.MemoryBytes), Min: MinMemory, OrZero: true, Page: "serve.md#memory",
				Help: "memory that the server may use; above it, late viewers are dropped and new clients are refused; " +
					"0: half of the machine's or the control group's memory"},
			{Name: "header-timeout", Value: &c.HeaderTimeout, Min: 1,
				Help: "for the head of a request to arrive, and for a body that is not wanted"},
			{Name: "idle-timeout", Value: &c.IdleTimeout, Min: 1, Help: "for the next request on a connection that is kept open"},
			{Name: "drain-timeout", Value: &c.DrainTimeout, Page: "serve.md#shutdown",
				Help: "how long a shutdown waits for viewers to receive queued data, and for downloads and uploads"},
		}},
		{"HLS", []Flag{
			{Name: "hls-part", Value: &c.HLS.Part, Min: ns(minHLSPart), Page: "hls.md",
				Help: "about how long a part of HLS is, which low-latency players get; with video 282ms at least, whatever is set (a shorter one is for audio alone)"},
			{Name: "hls-segment", Value: &c.HLS.Segment, Min: ns(time.Second), Max: ns(maxHLSSegment), Page: "hls.md",
				Help: "a segment of HLS ends at the first key frame from here on; from 1s to 8s"},
			{Name: "hls-segments", Value: &c.HLS.Segments, Min: 3, Max: maxHLSSegments, Page: "hls.md",
				Help: "how many segments of HLS are listed, from 3 to 1000; more if they are short"},
			{Name: "hls-bytes", Value: (*bytesize.Size)(&c.HLS.MaxBytes), Min: 1 << 20, Page: "hls.md", Help: "what a stream's segments hold"},
		}},
		{"Recordings", []Flag{
			{Name: "record", Value: &c.Record, Page: "record.md",
				Help: "record streams to files in this directory: MP4, and a playlist of HLS for each"},
			{Name: "record-streams", Value: &c.RecordStreams, Needs: []string{"record"},
				Help: "which ones, as a pattern of their names, such as cam-*"},
			{Name: "record-bytes", Value: (*bytesize.Size)(&c.RecordBytes), Needs: []string{"record"},
				Help: "bytes of all recordings; beyond it the oldest are deleted; 0: no limit"},
			{Name: "record-queue", Value: (*bytesize.Size)(&c.RecordQueue), Min: 1 << 20, Needs: []string{"record"},
				Help: "what may wait for the disk, of each stream; more is lost up to a key frame"},
			{Name: "record-every", Value: &c.RecordEvery, Min: ns(time.Minute), Needs: []string{"record"},
				Help: "another file begins at whole multiples of this time, in UTC"},
		}},
		{"Files", []Flag{
			{Name: "root", Value: &c.Root, Help: "serve the files under this directory at /files/"},
			{Name: "files-listing", Value: &c.FilesListing, Needs: []string{"root"},
				Help: "list directories that have no index.html"},
			{Name: "files-precompressed", Value: &c.FilesPrecompressed, Needs: []string{"root"},
				Help: "send NAME.br, NAME.zst or NAME.gz for NAME to clients that accept it"},
			{Name: "files-drop-behind", Value: (*bytesize.Size)(&c.FilesDropBehind), Needs: []string{"root"},
				Help: "responses of so many bytes do not stay in the page cache (Linux, not on overlayfs); 0: all do"},
			{Name: "max-downloads", Value: &c.MaxDownloads, Min: 1, Help: "files sent at once, and as many blobs again"},
		}},
		{"Blobs", []Flag{
			{Name: "blobs", Value: &c.Blobs, Page: "blobs.md",
				Help: "keep the blobs at /blobs/ in this directory, which must be used for nothing else"},
			{Name: "redis", Value: &c.Redis, Page: "cluster.md#redis",
				Help: "keep the blobs in this Redis: redis://[USER:PASSWORD@]HOST:PORT[/DB], or as --cluster says"},
			{Name: "redis-password", Value: &c.RedisPassword, Secret: true, NoCommand: true, Needs: []string{"redis"},
				Help: "password for a --redis without one"},
			{Name: "redis-prefix", Value: &c.RedisPrefix, Needs: []string{"redis"}, Help: "prefix of the blobs' keys in Redis"},
			{Name: "max-blob-bytes", Value: (*bytesize.Size)(&c.MaxBlobBytes), Min: 1, Max: maxBlobBytes,
				Needs: []string{"blobs", "redis"}, Help: "longest blob"},
			{Name: "max-uploads", Value: &c.MaxUploads, Min: 1, Needs: []string{"blobs", "redis"},
				Help: "blobs that are written at a time"},
		}},
		{"Cluster", []Flag{
			{Name: "cluster", Value: &c.Cluster, Page: "cluster.md",
				Help: "share streams with other nodes, by what redis://[USER:PASSWORD@]HOST:PORT[/DB] or rediss:// knows of them"},
			{Name: "cluster-password", Value: &c.ClusterPassword, Secret: true, NoCommand: true, Needs: []string{"cluster"},
				Help: "password for a --cluster without one"},
			{Name: "advertise", Value: &c.Advertise, Needs: []string{"cluster"},
				Help: "address at which the other nodes reach this one, as in http://10.0.0.5:8080"},
			{Name: "cluster-token", Value: &c.ClusterToken, Secret: true, Needs: []string{"cluster"},
				Help: "secret that the nodes prove to know"},
			{Name: "cluster-ca", Value: &c.ClusterCA, Needs: []string{"cluster"},
				Help: "file with certificates, in PEM, of authorities to trust for other nodes in addition to the system's"},
			{Name: "cluster-lease", Value: &c.ClusterLease, Min: ns(time.Second), Max: ns(maxLease), Needs: []string{"cluster"},
				Help: "a node that is gone for so long has lost its streams, at most 1m"},
			{Name: "cluster-prefix", Value: &c.ClusterPrefix, Needs: []string{"cluster"},
				Help: "prefix of the keys in that Redis; nodes with the same one are a cluster"},
			{Name: "cluster-cache", Value: (*bytesize.Size)(&c.ClusterCache), Min: 1 << 20, Needs: []string{"cluster"},
				Help: "segments of HLS of other nodes that are kept"},
			{Name: "segments", Value: choiceOf(&c.Segments, "redis", ""), Needs: []string{"cluster"},
				Help: `"redis": keep the newest segments of HLS in the Redis of --cluster, where they outlive this node`},
			{Name: "segments-keep", Value: &c.SegmentsKeep, Min: ns(10 * time.Second), Max: ns(maxSegmentsKeep),
				Needs: []string{"segments"}, Help: "how long, from 10s to 1h"},
		}},
	}
}

// check returns an error for a value that may not be. It names the flag.
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

// A choice is a flag for one of some words.
type choice struct {
	value *string
	words []string
}

func choiceOf(value *string, words ...string) *choice { return &choice{value, words} }

// String returns the word.
func (c *choice) String() string {
	if c.value == nil { // pflag asks what the zero value is
		return ""
	}
	return *c.value
}

// Type returns what help calls the value.
func (*choice) Type() string { return "word" }

// Set sets the word.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		words := slices.DeleteFunc(slices.Clone(c.words), func(w string) bool { return w == "" })
		return fmt.Errorf("want %s", join(words, "or"))
	}
	*c.value = word
	return nil
}

// join lists words, with another one before the last.
func join(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}
