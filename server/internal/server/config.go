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
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/record"
	"github.com/millrace-io/millrace/server/internal/redisurl"
	"github.com/millrace-io/millrace/server/internal/token"
	"github.com/redis/go-redis/v9"
)

// Config configures a Server. Every limit has a value in [Defaults]; zero means what the field's
// comment says.
type Config struct {
	// Config is that of the streams at /live/. Log may be nil: nothing is logged. The server takes
	// PublishTimeout for uploads, and StallTimeout and Unsent for downloads, as well.
	live.Config

	Listen string // the address of the main listener
	RTMP   string // the address of RTMP; empty: off
	RTMPS  string // the same over TLS, with the certificate of the main listener
	// A second address for the operator: decisions, /debug/pprof, /metrics and /api/streams; empty:
	// none.
	Admin string

	RTMPOptional bool // the server starts without RTMP if it cannot listen there

	TLSCert, TLSKey string // files in PEM with a certificate and its key; empty: there is no TLS

	// Publishers must show it; empty: publishing works through a loopback listener only.
	PublishToken string
	// Viewers and all other readers must show it; empty: everyone may read.
	ReadToken string
	TokenKey  string // a file with the keys of signed tokens (JWT); empty: there are none
	// Clients of Admin must show it; empty: everyone may read, and only a loopback listener accepts
	// decisions.
	AdminToken string
	// The URL of the hook, which decides who may publish, play and record; empty: none.
	Hook        string
	HookTimeout time.Duration // for its answer, with all attempts
	HookOpen    bool          // a hook that fails allows all
	// The origins of the sites whose pages may play streams, with commas; "*" means all.
	CORS    string
	Demo    bool   // play the built-in sample as the stream "demo"
	Version string // shown in the API and in the metrics

	// TrustedProxies are addresses and networks with commas between them. Their connections may
	// begin with a PROXY header, and X-Forwarded-For of their requests has the client. Empty: none
	// are trusted.
	TrustedProxies string

	// Connections of the main listener at a time, without viewers of HTTP/1; an idle one gives way.
	MaxConnections        int
	MaxAddressConnections int   // connections of one address at a time; 0: no limit
	MaxAddressViewers     int   // new viewers of one address a second; 0: no limit
	MaxAddressBytes       int64 // bytes that one address gets a second; 0: no limit

	// Successor says that this process replaces another one, which still has the directories of
	// blobs and recordings. They share the one; the other is this process's when the other process
	// has ended its recordings.
	Successor bool

	Ready func(Listeners) // called when the server serves; it must not wait. nil: it is not

	Root string // a directory of files to serve at /files/; empty: no files
	// A directory without an index.html is answered with a list of its entries.
	FilesListing bool
	// name.br, name.zst or name.gz is sent for name to clients that accept it.
	FilesPrecompressed bool
	// Responses of at least this many bytes leave the page cache as it was; 0: none do.
	FilesDropBehind int64
	MaxDownloads    int // requests for files at a time, and for blobs; one more gets 503

	Blobs         string // a directory for the values at /blobs/
	Redis         string // or the address of a Redis for them, as package redisurl reads it
	RedisPassword string // if the Redis address has none
	RedisPrefix   string // prefix of their keys in Redis
	MaxBlobBytes  int64  // the longest value; a longer one gets 413
	MaxUploads    int    // values that are being written at a time; one more gets 503

	Record        string        // a directory that streams are recorded to; empty: no recordings
	RecordStreams string        // a pattern of their names, as path.Match has them
	RecordBytes   int64         // of all recordings; beyond it the oldest are deleted. 0: no limit
	RecordQueue   int64         // bytes of a stream that may wait for the disk
	RecordEvery   time.Duration // a recording starts a new file at whole multiples of it, in UTC

	// The Redis that says which node owns which stream, as a URL; empty: the server is alone.
	Cluster         string
	ClusterPassword string // if the Redis address has none
	Advertise       string // the URL at which the other nodes reach the main listener
	ClusterToken    string // the secret that nodes prove to know
	// a PEM file with authorities that nodes trust for each other, in addition to the system's;
	// empty: none.
	ClusterCA     string
	ClusterLease  time.Duration // a node that is gone for so long has lost its streams
	ClusterPrefix string        // prefix of the keys in Redis
	ClusterCache  int64         // bytes of HLS of other nodes that are kept
	Segments      string        // "redis": segments outlive their node there; empty: they do not
	SegmentsKeep  time.Duration // how long they are kept there

	// MemoryBytes limits the memory of all of these together; 0: only the other limits apply.
	MemoryBytes int64

	HeaderTimeout time.Duration // for a request's head to arrive
	IdleTimeout   time.Duration // for the next request on a connection that is kept alive
	// How long the server waits after SIGTERM for viewers to receive queued frames.
	DrainTimeout time.Duration
}

