package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// A reel is an FLV stream as a list of tags, with their timestamps.
type reel [][]byte

const (
	audioTag = 8
	videoTag = 9
)

// sampleReel returns the given number of seconds of the sample: sequence headers, then frames with
// a keyframe each second.
func sampleReel(seconds int) (r reel) {
	tags := sampleTags()
	for round := 0; round*8 < seconds; round++ {
		for _, tag := range tags {
			at := tagTime(tag) + round*8000
			if at >= seconds*1000 || round > 0 && isConfigTag(tag) {
				continue
			}
			r = append(r, withTime(tag, at))
		}
	}
	return r
}

func isConfigTag(tag []byte) bool { return len(tag) > 0 && (tag[0] == 18 || tag[12] == 0) }

func isKeyTag(tag []byte) bool { return tag[0] == videoTag && tag[11]>>4 == 1 && !isConfigTag(tag) }

func tagTime(tag []byte) int {
	return int(tag[7])<<24 | int(tag[4])<<16 | int(tag[5])<<8 | int(tag[6])
}

func withTime(tag []byte, ms int) []byte {
	tag = bytes.Clone(tag)
	tag[4], tag[5], tag[6], tag[7] = byte(ms>>16), byte(ms>>8), byte(ms), byte(ms>>24)
	return tag
}

// change returns the reel with each tag replaced by the result of f. A nil result removes the tag.
func (r reel) change(f func(i int, tag []byte) []byte) (out reel) {
	for i, tag := range r {
		if tag = f(i, tag); tag != nil {
			out = append(out, tag)
		}
	}
	return out
}

// only removes tags of other kinds.
func (r reel) only(kind byte) reel {
	return r.change(func(_ int, tag []byte) []byte {
		if tag[0] != kind {
			return nil
		}
		return tag
	})
}

// keyEvery keeps a keyframe only in each n-th second, or with 0 only the first one.
func (r reel) keyEvery(n int) reel {
	key := -1
	return r.change(func(_ int, tag []byte) []byte {
		if !isKeyTag(tag) {
			return tag
		}
		if key++; key == 0 || n > 0 && key%n == 0 {
			return tag
		}
		tag = bytes.Clone(tag)
		tag[11] = tag[11]&0x0f | 2<<4
		return tag
	})
}

// later adds ms to all timestamps.
func (r reel) later(ms int) reel {
	return r.change(func(_ int, tag []byte) []byte { return withTime(tag, tagTime(tag)+ms) })
}

// config returns the reel's sequence headers, and rest the other tags.
func (r reel) config() reel {
	return r.change(func(_ int, tag []byte) []byte {
		if !isConfigTag(tag) {
			return nil
		}
		return tag
	})
}

func (r reel) rest() reel {
	return r.change(func(_ int, tag []byte) []byte {
		if isConfigTag(tag) {
			return nil
		}
		return tag
	})
}

// otherCodec returns a video sequence header with other parameters: the same ones and a byte after
// them, which decoders ignore.
func otherCodec(t *testing.T, r reel) reel {
	t.Helper()
	return r.change(func(_ int, tag []byte) []byte {
		if tag[0] != videoTag || !isConfigTag(tag) {
			return tag
		}
		n := len(tag) - 15 + 4
		out := slices.Concat(tag[:len(tag)-4], []byte{0xfc, 0xf8, 0xf8, 0x00})
		out[1], out[2], out[3] = byte(n>>16), byte(n>>8), byte(n)
		return binary.BigEndian.AppendUint32(out, uint32(11+n))
	})
}

// bytes returns the complete stream. kinds are the flags of the FLV header.
func (r reel) bytes(kinds byte) []byte {
	head := bytes.Clone(demo.Sample[:13])
	head[4] = kinds
	return append(head, slices.Concat(r...)...)
}

// keepAll lets playlists list everything.
func keepAll(c *Config) { c.HLS.Segments = 1000 }

