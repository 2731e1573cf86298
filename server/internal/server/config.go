package server

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/blob"
	"github.com/millrace-io/millrace/server/internal/conn/acme"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/push"
	"github.com/millrace-io/millrace/server/internal/live/record"
	"github.com/millrace-io/millrace/server/internal/redisurl"
	"github.com/millrace-io/millrace/server/internal/token"
	"github.com/redis/go-redis/v9"
)

// Config configures a Server. [Defaults] has a value for every limit. The comment of each field
// says what zero means.
type Config struct {
	// Config configures the streams at /live/. If Log is nil, nothing is logged. The server also
	// uses PublishTimeout for uploads, and StallTimeout and Unsent for downloads.
	live.Config

	Listen string // address of the main listener
	RTMP   string // address of the RTMP listener; empty: RTMP is off
	RTMPS  string // address of the RTMPS listener; it uses the main listener's certificate
	// Admin is the address of a second HTTP listener, for the operator. It serves /debug/pprof,
	// /metrics and /api/streams, and lets the operator end streams, viewers and the server. Empty
	// means that there is no such listener.
	Admin string

	RTMPOptional bool // whether the server starts without RTMP if it cannot open the RTMP listener

	TLSCert, TLSKey string // PEM files with the certificate and its key; empty: no TLS

	// ACME lists the host names for which an authority signs certificates, which replace TLSCert.
	ACME      string
	ACMECache string // directory with these certificates, or "redis": the Redis of Cluster
	ACMEURL   string // directory of the authority; see RFC 8555, section 7.1.1
	ACMECA    string // PEM file with more certificate authorities for ACMEURL
	ACMEEmail string // address for messages from the authority

	// HTTPRedirect is the address of an HTTP listener that redirects to the main listener, which
	// must use TLS.
	HTTPRedirect string

	// PublishToken is the token for publishers. If it is empty, and there is neither a TokenKey nor
	// a Hook, publishing works only through a loopback listener.
	PublishToken string
	// ReadToken is the token for viewers and all other readers. If it is empty, everyone may read.
	ReadToken string
	TokenKey  string // file with the keys of signed tokens (JWT); empty: no signed tokens
	// AdminToken is the token for clients of Admin. If it is empty, everyone may read, but only
	// clients of a loopback listener may end anything.
	AdminToken string
	// Hook is the URL of a program that decides who may publish, play and record. Empty means that
	// there is no such program.
	Hook        string
	HookTimeout time.Duration // limit for the hook's answer, including retries
	HookOpen    bool          // whether all clients are allowed while the hook fails
	// CORS is a comma-separated list of origins whose pages may play streams, or "*" for all.
	CORS    string
	Demo    bool   // play the built-in sample as the stream "demo"
	Version string // shown in the API and in the metrics

	// TrustedProxies is a comma-separated list of the addresses and networks of proxies. A
	// connection from a proxy may begin with a PROXY header. For requests through a proxy, the
	// server takes the client's address from the PROXY header or from X-Forwarded-For. Empty means
	// that no proxy is trusted.
	TrustedProxies string

	// MaxConnections limits the concurrent connections of the main listener, not counting HTTP/1
	// viewers. At the limit, the server closes an idle connection to accept a new one.
	MaxConnections        int
	MaxAddressConnections int   // concurrent connections of one address; 0: no limit
	MaxAddressViewers     int   // new viewers per second of one address; 0: no limit
	MaxAddressBytes       int64 // bytes per second sent to one address; 0: no limit

	// Successor says that this process replaces another process that is still running. Both
	// processes use the directory of blobs. This process starts to use the directory of recordings
	// when the other process has ended its recordings.
	Successor bool

	Ready func(Listeners) // called when the server is ready; must not block; may be nil

	Root string // directory of the files at /files/; empty: no files
	// FilesListing makes the server list the entries of a directory that has no index.html.
	FilesListing bool
	// FilesPrecompressed makes the server send name.br, name.zst or name.gz instead of name to
	// clients that accept the encoding.
	FilesPrecompressed bool
	// FilesDropBehind is a length in bytes. A response of at least this length does not stay in the
	// page cache. 0 means that all responses may stay.
	FilesDropBehind int64
	MaxDownloads    int // concurrent downloads of files, and of blobs; further ones get status 503

	Blobs         string // directory of the blobs at /blobs/
	Redis         string // alternatively, URL of a Redis for the blobs, see package redisurl
	RedisPassword string // used if the URL in Redis has no password
	RedisPrefix   string // prefix of the blobs' keys in Redis
	MaxBlobBytes  int64  // maximum length of a blob; a longer blob gets status 413
	MaxUploads    int    // concurrent uploads of blobs; further ones get status 503

	Push     push.Routes // where streams are sent on
	PushKeys string      // file with the keys in the URLs of Push
	PushCA   string      // PEM file with more certificate authorities for Push
	// PushRetries is how often in a row a push tries again. Then it gives up; 0: never.
	PushRetries int

	Record        string        // directory for recordings of streams; empty: no recordings
	RecordStreams string        // path.Match pattern of the streams; * and ? also match a slash
	RecordBytes   int64         // maximum total size; above it, the oldest are deleted; 0: no limit
	RecordQueue   int64         // bytes of a stream that may wait to be written to disk
	RecordEvery   time.Duration // a new file starts at every multiple of this time, in UTC

	// Cluster is the URL of the Redis that stores which node owns which stream. Empty means that
	// the server is not in a cluster.
	Cluster         string
	ClusterPassword string // used if the URL in Cluster has no password
	Advertise       string // URL at which the other nodes reach the main listener
	ClusterToken    string // shared secret; a node proves to other nodes that it knows the secret
	// ClusterCA is a PEM file with certificate authorities. These authorities are trusted for
	// connections between nodes, in addition to the system's authorities. Empty means that there is
	// no such file.
	ClusterCA     string
	ClusterLease  time.Duration // a node that is silent for this time loses its streams
	ClusterPrefix string        // prefix of the cluster's keys in Redis
	ClusterCache  int64         // memory in bytes for cached HLS of streams of other nodes
	Segments      string        // "redis": segments outlive their node in Redis; empty: they do not
	SegmentsKeep  time.Duration // how long segments are stored in Redis
	// Dial connects to the other nodes and to the cluster's Redis. It is for tests; nil means
	// live.DialNode and the dialer of go-redis.
	Dial live.Dial

	// MemoryBytes limits the total memory of streams, clients and transfers. 0 means that only the
	// other limits apply.
	MemoryBytes int64

	HeaderTimeout time.Duration // limit for receiving the head of a request
	IdleTimeout   time.Duration // limit for waiting for the next request on a connection
	// DrainTimeout limits the duration of the shutdown. During the shutdown, viewers receive their
	// queued frames and downloads continue.
	DrainTimeout time.Duration
}

