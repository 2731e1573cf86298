package server

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/millrace-io/millrace/frame/flv"
	"github.com/millrace-io/millrace/internal/blob"
)

// A Policy says what happens to a viewer that is further behind than its allowance.
type Policy string

const (
	// Skip moves the viewer forward to the newest key frame. It loses pictures, and stays.
	Skip Policy = "skip"
	// Drop closes the viewer's connection.
	Drop Policy = "drop"
)

// Config is everything that can be chosen about a Server. Every limit has a value in [Defaults]; zero means what the
// field's comment says.
type Config struct {
	Listen string // the address of the one port that everybody uses
	Admin  string // a second address for /debug/pprof, /metrics and /api/streams; empty: there is none

	TLSCert, TLSKey string // files in PEM with a certificate and its key; empty: there is no TLS

	PublishToken string // what a publisher must show; empty: nobody can publish except through a loopback listener
	ReadToken    string // what viewers and whoever else reads must show; empty: nothing
	Demo         bool   // play the built-in sample as the stream "demo"
	Version      string // shown in the API and in the metrics

	MaxStreams       int // streams at a time; one more gets 503
	MaxViewers       int // viewers in all, including those that wait for a publisher; one more gets 503
	MaxStreamViewers int // viewers per stream; one more gets 503

	Root               string // a directory whose files are served at /files/; empty: none are
	FilesListing       bool   // a directory without an index.html is answered with a list of what is in it
	FilesPrecompressed bool   // name.br, name.zst or name.gz is sent for name to clients that accept it
	FilesDropBehind    int64  // responses of at least this many bytes leave the page cache as it was; 0: none do
	FilesSendBuffer    int64  // bytes that a fast connection's send buffer is widened to; 0: what the kernel gives
	FilesOpen          int    // files kept open
	FilesColdReaders   int    // responses that may read from a disk at the same time
	FilesTune          bool   // have a chunk.Tuner move that number
	MaxDownloads       int    // requests for files at a time, and for blobs; one more gets 503

	Blobs         string // a directory for the values at /blobs/; empty: as the next two say
	Redis         string // redis://[user:password@]host:port/db that has them; empty: none
	RedisCluster  string // host:port,... of a Redis Cluster that has them, or a URL; empty: none
	RedisPassword string // for a Redis whose address names none
	RedisPrefix   string // what the names of their keys in Redis begin with
	MaxBlobBytes  int64  // the longest value; a longer one gets 413
	MaxUploads    int    // values that are being written at a time; one more gets 503

	HeaderTimeout  time.Duration // for a request's head to arrive
	IdleTimeout    time.Duration // for the next request on a connection that is kept alive
	PublishTimeout time.Duration // a publisher that sends nothing for this long gets 408, and its stream ends
	ViewerWait     time.Duration // how long a viewer waits for a publisher before it gets 404; 0: not at all
	DrainTimeout   time.Duration // how long SIGTERM waits for the viewers to get what is queued

	KeepBytes   int64 // what a stream keeps, in bytes
	KeepFrames  int   // and in frames
	MaxTagBytes int   // the longest data of an FLV tag

	Latency time.Duration // how long a frame may wait for company before it is sent; 0: not at all

	LagBytes     int64         // a viewer may be this many bytes behind; 0: as many as the stream keeps
	LagFrames    int           // or this many frames; 0: as many as the stream keeps
	LagTime      time.Duration // or this long; 0: no limit
	LagPolicy    Policy        // what happens beyond
	StallTimeout time.Duration // a client that takes nothing for this long, though there is something, is disconnected, whatever the policy
	Unsent       int           // bytes that the kernel may hold for a viewer without having sent them; 0: the system's default

	Log *slog.Logger // nil: nothing is logged
}