// Get checks the rules that apply to a single media playlist.
func (f *fixture) Get(path string) livetest.Response {
	f.T.Helper()
	res := f.Client.Get(path)
	if file, _, _ := strings.Cut(path, "?"); res.Status == http.StatusOK &&
		strings.HasSuffix(file, "/media.m3u8") {
		for _, problem := range hlscheck.Must(hlscheck.New().Media(res.Body)) {
			f.T.Errorf("%s: %v in\n%s", path, problem, res.Body)
		}
	}
	return res
}

// A filmFiles has a file for each initialization segment, followed by its media.
type filmFiles struct{ dir string }

func (d *filmFiles) names() []string {
	names, _ := filepath.Glob(filepath.Join(d.dir, "*.mp4"))
	return names
}

// Write adds one object.
func (d *filmFiles) Write(object []byte) (int, error) {
	n := len(d.names())
	if string(object[4:8]) == "ftyp" {
		n++
	}
	f, err := os.OpenFile(filepath.Join(d.dir, fmt.Sprintf("%d.mp4", n)),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	_, err = f.Write(object)
	return len(object), errors.Join(err, f.Close())
}

// decodesAs checks that ffmpeg decodes the same from the files as from an FLV file.
func (d *filmFiles) decodesAs(t *testing.T, flv []byte, kind string) {
	t.Helper()
	need.Program(t, "ffmpeg")
	source := filepath.Join(d.dir, "source.flv")
	if err := os.WriteFile(source, flv, 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range d.names() {
		got = append(got, decoded(t, name, kind)...)
	}
	if want := decoded(t, source, kind); len(got) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d decoded frames, and they are not the %d of the source", len(got), len(want))
	}
}

// withParameters adds the parameter sets of the sequence header to the beginning of each keyframe.
func (r reel) withParameters() reel {
	var sets []byte
	return r.change(func(_ int, tag []byte) []byte {
		switch {
		case tag[0] == videoTag && isConfigTag(tag):
			sets = nil
			record := tag[11+5 : len(tag)-4]
			// One SPS, one PPS.
			for _, first := range []int{6, 6 + 2 + int(binary.BigEndian.Uint16(record[6:])) + 1} {
				n := int(binary.BigEndian.Uint16(record[first:]))
				sets = binary.BigEndian.AppendUint32(sets, uint32(n))
				sets = append(sets, record[first+2:first+2+n]...)
			}
		case isKeyTag(tag):
			tag = slices.Concat(tag[:16], sets, tag[16:len(tag)-4])
			n := len(tag) - 11
			tag[1], tag[2], tag[3] = byte(n>>16), byte(n>>8), byte(n)
			return binary.BigEndian.AppendUint32(tag, uint32(len(tag)))
		}
		return tag
	})
}

// An hlsPlayer follows a stream and checks it.
type hlsPlayer struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	objects []hlscheck.Object
	media   int // bytes

	stats hlscheck.Stats // set at the end
	err   error
}

// follow starts a player that reads the whole stream. change may be nil.
func (f *fixture) follow(name string, change func(*hlscheck.Client)) *hlsPlayer {
	f.T.Helper()
	return followURL(f.T, f.URL("/live/"+name+"/index.m3u8"), change)
}

func followURL(t testing.TB, url string, change func(*hlscheck.Client)) *hlsPlayer {
	t.Helper()
	tr := &http.Transport{}
	p := &hlsPlayer{t: t}
	c := &hlscheck.Client{URL: url, HTTP: &http.Client{Transport: tr}, FromStart: true, Verify: 1}
	c.Object = func(o hlscheck.Object) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if o.Kind != hlscheck.InitObject {
			p.media += len(o.Data)
		}
		o.Data = nil
		p.objects = append(p.objects, o)
	}
	if change != nil {
		change(c)
	}
	p.ctx, p.cancel = context.WithTimeout(t.Context(), 6*testTimeout)
	p.done.Go(func() { p.stats, p.err = c.Run(p.ctx) })
	t.Cleanup(func() {
		p.cancel()
		p.done.Wait()
		tr.CloseIdleConnections()
	})
	return p
}