// Defaults returns the configuration of a server that was started without options.
func Defaults() Config {
	return Config{
		// All sites may play streams, because streams are usually played on other sites. A page of
		// another site cannot read anything that requires a token.
		CORS: "*", ACMEURL: acme.LetsEncrypt,
		// Only this machine can reach the server, because a user who only tries the command must
		// not let strangers in.
		Listen: "127.0.0.1:8080",
		RTMP:   "127.0.0.1:1935",
		// If another program uses the port of RTMP, the server starts without RTMP, because the
		// user may not need RTMP at all.
		RTMPOptional: true,

		// Half of these connections suffice for the HTTP/2 viewers and downloads that the other
		// limits allow. The other half is for HLS players, which keep their connections open
		// between requests. Each connection takes about 10 KiB.
		MaxConnections: 16384,
		// There are no limits per address, because thousands of viewers in a mobile network, in a
		// school or behind a proxy share one address. Only the operator can distinguish these
		// viewers from one client with many connections.

		// Directories are not listed: a user who puts a file there for a friend does not expect
		// strangers to see its name. Precompressed files are not sent: name.gz may be a different
		// file. Responses stay in the page cache, from which the kernel first evicts files that
		// were read only once. There may be as many downloads as viewers. A download takes a
		// goroutine and two buffers of 4 KiB in net/http. A slow one also takes the kernel's send
		// buffer of up to 4 MiB.
		MaxDownloads: 4096,

		// With a prefix, clients of /blobs/ cannot access the keys of other programs.
		RedisPrefix: "blobs:",
		// The limit of Redis, so that Redis can store every blob. A directory may have a larger
		// limit.
		MaxBlobBytes: blob.MaxRedisValue,
		// An upload takes a file descriptor. It also takes 64 KiB of memory for a directory, or up
		// to 1 MiB for Redis. A smaller number of uploads already uses the full speed of a disk.
		MaxUploads: 64,

		// A client must wait for the hook's answer. A hook that queries a database answers within
		// milliseconds, and a hook that is restarted is back after two seconds.
		HookTimeout: 3 * time.Second,

		RecordStreams: "*",
		// Eight seconds of a stream at 16 Mbit/s. A disk may be busy with other work for about as
		// long.
		RecordQueue: record.DefaultQueueBytes,
		// A file's name is its start time, and people usually look for a certain hour.
		RecordEvery: record.DefaultEvery,

		// A node renews its lease three times in this time, so that one renewal may be lost and
		// another one late. If a node dies, its viewers wait this long.
		ClusterLease:  5 * time.Second,
		ClusterPrefix: "millrace:",
		// Enough for the segments in the playlists of ten streams at 5 Mbit/s. Players usually
		// request only the newest segments.
		ClusterCache: 128 << 20,
		// Long enough for a slow player to get the segments, and for an encoder to return.
		SegmentsKeep: time.Minute,

		// The head of a request fits into one packet. Ten seconds are enough even in a very slow
		// mobile network. A client without a request should not keep its connection for longer.
		HeaderTimeout: 10 * time.Second,
		// Longer than the poll interval of the page, so that the page reuses its connection.
		IdleTimeout: 60 * time.Second,
		// Less than the ten seconds after which Docker kills a process, and much less than the
		// thirty seconds of Kubernetes.
		DrainTimeout: 8 * time.Second,

		Config: live.Config{
			// 128 streams with 16 MiB each take 2 GiB, which a small server has. If each stream is
			// also watched as MP4, the streams take at most twice as much.
			MaxStreams: 128,
			// A viewer takes about 4 KiB in this process. A slow viewer also takes up to Unsent
			// bytes in the kernel, which is 512 MiB for 4096 slow viewers.
			MaxViewers:       4096,
			MaxStreamViewers: 4096,

			// An encoder sends many times a second. Half a minute is longer than a roaming
			// handover, and short enough to free the name of the stream soon after an encoder has
			// failed.
			PublishTimeout: 30 * time.Second,
			// An encoder that has lost its connection, or was restarted, returns after a few
			// seconds. After a longer time, the players or their users give up.
			PublisherReturn: 15 * time.Second,
			// All publishers have the same rights, because publishing requires a loopback listener
			// or the token. The newest publisher is most likely the one that the operator wants.
			Takeover: live.TakeoverAlways,
			// Long enough to start a player and then the encoder by hand.
			ViewerWait: 10 * time.Second,
			// A browser tab in the background may stop reading for some time. A viewer that does
			// not read for longer only wastes memory.
			StallTimeout: 30 * time.Second,

			// Room for a GOP of ten seconds (x264's default at 25 frames per second) at 12 Mbit/s.
			KeepBytes: 16 << 20,
			// Enough for all real streams. A still image with audio has the longest GOPs. With one
			// video frame per second and a keyframe every 250 frames, such a GOP has 12,000 frames
			// and 4 MB.
			KeepFrames: 16384,
			// A keyframe of 4K video has one to two MB. The FLV format allows up to 16 MiB.
			MaxTagBytes: 4 << 20,

			HLS: hlslive.Config{
				// Six frames at 30 per second. A player stays three parts behind the newest part,
				// which gives a latency of a second. Shorter parts would reduce the latency only a
				// little, and each part costs one request per viewer.
				Part: 200 * time.Millisecond,
				// Most encoders send one keyframe every two seconds.
				Segment: 2 * time.Second,
				// The playlist covers twelve seconds. Players that do not use parts begin three
				// segments before the end.
				Segments: 6,
				// Twelve seconds at 40 Mbit/s, or six GOPs of ten seconds at 8 Mbit/s.
				MaxBytes: 64 << 20,
			},

			// Sending costs CPU time per write, not per byte, so frames are sent together.
			Latency: 50 * time.Millisecond,

			// A player buffers one to three seconds. A viewer that is five seconds behind no longer
			// watches live.
			LagTime: 5 * time.Second,
			// Five seconds (LagTime) at 12 Mbit/s. This is half of KeepBytes. The other half is a
			// margin.
			LagBytes:  8 << 20,
			LagPolicy: live.Skip,
			// Without a limit, the kernel accepts about 4 MB before the server notices that a
			// viewer has stopped reading. 128 KiB are half a second at 2 Mbit/s, and enough to keep
			// a link of 10 Mbit/s busy for 100 ms.
			Unsent: 128 << 10,
		},
	}
}