// Defaults returns the configuration of a server that was asked for nothing special.
func Defaults() Config {
	return Config{
		// Reachable from this machine only: nobody should find a stranger's stream on theirs because they tried a command.
		Listen: "127.0.0.1:8080",

		// 128 streams that keep 16 MiB each are 2 GiB, which a small server has; twice that at the very most, if each
		// is watched as MP4 as well and none of what that keeps is what the stream keeps.
		MaxStreams: 128,
		// A viewer costs about 4 KiB here; a slow one pins up to Unsent bytes in the kernel: 512 MiB if all 4096 are slow.
		MaxViewers:       4096,
		MaxStreamViewers: 4096,

		// No lists: whoever puts a file there for somebody who has its name does not expect others to see it. Nothing
		// precompressed: name.gz may be a file of its own. Nothing is dropped from the page cache: the kernel lets go
		// of what is read once before what is read often, and a file that many load in turn should stay.
		//
		// Half of the 1024 descriptors that a process has where nobody has raised the limit; the others are for connections.
		FilesOpen: 512,
		// An SSD is busy, and a hard disk's heads do not wander between more places.
		FilesColdReaders: 8,
		FilesSendBuffer:  4 << 20, // as chunk.SendBuffer
		// As many as viewers. A download holds a goroutine, net/http's two buffers of 4 KiB, and what the kernel takes for its
		// connection: up to 4 MiB if the client is slow.
		MaxDownloads: 4096,

		// Nobody else's keys can be read or replaced through /blobs/.
		RedisPrefix: "blobs:",
		// What Redis takes, so that a value fits wherever it may be kept one day. In a directory it may be more.
		MaxBlobBytes: blob.MaxRedisValue,
		// An upload holds 64 KiB here, or up to 1 MiB for Redis, and a descriptor. A disk is busy with fewer.
		MaxUploads: 64,

		// A request's head is one packet. Ten seconds forgive the worst mobile network, but not a client that holds a
		// place.
		HeaderTimeout: 10 * time.Second,
		// Longer than the poll interval of the page, so that its connection is reused.
		IdleTimeout: 60 * time.Second,
		// An encoder sends many times a second. Half a minute outlasts a roaming handover, and frees the name before
		// whoever restarts a broken encoder loses patience.
		PublishTimeout: 30 * time.Second,
		// Long enough to start the player first and then the encoder by hand.
		ViewerWait: 10 * time.Second,
		// Below the ten seconds after which Docker kills, well below the thirty of Kubernetes.
		DrainTimeout: 8 * time.Second,

		// A group of pictures of ten seconds (x264's default at 25 pictures a second) at 12 Mbit/s fits.
		KeepBytes: 16 << 20,
		// No bound of its own for what people send: a still picture with sound, one a second and every 250th a key
		// frame, has groups of 12,000 frames and 4 MB.
		KeepFrames: 16384,
		// A key frame of a 4K picture is one to two MB. The format allows 16 MiB.
		MaxTagBytes: 4 << 20,

		// What is sent costs per segment, not per byte. See docs/serve.md for the curve.
		Latency: 50 * time.Millisecond,

		// A player buffers one to three seconds. One that is five behind has stopped showing the picture as it is.
		LagTime: 5 * time.Second,
		// 8 MiB are those five seconds at 12 Mbit/s, and leave half of what is kept as a margin.
		LagBytes:  8 << 20,
		LagPolicy: Skip,
		// A browser tab in the background may stop reading for a while; longer, and its memory serves nobody.
		StallTimeout: 30 * time.Second,
		// Without a bound the kernel swallows about 4 MB before a stall is seen. 128 KiB are half a second at 2 Mbit/s
		// and still fill a link of 10 Mbit/s for 100 ms.
		Unsent: 128 << 10,
	}
}

// maxLatency bounds the latency bound: a publisher's end, and the server's own, wait for it.
const maxLatency = time.Second

const (
	// maxSendBuffer is what chunk.SendBuffer takes.
	maxSendBuffer = 1 << 29

	// maxColdReaders bounds what takes a thread each while it waits for a disk. The Go runtime ends a process with 10,000.
	maxColdReaders = 1 << 10
	// maxOpenFiles is more than a process on Linux may have open unless the system is told otherwise (fs.nr_open).
	maxOpenFiles = 1 << 20
	// maxKeepFrames bounds what a stream's lists of frames and pieces take to 90 MiB, whatever --keep-bytes allows: frames
	// may be empty.
	maxKeepFrames = 1 << 20
)

