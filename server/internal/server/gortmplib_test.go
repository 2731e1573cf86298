package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bluenviron/gortmplib"
	"github.com/bluenviron/gortmplib/pkg/amf0"
	"github.com/bluenviron/gortmplib/pkg/codecs"
	"github.com/bluenviron/gortmplib/pkg/message"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/av1"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/mpeg4audio"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/opus"
	"github.com/millrace-io/millrace/server/internal/demo"
)

// gortmplib is the RTMP client of another project. It shares no code with media/rtmp: neither the
// handshake, nor the chunks, the commands or the codec headers.

// A libStream is a stream in the form that gortmplib writes and reads.
type libStream struct {
	// By track, such as "video0": the FourCC of the codec, and its parameters.
	config map[string][][]byte
	frames []libFrame
}

// A libFrame has the NAL units of H.264 and H.265, the OBUs of AV1, or one packet of audio.
type libFrame struct {
	track    string
	pts, dts time.Duration
	units    [][]byte
}

func (s *libStream) add(track string, pts, dts time.Duration, units ...[]byte) {
	s.frames = append(s.frames, libFrame{track, pts, dts, units})
}

// later returns the stream with d added to its times.
func (s *libStream) later(d time.Duration) *libStream {
	moved := &libStream{config: s.config}
	for _, f := range s.frames {
		moved.add(f.track, f.pts+d, f.dts+d, f.units...)
	}
	return moved
}

// head returns the number of frames up to the first video frame.
func (s *libStream) head() int {
	return 1 + slices.IndexFunc(s.frames, func(f libFrame) bool { return f.track == "video0" })
}

// same compares a stream with want.
func (s *libStream) same(t *testing.T, what string, want *libStream) {
	t.Helper()
	if !reflect.DeepEqual(s.config, want.config) {
		t.Errorf("%s: the tracks are %x, want %x", what, s.config, want.config)
	}
	for i := range min(len(s.frames), len(want.frames)) {
		if got, want := s.frames[i], want.frames[i]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: frame %d is of %s, at %v, %v, %d bytes; want %s, %v, %v, %d bytes", what,
				i, got.track, got.pts, got.dts,
				len(bytes.Join(got.units, nil)), want.track, want.pts, want.dts,
				len(bytes.Join(want.units, nil)))
			return
		}
	}
	if len(s.frames) != len(want.frames) {
		t.Errorf("%s: %d frames, want %d", what, len(s.frames), len(want.frames))
	}
}

// tracks returns the tracks in the order of gortmplib, video first, and their names.
func (s *libStream) tracks(t *testing.T) (names []string, tracks []*gortmplib.Track) {
	t.Helper()
	for _, kind := range []string{"video", "audio"} {
		for id := 0; ; id++ {
			name := fmt.Sprint(kind, id)
			config, ok := s.config[name]
			if !ok {
				break
			}
			var codec codecs.Codec
			switch fourCC := string(config[0]); fourCC {
			case "avc1":
				codec = &codecs.H264{SPS: config[1], PPS: config[2]}
			case "hvc1":
				codec = &codecs.H265{VPS: config[1], SPS: config[2], PPS: config[3]}
			case "av01":
				codec = &codecs.AV1{}
			case "mp4a":
				c := new(mpeg4audio.AudioSpecificConfig)
				if err := c.Unmarshal(config[1]); err != nil {
					t.Fatal(err)
				}
				codec = &codecs.MPEG4Audio{Config: c}
			case "Opus":
				c := new(opus.IDHeader)
				if err := c.Unmarshal(config[1]); err != nil {
					t.Fatal(err)
				}
				codec = &codecs.Opus{IDHeader: c}
			default:
				t.Fatalf("no codec %s", fourCC)
			}
			names, tracks = append(names, name), append(tracks, &gortmplib.Track{Codec: codec})
		}
	}
	return names, tracks
}