const (
	// maxLatency is the maximum of --latency. A longer latency would also delay the end of a
	// publisher and the shutdown of the server.
	maxLatency = time.Second

	// maxHookTimeout is the maximum of --hook-timeout. Encoders and players give up if an answer
	// takes longer.
	maxHookTimeout = 10 * time.Second

	// minHLSPart is the minimum of --hls-part. It is the length of three frames at 60 frames per
	// second. Shorter parts need many more requests and reduce the latency only a little.
	minHLSPart = 50 * time.Millisecond
	// maxHLSSegment is the maximum of --hls-segment, and maxHLSSegments is the maximum of
	// --hls-segments. A player reads the playlist once per part, so the playlist must not become
	// too large. Segments end at keyframes, so they may be longer than --hls-segment.
	maxHLSSegment  = 8 * time.Second
	maxHLSSegments = 1000

	// maxLease is the maximum of --cluster-lease. If a node dies, its viewers wait for their stream
	// until the node's lease has expired.
	maxLease = time.Minute
	// maxSegmentsKeep is the maximum of --segments-keep. It limits the memory of a stream's
	// segments in Redis.
	maxSegmentsKeep = time.Hour

	// minAddressBytes is the minimum of --max-address-bytes, in bytes per second. Downloads are
	// sent in pieces of up to 256 KiB. At this rate, a piece takes four seconds, which is less than
	// the default of --stall-timeout.
	minAddressBytes = 64 << 10

	// MinMemory is the minimum of --memory in bytes. It suffices for one stream at the default
	// limits, with viewers and HLS.
	MinMemory = 64 << 20

	// maxKeepFrames is the maximum of --keep-frames. The lists that describe the frames of a stream
	// then need at most 90 MiB. --keep-bytes does not limit these lists, because it counts only the
	// bytes in frames, and a frame may be empty.
	maxKeepFrames = 1 << 20

	// maxBlobBytes is the maximum of --max-blob-bytes. It is more than any disk can store, but
	// small enough that sums of sizes do not overflow.
	maxBlobBytes = 1 << 60
)