// got waits until the player has received n bytes of media.
func (p *hlsPlayer) got(n int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%d bytes of media", n), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.media >= n
	})
}

// stop ends the player and returns its statistics.
func (p *hlsPlayer) stop() *hlscheck.Stats {
	p.t.Helper()
	p.cancel()
	p.done.Wait()
	if p.err != nil {
		p.t.Errorf("the player: %v\n%v", p.err, p.stats)
	}
	return &p.stats
}

// end waits for the end of the stream, and returns the player's statistics.
func (p *hlsPlayer) end() *hlscheck.Stats {
	p.t.Helper()
	p.done.Wait()
	if err := p.ctx.Err(); err != nil {
		p.t.Errorf("the player has found no end: %v", err)
	}
	return p.stop()
}

// breaks returns the number of discontinuities.
func (p *hlsPlayer) breaks() (n int) {
	for _, o := range p.objects {
		if o.Break {
			n++
		}
	}
	return n
}

// payload returns the minimum number of media bytes in a reel.
func (r reel) payload() (n int) {
	for _, tag := range r {
		if len(tag) > 0 && !isConfigTag(tag) {
			n += len(tag) - 15 - 5
		}
	}
	return n
}

// Streams that have caused problems for players of other servers. A player that fetches everything
// finds no mistake. Tags are sent at once; the durations follow from their timestamps.
func TestHLSStreams(t *testing.T) {
	film := sampleReel(16)
	for _, test := range []struct {
		name  string
		kinds byte // flags of the FLV header
		reel  reel
		want  string // discontinuities, init segments, and whether some parts are independent
	}{
		{"usual", 5, film, "0 breaks, 1 inits"},
		{"groups of ten seconds", 5, sampleReel(40).keyEvery(10), "0 breaks, 1 inits"},
		{"one keyframe", 5, sampleReel(60).keyEvery(0), "0 breaks, 1 inits"},
		{"pictures only", 1, film.only(videoTag), "0 breaks, 1 inits"},
		{"pictures only, and sound was promised", 5, film.only(videoTag), "0 breaks, 1 inits"},
		{"sound only", 4, film.only(audioTag), "0 breaks, 1 inits"},
		{"sound first", 5, slices.Concat(film.config(), sampleReel(3).rest().only(audioTag),
			film.rest().later(3000)), "0 breaks, 1 inits"},
		{"other parameters", 5, slices.Concat(sampleReel(8),
			otherCodec(t, film.config()).later(8000), sampleReel(8).rest().later(8000)),
			"1 breaks, 2 inits"},
		{"the same parameters again", 5, slices.Concat(sampleReel(8), film.config().later(8000),
			sampleReel(8).rest().later(8000)),
			"0 breaks, 1 inits"},
		{"irregular pictures", 5, film.change(func(i int, tag []byte) []byte {
			if tag[0] == videoTag && !isKeyTag(tag) && !isConfigTag(tag) && i%7%2 == 1 {
				return nil
			}
			return tag
		}), "0 breaks, 1 inits"},
		{"a picture a second", 1, film.only(videoTag).change(func(i int, tag []byte) []byte {
			if !isKeyTag(tag) && !isConfigTag(tag) {
				return nil
			}
			return tag
		}), "0 breaks, 1 inits"},
		{"parameter sets in pictures", 5, film.withParameters(), "0 breaks, 1 inits"},
		{"times that jump forward", 5, slices.Concat(sampleReel(8),
			sampleReel(8).rest().later(100_000)), "0 breaks, 1 inits"},
		{"times that jump back", 5, slices.Concat(sampleReel(8).later(100_000),
			sampleReel(8).rest()), "0 breaks, 1 inits"},
		{"short", 5, sampleReel(1), "0 breaks, 1 inits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, keepAll)
			files := &filmFiles{t.TempDir()}
			player := f.follow("film", func(c *hlscheck.Client) { c.Output = files })
			p := f.Publisher("film")
			p.Send(test.reel[:1].bytes(test.kinds))
			f.Logged("rendition started")
			p.Send(bytes.Join(test.reel[1:], nil))
			if res := p.End(); res.Status != http.StatusOK {
				t.Fatalf("publishing: %d %s, want 200", res.Status, res.Body)
			}
			stats := player.end()
			if got := fmt.Sprintf("%d breaks, %d inits", player.breaks(),
				stats.Inits); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			// Without keyframes players have no start, and the server does not know the size of the
			// next segment. In this test, so many frames arrive between two playlists that a hinted
			// part may be listed without parts.
			mistakes := hlscheck.Without(stats.Problems, "independent-none", "bandwidth-low",
				"frame-rate", "hint-broken", "hint-cut")
			if stats.Missed > 0 || len(mistakes) > 0 {
				t.Errorf("there are mistakes:\n%v", stats)
			}
			if want := test.reel.payload(); player.media < want {
				t.Errorf("%d bytes for a stream of %d", player.media, want)
			}
			if kind := "v"; !testing.Short() {
				if test.kinds == 4 {
					kind = "a"
				}
				files.decodesAs(t, test.reel.bytes(test.kinds), kind)
			}
		})
	}
}