// configOf is the inverse of tracks.
func configOf(track *gortmplib.Track) ([][]byte, error) {
	switch c := track.Codec.(type) {
	case *codecs.H264:
		return [][]byte{[]byte("avc1"), c.SPS, c.PPS}, nil
	case *codecs.H265:
		return [][]byte{[]byte("hvc1"), c.VPS, c.SPS, c.PPS}, nil
	case *codecs.AV1:
		return [][]byte{[]byte("av01")}, nil
	case *codecs.MPEG4Audio:
		p, err := c.Config.Marshal()
		return [][]byte{[]byte("mp4a"), p}, err
	case *codecs.Opus:
		p, err := c.IDHeader.Marshal()
		return [][]byte{[]byte("Opus"), p}, err
	}
	return nil, fmt.Errorf("a track of %T", track.Codec)
}

// readTags reads FLV tags, without the project's own decoder.
func readTags(t *testing.T, tags [][]byte) *libStream {
	t.Helper()
	s := &libStream{config: make(map[string][][]byte)}
	for i, tag := range tags {
		at := time.Duration(
			uint32(tag[7])<<24|binary.BigEndian.Uint32(tag[3:])&0xffffff) * time.Millisecond
		if tag[0] != 18 && !s.readBody(tag[0], at, tag[11:len(tag)-4]) {
			t.Fatalf("tag %d, of type %d, begins with %x", i, tag[0], tag[11:min(len(tag), 31)])
		}
	}
	return s
}

// readBody reads the body of a tag, and returns whether it understands it.
func (s *libStream) readBody(kind byte, at time.Duration, p []byte) bool {
	const (
		config, frames, framesX     = 0, 1, 3
		audioTracks, videoTracks    = 5, 6
		audio, classicAAC, extended = 8, 10, 9
	)
	var packet byte
	var codec string
	track, shown := "video0", at
	switch {
	case kind == audio && p[0]>>4 == classicAAC:
		track, packet, codec, p = "audio0", p[1], "mp4a", p[2:]
	case kind == audio && p[0]>>4 != extended:
		return false
	case kind == audio || p[0]&0x80 != 0:
		if kind == audio {
			track = "audio0"
		}
		if packet, p = p[0]&15, p[1:]; kind == audio && packet == audioTracks || kind != audio &&
			packet == videoTracks {
			track = fmt.Sprint(track[:5], p[5])
			packet, p = p[0]&15, slices.Concat(p[1:5], p[6:]) // one track
		}
		codec, p = string(p[:4]), p[4:]
	default:
		packet, codec, p = p[1], map[byte]string{7: "avc1"}[p[0]&15], p[2:]
		if packet == config {
			p = p[3:]
		}
	}
	if packet == frames && (codec == "avc1" || codec == "hvc1") {
		shown += time.Duration(int32(binary.BigEndian.Uint32(p[:4]))>>8) * time.Millisecond
		p = p[3:]
	}
	if packet == config {
		s.config[track] = slices.Insert(readRecord(codec, p), 0, []byte(codec))
		return true
	}
	units := [][]byte{p}
	var err error
	switch codec {
	case "avc1", "hvc1":
		err = (*h264.AVCC)(&units).Unmarshal(p)
	case "av01":
		units = nil
		if err = (*av1.Bitstream)(&units).Unmarshal(p); err == nil {
			units = units[1:] // a temporal delimiter
		}
	}
	s.add(track, shown, at, units...)
	return err == nil && (packet == frames || packet == framesX)
}

// readRecord returns the parameters in a sequence header.
func readRecord(codec string, p []byte) (all [][]byte) {
	next := func(p []byte) []byte {
		n := 2 + int(binary.BigEndian.Uint16(p))
		all = append(all, p[2:n])
		return p[n:]
	}
	switch codec {
	case "avc1":
		next(next(p[6:])[1:])
	case "hvc1": // three arrays of one element
		for p = p[23:]; len(p) > 0; {
			p = next(p[3:])
		}
	case "av01":
	default:
		all = [][]byte{p}
	}
	return all
}

// libURL returns the address of the listener for a scheme.
func (f *rtmpFixture) libURL(scheme, rest string) string {
	if scheme == "rtmps" {
		return "rtmps://" + f.rtmps + rest
	}
	return "rtmp://" + f.rtmp + rest
}