// Check returns an error if an option has an invalid value. The error contains the name of the
// option's flag. The result does not depend on the machine on which Check runs.
func (c *Config) Check() error {
	for _, group := range c.Flags() {
		for _, flag := range group.Flags {
			if err := flag.check(); err != nil {
				return err
			}
		}
	}
	if c.HLS.Part > c.HLS.Segment/2 {
		return fmt.Errorf("--hls-part is %v, want at most half of --hls-segment, which is %v",
			c.HLS.Part, c.HLS.Segment)
	}
	if longest := (flv.Tag{Size: c.MaxTagBytes}).Len(); int64(longest) > c.KeepBytes {
		return fmt.Errorf(
			"--max-tag-bytes %d is, with what is around the data, %d bytes a tag, and --keep-bytes is %d: "+
				"the longest tag could not be kept", c.MaxTagBytes, longest, c.KeepBytes)
	}
	return cmp.Or(c.checkAccess(), c.checkBlobs(), c.checkCluster())
}

func (c *Config) checkAccess() error {
	for _, a := range []struct{ flag, address, port string }{
		{"listen", c.Listen, "8080"}, {"admin", c.Admin, "8081"}, {"rtmp", c.RTMP, "1935"},
		{"rtmps", c.RTMPS, "1936"}, {"http-redirect", c.HTTPRedirect, "80"},
	} {
		if _, _, err := net.SplitHostPort(a.address); err != nil &&
			(a.address != "" || a.flag == "listen") {
			return fmt.Errorf(
				"--%s is %q, want HOST:PORT, as in 127.0.0.1:%[3]s, or :%[3]s for all addresses",
				a.flag, a.address, a.port)
		}
		if a.address == "" {
			continue
		}
		_, port, _ := net.SplitHostPort(a.address)
		if _, err := net.LookupPort("tcp", port); err != nil {
			return fmt.Errorf("--%s is %q, want a port from 0 to 65535, as in %s", a.flag,
				a.address, a.port)
		}
	}
	for _, a := range []struct{ flag, token string }{
		{"publish-token", c.PublishToken}, {"read-token", c.ReadToken},
		{"admin-token", c.AdminToken},
		{"cluster-token", c.ClusterToken},
	} {
		if a.token != strings.TrimSpace(a.token) {
			return fmt.Errorf("--%s begins or ends with a space, which a header cannot show",
				a.flag)
		}
	}
	if _, err := access.ParseOrigins(c.CORS); err != nil {
		return err
	}
	if err := hook.CheckURL(c.Hook); err != nil && c.Hook != "" {
		return fmt.Errorf("--hook is not a URL that can be asked: %w", err)
	}
	if _, err := path.Match(c.RecordStreams, ""); err != nil {
		return fmt.Errorf("--record-streams is %q, want a pattern such as cam-*", c.RecordStreams)
	}
	if _, err := proxy.ParseTrusted(c.TrustedProxies); err != nil {
		return fmt.Errorf("--trusted-proxies: %w", err)
	}
	return c.checkTLS()
}