// A publisher is disconnected, and returns first with the same codecs, and then with others.
// Players see one discontinuity.
func TestHLSContinuesAfterPublisherReturns(t *testing.T) {
	f := serve(t, func(c *Config) { keepAll(c); c.PublisherReturn = testTimeout })
	player := f.follow("film", nil)
	film := sampleReel(6)
	for i, part := range []reel{film, film, slices.Concat(otherCodec(t, film.config()),
		film.rest())} {
		p := f.Publisher("film")
		p.Send(part[:1].bytes(5))
		if i == 0 {
			f.Logged("rendition started")
		}
		p.Send(bytes.Join(part[1:], nil))
		player.got((i + 1) * film.payload() * 4 / 5) // the last requests wait for more
		p.Cut()
		p.Wait()
	}
	stats := player.stop()
	if n := player.breaks(); n != 1 || stats.Inits != 2 {
		t.Errorf("%d breaks and %d inits\n%v", n, stats.Inits, stats)
	}
	// When the publisher was disconnected, a part may be short, because the next frame was unknown.
	if len(hlscheck.Must(hlscheck.Without(stats.Problems, "hint-broken", "part-short"))) > 0 {
		t.Errorf("there are mistakes:\n%v", stats)
	}
}

// begin publishes a reel as the stream film. HLS of it begins with its first frame. begin returns
// the first playlist.
func (f *fixture) begin(r reel) (*livetest.Publisher, livetest.Response) {
	f.T.Helper()
	const sign = "rendition started"
	before := strings.Count(f.Log.String(), sign)
	p := f.Publisher("film")
	p.Send(r[:1].bytes(5))
	first := make(chan livetest.Response)
	go func() {
		for {
			// Until the new stream exists, the playlist is that of the old one.
			res := f.Get("/live/film/media.m3u8")
			if res.Status != http.StatusOK || !strings.Contains(res.Body, "#EXT-X-ENDLIST") {
				first <- res
				return
			}
		}
	}()
	eventually(f.T, "MP4 to be made", func() bool {
		return strings.Count(f.Log.String(), sign) > before
	})
	p.Send(bytes.Join(r[1:], nil))
	res := <-first
	if res.Status != http.StatusOK {
		f.T.Fatalf("the first playlist: %d %s", res.Status, res.Body)
	}
	return p, res
}

// number returns the value of a numeric tag in a playlist.
func number(t *testing.T, playlist, tag string) (n uint64) {
	t.Helper()
	_, after, ok := strings.Cut(playlist, "#EXT-X-"+tag+":")
	if _, err := fmt.Sscan(after, &n); !ok || err != nil {
		t.Fatalf("no %s in\n%s", tag, playlist)
	}
	return n
}