// check refuses what cannot work, naming the field by its flag.
func (c *Config) check() error {
	for _, b := range []struct {
		flag     string
		val, min int64
	}{
		{"max-streams", int64(c.MaxStreams), 1},
		{"max-viewers", int64(c.MaxViewers), 1},
		{"max-stream-viewers", int64(c.MaxStreamViewers), 1},
		{"keep-bytes", c.KeepBytes, 64 << 10},
		{"keep-frames", int64(c.KeepFrames), 2},
		{"max-tag-bytes", int64(c.MaxTagBytes), 1 << 10},
		{"lag-bytes", c.LagBytes, 0},
		{"lag-frames", int64(c.LagFrames), 0},
		{"unsent", int64(c.Unsent), 0},
		{"files-drop-behind", c.FilesDropBehind, 0},
		{"files-send-buffer", c.FilesSendBuffer, 0},
		{"files-open", int64(c.FilesOpen), 1},
		{"files-cold-readers", int64(c.FilesColdReaders), 1},
		{"max-downloads", int64(c.MaxDownloads), 1},
		{"max-uploads", int64(c.MaxUploads), 1},
		{"max-blob-bytes", c.MaxBlobBytes, 1},
	} {
		if b.val < b.min {
			return fmt.Errorf("--%s is %d, want at least %d", b.flag, b.val, b.min)
		}
	}
	for _, b := range []struct {
		flag     string
		val, max int
	}{
		{"keep-frames", c.KeepFrames, maxKeepFrames},
		{"files-send-buffer", int(min(c.FilesSendBuffer, math.MaxInt32)), maxSendBuffer},
		{"files-open", c.FilesOpen, maxOpenFiles},
		{"files-cold-readers", c.FilesColdReaders, maxColdReaders},
	} {
		if b.val > b.max {
			return fmt.Errorf("--%s is %d, want at most %d", b.flag, b.val, b.max)
		}
	}
	if err := c.checkAccess(); err != nil {
		return err
	}
	if err := c.checkBlobs(); err != nil {
		return err
	}
	if err := c.checkTimes(); err != nil {
		return err
	}
	if c.Latency > maxLatency {
		return fmt.Errorf("--latency is %v, want at most %v", c.Latency, maxLatency)
	}
	if c.LagPolicy != Skip && c.LagPolicy != Drop {
		return fmt.Errorf("--lag-policy is %q, want %q or %q", c.LagPolicy, Skip, Drop)
	}
	if longest := (flv.Tag{Size: c.MaxTagBytes}).Len(); int64(longest) > c.KeepBytes {
		return fmt.Errorf("--max-tag-bytes %d is, with what is around the data, %d bytes a tag, and --keep-bytes is %d: "+
			"the longest tag could not be kept", c.MaxTagBytes, longest, c.KeepBytes)
	}
	return nil
}

func (c *Config) checkAccess() error {
	for flag, token := range map[string]string{"publish-token": c.PublishToken, "read-token": c.ReadToken} {
		if token != strings.TrimSpace(token) {
			return fmt.Errorf("--%s begins or ends with a space, which a header cannot show", flag)
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key are needed together")
	}
	return nil
}

func (c *Config) checkTimes() error {
	for _, b := range []struct {
		flag     string
		val, min time.Duration
	}{
		{"header-timeout", c.HeaderTimeout, 1},
		{"idle-timeout", c.IdleTimeout, 1},
		{"publish-timeout", c.PublishTimeout, 1},
		{"viewer-wait", c.ViewerWait, 0},
		{"drain-timeout", c.DrainTimeout, 0},
		{"latency", c.Latency, 0},
		{"lag-time", c.LagTime, 0},
		{"stall-timeout", c.StallTimeout, 1},
	} {
		if b.val < b.min {
			return fmt.Errorf("--%s is %v, want at least %v", b.flag, b.val, b.min)
		}
	}
	return nil
}