// libClient connects to an address, with the stream key in its fragment.
func (f *rtmpFixture) libClient(address string, publish bool) (*gortmplib.Client, error) {
	f.T.Helper()
	u, err := url.Parse(address)
	if err != nil {
		f.T.Fatal(err)
	}
	c := &gortmplib.Client{URL: u, Publish: publish, TLSConfig: &tls.Config{RootCAs: f.roots()},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				err = conn.SetDeadline(time.Now().Add(2 * testTimeout))
			}
			return conn, err
		},
	}
	if err := c.Initialize(f.T.Context()); err != nil {
		return nil, err
	}
	f.T.Cleanup(c.Close)
	return c, nil
}

// roots returns the server's self-signed certificate, or nil.
func (f *rtmpFixture) roots() *x509.CertPool {
	if f.cfg.TLSCert == "" {
		return nil
	}
	text, err := os.ReadFile(f.cfg.TLSCert)
	if err != nil {
		f.T.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return roots
}

// statusIn returns the code and the description of an onStatus message, or "".
func statusIn(m message.Message) string {
	c, ok := m.(*message.CommandAMF0)
	if !ok || c.Name != "onStatus" || len(c.Arguments) < 2 {
		return ""
	}
	info, _ := c.Arguments[1].(amf0.Object)
	code, _ := info.GetString("code")
	description, _ := info.GetString("description")
	return code + ": " + description
}

// A libPublisher publishes with gortmplib.
type libPublisher struct {
	t      *testing.T
	client *gortmplib.Client
	writer *gortmplib.Writer
	tracks map[string]*gortmplib.Track
	codec  map[string]string

	statuses chan string // the server's messages; closed at the end of the connection
}

// libPublish publishes the tracks of a stream, but none of its frames.
func (f *rtmpFixture) libPublish(t *testing.T, address string, s *libStream) *libPublisher {
	t.Helper()
	c, err := f.libClient(address, true)
	if err != nil {
		t.Fatal(err)
	}
	p := &libPublisher{t: t, client: c, writer: &gortmplib.Writer{Conn: c},
		tracks: make(map[string]*gortmplib.Track),
		codec:  make(map[string]string), statuses: make(chan string, 100)}
	names, tracks := s.tracks(t)
	for i, name := range names {
		p.tracks[name], p.codec[name] = tracks[i], string(s.config[name][0])
	}
	go func() {
		defer close(p.statuses)
		for {
			m, err := c.Read()
			if err != nil {
				return
			}
			if s := statusIn(m); s != "" {
				p.statuses <- s
			}
		}
	}()
	p.writer.Tracks = tracks
	if err := p.writer.Initialize(); err != nil {
		t.Fatal(err)
	}
	return p
}

// send sends frames.
func (p *libPublisher) send(frames ...libFrame) {
	p.t.Helper()
	for i, f := range frames {
		var err error
		switch w, track := p.writer, p.tracks[f.track]; p.codec[f.track] {
		case "avc1":
			err = w.WriteH264(track, f.pts, f.dts, f.units)
		case "hvc1":
			err = w.WriteH265(track, f.pts, f.dts, f.units)
		case "av01":
			err = w.WriteAV1(track, f.pts, f.units)
		case "mp4a":
			err = w.WriteMPEG4Audio(track, f.pts, f.units[0])
		case "Opus":
			err = w.WriteOpus(track, f.pts, f.units[0])
		}
		if err != nil {
			p.t.Fatalf("frame %d: %v", i, err)
		}
	}
}

// call calls the server by name.
func (p *libPublisher) call(name string, argument any) {
	p.t.Helper()
	const stream = 1 << 24 // 1, in the byte order of gortmplib
	m := &message.CommandAMF0{ChunkStreamID: 4, MessageStreamID: stream, Name: name,
		Arguments: amf0.Data{nil, argument}}
	if err := p.client.Write(m); err != nil {
		p.t.Error(err)
	}
}

// await waits for the status with the given code.
func (p *libPublisher) await(code string) string {
	p.t.Helper()
	for s := range p.statuses {
		if strings.HasPrefix(s, code+": ") {
			return s
		}
	}
	p.t.Fatalf("the connection ends without %s", code)
	return ""
}

// unpublish ends the stream as encoders do.
func (p *libPublisher) unpublish() {
	p.t.Helper()
	p.call("deleteStream", 1.)
	p.await("NetStream.Unpublish.Success")
	p.client.Close()
}

// A libViewer plays with gortmplib.
type libViewer struct {
	t      *testing.T
	client *gortmplib.Client
	done   chan struct{}

	// Used by the reading goroutine until done is closed.
	got      libStream
	statuses []string
	err      error
}

// libWatch plays an existing stream. The viewer starts at its newest keyframe.
func (f *rtmpFixture) libWatch(t *testing.T, address string) *libViewer {
	t.Helper()
	c, err := f.libClient(address, false)
	if err != nil {
		t.Fatal(err)
	}
	v := &libViewer{t: t, client: c, done: make(chan struct{}),
		got: libStream{config: make(map[string][][]byte)}}
	go func() {
		defer close(v.done)
		v.err = v.read()
	}()
	return v
}

// A libConn records the data that a viewer reads.
type libConn struct {
	*gortmplib.Client
	v *libViewer
}

func (c libConn) Read() (message.Message, error) {
	m, err := c.Client.Read()
	if s := statusIn(m); s != "" {
		c.v.statuses = append(c.v.statuses, s)
	} else if _, ends := m.(*message.UserControlStreamEOF); ends {
		c.v.statuses = append(c.v.statuses, "StreamEOF")
	}
	return m, err
}

// read reads until an error occurs.
func (v *libViewer) read() error {
	r := &gortmplib.Reader{Conn: libConn{v.client, v}}
	if err := r.Initialize(); err != nil {
		return err
	}
	counts := make(map[string]int)
	for _, track := range r.Tracks() {
		kind := "audio"
		if track.Codec.IsVideo() {
			kind = "video"
		}
		name := fmt.Sprint(kind, counts[kind])
		counts[kind]++
		config, err := configOf(track)
		if err != nil {
			return err
		}
		v.got.config[name] = config
		units := func(pts, dts time.Duration, units [][]byte) {
			// gortmplib returns a sequence header as a frame.
			if !reflect.DeepEqual(units, config[1:]) {
				v.got.add(name, pts, dts, units...)
			}
		}
		packet := func(pts time.Duration, p []byte) { v.got.add(name, pts, pts, p) }
		switch track.Codec.(type) {
		case *codecs.H264:
			r.OnDataH264(track, units)
		case *codecs.H265:
			r.OnDataH265(track, units)
		case *codecs.AV1: // including a temporal delimiter
			r.OnDataAV1(track, func(pts time.Duration, list [][]byte) { units(pts, pts, list[1:]) })
		case *codecs.MPEG4Audio:
			r.OnDataMPEG4Audio(track, packet)
		case *codecs.Opus:
			r.OnDataOpus(track, packet)
		}
	}
	for {
		if err := r.Read(); err != nil {
			return err
		}
	}
}

// rest waits for the end of the stream, and returns it.
func (v *libViewer) rest() *libStream {
	v.t.Helper()
	<-v.done
	if v.err != io.EOF {
		v.t.Errorf("gortmplib's viewer after %d frames: %v", len(v.got.frames), v.err)
	}
	last := ""
	if n := len(v.statuses); n > 0 {
		last = v.statuses[n-1]
	}
	if !slices.Contains(v.statuses, "StreamEOF") ||
		!strings.HasPrefix(last, "NetStream.Play.Stop") {
		v.t.Errorf("gortmplib's viewer is told %q", v.statuses)
	}
	return &v.got
}

// libStreams returns streams of at least two seconds, because a reader of gortmplib looks for
// tracks for two seconds.
func libStreams(t *testing.T) map[string]*libStream {
	t.Helper()
	sample := readTags(t, sampleTags())
	rnd := rand.New(rand.NewPCG(1, 2))
	noise := func(first string, n int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rnd.Uint32())
		}
		copy(p, first)
		return p
	}
	unhex := func(text string) []byte {
		p, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// made returns a stream with keyframes of the given size. If reordered is set, presentation
	// times differ from decoding times.
	made := func(config map[string][][]byte, size int, video func(key bool, size int) [][]byte,
		reordered bool,
		audio ...string) *libStream {
		s := &libStream{config: config}
		for i := range 70 {
			at, key := time.Duration(i)*40*time.Millisecond, i%25 == 0
			shown := at
			if reordered && i%3 == 1 {
				shown += 80 * time.Millisecond
			}
			s.add("video0", shown, at, video(key, size)...)
			for _, track := range audio {
				s.add(track, at+7*time.Millisecond, at+7*time.Millisecond, noise("", 100))
			}
		}
		return s
	}
	// gortmplib drops everything after the first two bytes of an AudioSpecificConfig, which say
	// that there is no SBR.
	aac := [][]byte{[]byte("mp4a"), sample.config["audio0"][1][:2]}
	sample.config["audio0"] = aac
	head := [][]byte{[]byte("Opus"), []byte("OpusHead\x01\x02\x38\x01\x80\xbb\x00\x00\x00\x00\x00")}
	avc := func(key bool, size int) [][]byte {
		if key {
			return [][]byte{noise("\x06\x05", 30), noise("\x65", size)}
		}
		return [][]byte{noise("\x41", size/10)}
	}
	return map[string]*libStream{
		"H.264 and AAC": sample,
		// Timestamps of more than 24 bits, and frames of several chunks, each of which repeats the
		// timestamp.
		"late and large": made(map[string][][]byte{"video0": sample.config["video0"],
			"audio0": aac}, 150_000, avc, true, "audio0").
			later((1<<24 - 1000) * time.Millisecond),
		"H.265 and Opus": made(map[string][][]byte{"video0": {[]byte("hvc1"),
			unhex("40010c01ffff01600000030090000003000003003c95980920"),
			unhex("42010101600000030090000003000003003ca00a480b9c9596566924caf0168080000003008000000c842200"[:86]),
			unhex("4401c172b46240"),
		}, "audio0": head}, 5000, func(key bool, size int) [][]byte {
			if key {
				return [][]byte{noise("\x26\x01", size)}
			}
			return [][]byte{noise("\x02\x01", size/10), noise("\x02\x01", size/10)}
		}, true, "audio0"),
		"AV1 and AAC": made(map[string][][]byte{"video0": {[]byte("av01")}, "audio0": aac}, 5000,
			func(key bool, size int) [][]byte {
				if key {
					return [][]byte{unhex("080000000042abbfc3700be001"), noise("\x30", size)}
				}
				return [][]byte{noise("\x30", size/10)}
			}, false, "audio0"),
		"two tracks of audio": made(map[string][][]byte{"video0": sample.config["video0"],
			"audio0": aac, "audio1": head},
			5000, avc, true, "audio0", "audio1"),
	}
}