// Defaults returns the configuration of a server that was asked for nothing special.
func Defaults() Config {
	return Config{
		// Streams are made for players on other sites, and a page of another site cannot read what
		// needs a token.
		CORS: "*",
		// Reachable from this machine only: trying the command must not open the machine to
		// strangers.
		Listen: "127.0.0.1:8080",
		RTMP:   "127.0.0.1:1935",
		// Another program may have the usual port of RTMP, and a user who did not ask for RTMP
		// should not notice.
		RTMPOptional: true,

		// Twice the viewers over HTTP/2 and the downloads that the other limits allow. The rest is
		// for HLS players, whose connections wait for requests. Each takes some 10 KiB.
		MaxConnections: 16384,
		// No limits for an address: thousands of viewers of a mobile network, a school or a proxy
		// share one, and the server cannot tell them from one client with many connections. The
		// operator can.

		// No lists: a user who puts a file there for a friend does not expect strangers to see its
		// name. Nothing precompressed: name.gz may be a different file. Nothing is dropped from the
		// page cache: the kernel evicts files that were read once first, and a file that many
		// clients load in turn should stay. As many as viewers. A download holds a goroutine,
		// net/http's two buffers of 4 KiB, and the kernel's send buffer: up to 4 MiB if the client
		// is slow.
		MaxDownloads: 4096,

		// /blobs/ must not reach the keys of other programs.
		RedisPrefix: "blobs:",
		// The limit of Redis, so that each value also fits there. In a directory it may be more.
		MaxBlobBytes: blob.MaxRedisValue,
		// An upload holds 64 KiB here, or up to 1 MiB for Redis, and a descriptor. A disk is busy
		// with fewer.
		MaxUploads: 64,

		// A client waits for it. A hook that asks a database answers in some ms, and one that
		// restarts is back in two seconds.
		HookTimeout: 3 * time.Second,

		RecordStreams: "*",
		// Eight seconds at 16 Mbit/s: as long as a disk is busy with something else.
		RecordQueue: record.DefaultQueueBytes,
		// Names of files say when they begin; people look for an hour.
		RecordEvery: record.DefaultEvery,

		// Three renewals: one may be lost, and one late. Viewers of a node that died wait for it.
		ClusterLease:  5 * time.Second,
		ClusterPrefix: "millrace:",
		// The windows of ten streams at 5 Mbit/s, of which a player asks for the newest segments.
		ClusterCache: 128 << 20,
		// A player that is behind, and the time in which an encoder comes back.
		SegmentsKeep: time.Minute,

		// A request's head is one packet. Ten seconds forgive the worst mobile network, but not a
		// client that holds a place.
		HeaderTimeout: 10 * time.Second,
		// Longer than the poll interval of the page, so that its connection is reused.
		IdleTimeout: 60 * time.Second,
		// Below the ten seconds after which Docker kills, well below the thirty of Kubernetes.
		DrainTimeout: 8 * time.Second,

		Config: live.Config{
			// 128 streams that keep 16 MiB each are 2 GiB, which a small server has; at most twice
			// that, if each is also watched as MP4 and the MP4 shares no memory with the stream.
			MaxStreams: 128,
			// A viewer costs about 4 KiB here; a slow one pins up to Unsent bytes in the kernel:
			// 512 MiB if all 4096 are slow.
			MaxViewers:       4096,
			MaxStreamViewers: 4096,

			// An encoder sends many times a second. Half a minute outlasts a roaming handover, and
			// frees the name soon after an encoder has failed.
			PublishTimeout: 30 * time.Second,
			// An encoder that lost its connection, or was restarted, is back after a few seconds.
			// Viewers' players give up, or their users do, when nothing comes for longer.
			PublisherReturn: 15 * time.Second,
			// Publishing needs a loopback listener or the token, so all publishers have the same
			// rights. The later one is where the operator is.
			Takeover: live.TakeoverAlways,
			// Long enough to start the player first and then the encoder by hand.
			ViewerWait: 10 * time.Second,
			// A browser tab in the background may stop reading for a while. After that it only
			// takes memory.
			StallTimeout: 30 * time.Second,

			// A GOP of ten seconds (x264's default at 25 frames a second) at 12 Mbit/s fits.
			KeepBytes: 16 << 20,
			// Large enough for all real streams: a still image with audio, with one video frame a
			// second and every 250th a keyframe, has GOPs of 12,000 frames and 4 MB.
			KeepFrames: 16384,
			// A keyframe of a 4K video has one to two MB. The format allows 16 MiB.
			MaxTagBytes: 4 << 20,

			HLS: hlslive.Config{
				// Six frames at 30 a second. A player is three parts behind: shorter parts save
				// little of its second, and cost one request per viewer each.
				Part: 200 * time.Millisecond,
				// The usual setting of encoders: a keyframe every two seconds.
				Segment: 2 * time.Second,
				// Twelve seconds: players without parts begin three segments from the end.
				Segments: 6,
				// Twelve seconds at 40 Mbit/s, or groups of ten seconds at 8.
				MaxBytes: 64 << 20,
			},

			// Sending costs per segment, not per byte.
			Latency: 50 * time.Millisecond,

			// A player buffers one to three seconds. A viewer that is five behind does not see the
			// present any more.
			LagTime: 5 * time.Second,
			// 8 MiB are these five seconds at 12 Mbit/s, and leave half of the kept frames as a
			// margin.
			LagBytes:  8 << 20,
			LagPolicy: live.Skip,
			// Without a bound the kernel swallows about 4 MB before a stall is seen. 128 KiB are
			// half a second at 2 Mbit/s and still fill a link of 10 Mbit/s for 100 ms.
			Unsent: 128 << 10,
		},
	}
}