func (c *Config) checkBlobs() error {
	if c.Redis == "" {
		return nil
	}
	if c.Blobs != "" {
		return errors.New("--blobs and --redis are places for the same blobs: want one of them")
	}
	if c.MaxBlobBytes > blob.MaxRedisValue {
		return fmt.Errorf("--max-blob-bytes is %d, and Redis takes %d at most", c.MaxBlobBytes,
			blob.MaxRedisValue)
	}
	if strings.ContainsAny(c.RedisPrefix, "{}") {
		return fmt.Errorf("--redis-prefix is %q, and braces have a meaning in keys", c.RedisPrefix)
	}
	_, err := c.redisOptions()
	return err
}

func (c *Config) redisOptions() (*redis.UniversalOptions, error) {
	opt, err := redisurl.Parse(c.Redis, c.RedisPassword)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	return opt, nil
}

func (c *Config) tokenKeys() (token.Keys, error) {
	if c.TokenKey == "" {
		return nil, nil
	}
	keys, err := token.ReadKeys(c.TokenKey)
	if err != nil {
		return nil, fmt.Errorf("--token-key: %w", err)
	}
	return keys, nil
}

// origins returns the origins of --cors. The caller must have checked c.
func (c *Config) origins() []string {
	list, _ := access.ParseOrigins(c.CORS)
	return list
}