// Streams published by gortmplib reach viewers of each format unchanged. Other streams reach
// viewers of gortmplib unchanged.
func TestGortmplib(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	plain := serveRTMP(t, nil)
	// This server has HTTPS.
	secure := serveRTMP(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	for format, want := range libStreams(t) {
		var tags [][]byte // of the stream that gortmplib has published before
		byLibrary := func(scheme string) func(t *testing.T, f *rtmpFixture) libSource {
			return func(t *testing.T, f *rtmpFixture) libSource {
				p, n := f.libPublish(t, f.libURL(scheme, "/live#cam"), want), want.head()
				return libSource{func() { p.send(want.frames[:n]...) },
					func() { p.send(want.frames[n:]...) }, p.unpublish}
			}
		}
		for _, tt := range []struct {
			by      string
			f       *rtmpFixture
			publish func(t *testing.T, f *rtmpFixture) libSource
		}{
			{"gortmplib over rtmp", plain, byLibrary("rtmp")},
			{"gortmplib over rtmps", secure, byLibrary("rtmps")},
			{"RTMP", secure, func(t *testing.T, f *rtmpFixture) libSource {
				p, n := f.client("live"), tagsUpToVideo(tags)
				p.ChunkSize(4096)
				if s := p.Publish("cam"); s.Level != "status" {
					t.Fatalf("publishing was refused: %+v", s)
				}
				send := func(tags [][]byte) {
					if err := p.SendTags(tags...); err != nil {
						t.Error(err)
					}
				}
				return libSource{func() { send(tags[:n]) }, func() { send(tags[n:]) }, func() {
					p.Call(1, "deleteStream", nil, 1)
					p.AwaitCode("NetStream.Unpublish.Success")
					_ = p.Conn.Close()
				}}
			}},
			{"HTTP-FLV", plain, func(t *testing.T, f *rtmpFixture) libSource {
				p, n := f.Publisher("cam"), tagsUpToVideo(tags)
				return libSource{
					func() { p.Send(slices.Concat(demo.Sample[:13], bytes.Join(tags[:n], nil))) },
					func() { p.Send(bytes.Join(tags[n:], nil)) }, func() { p.End() },
				}
			}},
		} {
			if !t.Run(format+" by "+tt.by, func(t *testing.T) {
				f := tt.f
				source := tt.publish(t, f)
				source.begin()
				viewers := []*libViewer{f.libWatch(t, f.libURL("rtmp", "/live#cam"))}
				var toHTTP net.Conn = dial(t, f.Addr, 0)
				if f == secure {
					viewers = append(viewers, f.libWatch(t, f.libURL("rtmps", "/live#cam")))
					toHTTP = tls.Client(toHTTP,
						&tls.Config{RootCAs: f.roots(), ServerName: "127.0.0.1"})
				}
				byRTMP := f.client("live")
				byRTMP.Play("cam")
				byRTMP.AwaitCode("NetStream.Play.Start")
				byHTTP := f.AskOn(toHTTP, "/live/cam.flv")
				byHTTP.Begin()
				source.goOn()
				source.end()
				for i, v := range viewers {
					v.rest().same(t, fmt.Sprintf("gortmplib's viewer %d", i), want)
				}
				got, _ := byRTMP.Rest()
				readTags(t, got).same(t, "the viewer of RTMP", want)
				got = cutTags(byHTTP.Rest())
				readTags(t, got).same(t, "the viewer of HTTP-FLV", want)
				if tags == nil {
					tags = got
				}
				eventually(t, "the stream to end", func() bool { return len(f.hub.Streams()) == 0 })
			}) {
				break
			}
		}
	}
}

// A libSource is a publisher: begin sends a stream up to its first video frame, and goOn sends the
// rest.
type libSource struct{ begin, goOn, end func() }

// A server that accepts the longest possible frames does not announce a chunk size that gortmplib
// refuses.
func TestGortmplibWithTheLongestFrames(t *testing.T) {
	f := serveRTMP(t, func(c *Config) {
		c.MaxTagBytes, c.KeepBytes, c.LagBytes = 1<<24-1, 64<<20, 64<<20
	})
	want := libStreams(t)["late and large"]
	// Its header makes it longer than a chunk, and as long as gortmplib accepts.
	i := slices.IndexFunc(want.frames, func(f libFrame) bool {
		return f.track == "video0" && f.dts > want.frames[0].dts
	})
	want.frames[i].units = [][]byte{bytes.Repeat([]byte{0x41}, 5<<20),
		bytes.Repeat([]byte{0x41}, 3<<20)}
	n := want.head()
	p := f.libPublish(t, f.libURL("rtmp", "/live#cam"), want)
	p.send(want.frames[:n]...)
	v := f.libWatch(t, f.libURL("rtmp", "/live#cam"))
	p.send(want.frames[n:]...)
	p.unpublish()
	v.rest().same(t, "the viewer", want)
}

// The token may be after the stream key, or in the address. A client with a wrong token is told so.
func TestGortmplibTokens(t *testing.T) {
	f := serveRTMP(t, func(c *Config) {
		c.PublishToken, c.ReadToken = "publish-s3cret", "read-s3cret"
	})
	sample := libStreams(t)["H.264 and AAC"]
	for _, rest := range []string{"/live#cam?token=", "/live?token=publish-s3cret#cam?x=",
		"/live/cam?token="} {
		p := f.libPublish(t, f.libURL("rtmp", rest+"publish-s3cret"), sample)
		n := sample.head()
		p.send(sample.frames[:n]...)
		v := f.libWatch(t, f.libURL("rtmp", strings.ReplaceAll(rest, "publish", "read")+
			"read-s3cret"))
		p.send(sample.frames[n:]...)
		p.unpublish()
		v.rest().same(t, rest, sample)
	}
	for _, tt := range []struct {
		publish    bool
		rest, says string
	}{
		{true, "/live#cam", "NetStream.Publish.Denied"}, {true, "/live#cam", "needs the token"},
		{true, "/live#cam?token=wrong", "NetStream.Publish.Denied"},
		{true, "/live#cam?token=wrong", "wrong publish token"},
		{true, "/live#cam?token=read-s3cret", "wrong publish token"},
		{true, "/other#cam?token=publish-s3cret", "the server is rtmp://HOST/live"},
		{false, "/live#cam", "NetStream.Play.Failed"},
		{false, "/live#cam?token=wrong", "wrong token"},
	} {
		c, err := f.libClient(f.libURL("rtmp", tt.rest), tt.publish)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("publish %t, %s: %v, want %s", tt.publish, tt.rest, err, tt.says)
		}
	}
	if strings.Contains(f.Log.String(), "s3cret") {
		t.Error("a token is in the log")
	}
}