const (
	// maxLatency bounds --latency: a publisher's end, and the server's own, wait for it.
	maxLatency = time.Second

	// maxHookTimeout is how long encoders and players wait for an answer before they give up.
	maxHookTimeout = 10 * time.Second

	// minHLSPart is three frames at 60 a second: shorter parts cost more in requests than they
	// save.
	minHLSPart = 50 * time.Millisecond
	// maxHLSSegment and maxHLSSegments limit playlists to sizes that players expect: a segment may
	// be twice as long as its minimum, and a playlist is read once per part.
	maxHLSSegment  = 8 * time.Second
	maxHLSSegments = 1000

	// maxLease bounds how long the viewers of a node that died wait for their stream.
	maxLease = time.Minute
	// maxSegmentsKeep limits a stream's memory in Redis.
	maxSegmentsKeep = time.Hour

	// minAddressBytes is the rate at which a step of a download takes less time than
	// --stall-timeout.
	minAddressBytes = 64 << 10

	// MinMemory is the memory of one stream at the default limits, with viewers and HLS.
	MinMemory = 64 << 20

	// maxKeepFrames bounds a stream's lists of frames and pieces to 90 MiB. --keep-bytes does not:
	// frames may be empty.
	maxKeepFrames = 1 << 20

	// maxBlobBytes is more than any disk has, and does not overflow in sums.
	maxBlobBytes = 1 << 60
)

// Check returns an error if a value cannot be used on any machine. It names the value by its flag.
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
		{"rtmps", c.RTMPS, "1936"},
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
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key are needed together")
	}
	if c.RTMPS != "" && c.TLSCert == "" {
		return errors.New("--rtmps needs --tls-cert and --tls-key")
	}
	return nil
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

// redisOptions returns the options of --redis.
func (c *Config) redisOptions() (*redis.UniversalOptions, error) {
	opt, err := redisurl.Parse(c.Redis, c.RedisPassword)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	return opt, nil
}

// tokenKeys returns the keys of signed tokens, if there are any.
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

// origins returns the origins of --cors, which was checked.
func (c *Config) origins() []string {
	list, _ := access.ParseOrigins(c.CORS)
	return list
}