// A stream ends, and another one with the same name begins. A player that continues to send
// requests gets no error, and its numbers grow.
func TestHLSRestartsWithANewStream(t *testing.T) {
	f := serve(t, keepAll)
	const path = "/live/film/media.m3u8"
	film := sampleReel(4)
	player := f.follow("film", nil)
	p := f.Publisher("film")
	p.Send(film[:1].bytes(5))
	f.Logged("rendition started")
	p.Send(bytes.Join(slices.Concat(film[1:], otherCodec(t, film.config()),
		film.rest().later(4000)), nil))
	p.End()
	player.end()
	first := f.Get(path)
	if first.Status != http.StatusOK || !strings.HasSuffix(first.Body, "#EXT-X-ENDLIST\n") {
		t.Fatalf("after the end: %d\n%s", first.Status, first.Body)
	}
	p, next := f.begin(film)
	last := number(t, first.Body, "MEDIA-SEQUENCE") + uint64(strings.Count(first.Body,
		"#EXTINF:")) - 1
	if n := number(t, next.Body, "MEDIA-SEQUENCE"); n <= last {
		t.Errorf("segment %d comes after %d", n, last)
	}
	breaks := number(t, first.Body, "DISCONTINUITY-SEQUENCE") + uint64(strings.Count(first.Body,
		"#EXT-X-DISCONTINUITY\n"))
	if n := number(t, next.Body, "DISCONTINUITY-SEQUENCE"); n <= breaks {
		t.Errorf("discontinuity %d comes after %d", n, breaks)
	}
	p.End()
}

// Segments are available for as long as a playlist that lists them may be used, and are deleted
// later.
func TestHLSStopsWithoutPlayers(t *testing.T) {
	f := serve(t, nil)
	film := sampleReel(90)
	p, early := f.begin(film[:400])
	p.Send(bytes.Join(film[400:], nil))
	old := func(playlist string) (gone, there int) {
		for line := range strings.Lines(playlist) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			if f.Get("/live/film/"+strings.TrimSpace(line)).Status == http.StatusOK {
				there++
			} else {
				gone++
			}
		}
		return gone, there
	}
	eventually(t, "the first segments to be gone",
		func() bool { gone, there := old(early.Body); return gone > 0 && there == 0 })
	p.End()
	var late livetest.Response
	eventually(t, "the end", func() bool {
		late = f.Get("/live/film/media.m3u8")
		return strings.Contains(late.Body, "#EXT-X-ENDLIST")
	})
	if gone, there := old(late.Body); gone > 0 || there < 3 {
		t.Errorf("of the segments in the playlist %d are gone, and %d there:\n%s", gone, there,
			late.Body)
	}
	if f.hub.Stats().HLS.Bytes > 4<<20 {
		t.Errorf("%d bytes are kept", f.hub.Stats().HLS.Bytes)
	}
}

// A hundred players connect, wait for the next part, and disconnect. Nothing of them remains.
func TestHLSPlayersComeAndGo(t *testing.T) {
	f := serve(t, nil)
	film := sampleReel(8)
	// The third segment has begun, or is the next one. It does not end before two more seconds have
	// arrived.
	half := slices.IndexFunc(film, func(tag []byte) bool { return tagTime(tag) >= 1500 })
	p, first := f.begin(film[:half])
	path := fmt.Sprintf("/live/film/media.m3u8?_HLS_msn=%d",
		number(t, first.Body, "MEDIA-SEQUENCE")+2)
	const players = 100
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	stay, leave := context.WithCancel(t.Context())
	answers := make(chan int, 2*players)
	for i := range 2 * players {
		ctx := t.Context()
		if i%2 == 1 {
			ctx = stay
		}
		go func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL(path), nil)
			if err != nil {
				answers <- -1
				return
			}
			answers <- livetest.Do(client, req).Status
		}()
	}
	waiting := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d players that wait", n),
			func() bool { return f.hub.Stats().HLS.Waiting == n })
	}
	waiting(2 * players)
	leave()
	waiting(players)
	p.Send(bytes.Join(film[half:], nil))
	got := map[int]int{}
	for range 2 * players {
		got[<-answers]++
	}
	if got[0] != players || got[http.StatusOK] != players {
		t.Errorf("answers by status: %v", got)
	}
	waiting(0)
	p.End()
}