// A second publisher takes over. The first one gets the reason, and viewers stay.
func TestGortmplibTakeover(t *testing.T) {
	f := serveRTMP(t, nil)
	sample := libStreams(t)["H.264 and AAC"]
	half, n := len(sample.frames)/2, sample.head()
	p := f.libPublish(t, f.libURL("rtmp", "/live#cam"), sample)
	p.send(sample.frames[:n]...)
	v := f.libWatch(t, f.libURL("rtmp", "/live#cam"))
	p.send(sample.frames[n:half]...)
	f.published("cam", len(bytes.Join(unitsOf(sample.frames[:half]), nil)))
	next := f.libPublish(t, f.libURL("rtmp", "/live#cam"), sample)
	if s := p.await("NetStream.Publish.BadName"); !strings.Contains(s, "took over") {
		t.Errorf("the first publisher is told %q", s)
	}
	p.client.Close()
	next.send(sample.frames...)
	next.unpublish()
	got := v.rest()
	// The second publisher's times continue after the first one's.
	want := &libStream{config: sample.config, frames: slices.Clone(sample.frames[:half])}
	if len(got.frames) > half {
		want.frames = append(
			want.frames, sample.later(got.frames[half].dts-sample.frames[0].dts).frames...)
		if got.frames[half].dts < got.frames[half-1].dts {
			t.Errorf("the time goes from %v to %v", got.frames[half-1].dts, got.frames[half].dts)
		}
	}
	got.same(t, "the viewer", want)
}

func unitsOf(frames []libFrame) (all [][]byte) {
	for _, f := range frames {
		all = append(all, f.units...)
	}
	return all
}

// A stream ends with deleteStream, closeStream or FCUnpublish, and with its publisher's connection.
func TestGortmplibEndsItsStream(t *testing.T) {
	f := serveRTMP(t, nil)
	sample := libStreams(t)["H.264 and AAC"]
	n := sample.head()
	for name, end := range map[string]func(p *libPublisher){
		"deleteStream": func(p *libPublisher) { p.call("deleteStream", 1.) },
		"closeStream":  func(p *libPublisher) { p.call("closeStream", nil) },
		"FCUnpublish":  func(p *libPublisher) { p.call("FCUnpublish", "cam") },
		// The server's last messages may be unread. Close would discard them.
		"": func(p *libPublisher) { _ = p.client.NetConn().(*net.TCPConn).CloseWrite() },
	} {
		p := f.libPublish(t, f.libURL("rtmp", "/live#cam"), sample)
		p.send(sample.frames[:n]...)
		v := f.libWatch(t, f.libURL("rtmp", "/live#cam"))
		p.send(sample.frames[n:]...)
		end(p)
		if name != "" {
			p.await("NetStream.Unpublish.Success")
		}
		v.rest().same(t, name, sample)
		eventually(t, "the stream to end", func() bool { return len(f.hub.Streams()) == 0 })
		p.client.Close()
	}
}

// tagsUpToVideo returns the number of tags up to the first video frame.
func tagsUpToVideo(tags [][]byte) int {
	return 1 + slices.IndexFunc(tags, func(tag []byte) bool {
		return tag[0] == 9 && (tag[11]&0x80 == 0 && tag[12] == 1 || tag[11]&0x80 != 0 &&
			tag[11]&15 != 0)
	})
}

// cutTags returns the tags of an FLV file.
func cutTags(p []byte) (tags [][]byte) {
	for p = p[13:]; len(p) > 0; {
		n := 15 + int(p[1])<<16 + int(p[2])<<8 + int(p[3])
		tags, p = append(tags, p[:n]), p[n:]
	}
	return tags
}
