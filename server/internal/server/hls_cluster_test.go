package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// count returns the value of a metric.
func count(f *rtmpFixture, name string) int {
	n, _ := strconv.Atoi(metricOf(f, name))
	return n
}

// sendHLS sends a reel. HLS of it begins with its first frame, for a player that already waits.
func (f *rtmpFixture) sendHLS(p *livetest.Publisher, r reel) {
	f.T.Helper()
	p.Send(r[:1].bytes(5))
	f.Logged("rendition started")
	p.Send(bytes.Join(r[1:], nil))
}

// A stream is published at one node. Players at all nodes get the same bytes, and each other node
// requests each object from the owner once.
func TestHLSAtAllNodes(t *testing.T) {
	nodes := serveCluster(t, 3, keepAll)
	var players []*hlsPlayer
	for i, f := range nodes {
		for range 1 + 9*(i%2) {
			url := f.URL("/live/film/index.m3u8")
			players = append(players, followURL(t, url,
				func(c *hlscheck.Client) { c.Hints, c.Delta, c.Verify = true, true, 0 }))
		}
	}
	film := sampleReel(10)
	p := nodes[0].Publisher("film")
	nodes[0].sendHLS(p, film)
	for _, player := range players {
		player.got(film.payload() * 4 / 5)
	}
	get := func(f *rtmpFixture, name string) string {
		res := f.Get("/live/film/" + name)
		if res.Status != 200 {
			t.Fatalf("%s at %s: %d %s, want 200", name, f.self(), res.Status, res.Body)
		}
		return res.Body + fmt.Sprint(res.Header["Etag"], res.Header["Cache-Control"],
			res.Header["Content-Type"])
	}
	for _, name := range []string{"index.m3u8", "media.m3u8"} {
		for _, f := range nodes[1:] {
			eventually(t, name+" of all nodes",
				func() bool { return get(f, name) == get(nodes[0], name) })
		}
	}
	objects := uris(nodes[0].Get("/live/film/media.m3u8").Body)
	for _, name := range objects[:len(objects)-1] {
		for _, f := range nodes[1:] {
			if get(f, name) != get(nodes[0], name) {
				t.Errorf("%s differs at another node", name)
			}
		}
	}
	if fetched, cached := count(nodes[1], "millrace_cluster_objects_fetched_total"),
		count(nodes[1], "millrace_cluster_objects_cached_total")+
			count(nodes[1], "millrace_cluster_objects_collapsed_total"); cached < 5*fetched {
		t.Errorf("ten players have asked %d times for what %d requests have brought", cached,
			fetched)
	}
	for _, query := range []string{"?_HLS_part=1", "?_HLS_msn=x"} {
		if res := nodes[1].Get("/live/film/media.m3u8" + query); res.Status != 400 {
			t.Errorf("%s: %d, want 400", query, res.Status)
		}
	}
	for path, status := range map[string]int{
		"media.m3u8?_HLS_msn=1000000000000": 400, "a-1.m4s": 404,
	} {
		if res := nodes[1].Get("/live/film/" + path); res.Status != status {
			t.Errorf("%s: %d, want %d", path, res.Status, status)
		}
	}
	status := askAsNode(t, nodes[1], "/live/film/media.m3u8")
	if status != http.StatusMisdirectedRequest {
		t.Errorf("a node that asks one that does not own the stream gets %d", status)
	}
	p.End()
	for _, player := range players {
		stats := player.stop()
		if len(hlscheck.Must(hlscheck.Without(stats.Problems, "hint-broken", "part-short",
			"hint-unavailable"))) > 0 || stats.Missed > 0 {
			t.Errorf("the player found mistakes: %v", stats)
		}
	}
}

// A player shows the token for readers to any node, and gets playlists with the token.
func TestHLSTokenAtAnotherNode(t *testing.T) {
	nodes := serveCluster(t, 2, func(c *Config) {
		c.ReadToken, c.PublishToken = "reader", "writer"
	})
	p := nodes[0].Publisher("cam?token=writer")
	p.Send(demo.Sample)
	nodes[0].published("cam", len(demo.Sample)-13)
	for path, status := range map[string]int{"media.m3u8": 401, "media.m3u8?token=x": 403,
		"media.m3u8?token=reader": 200} {
		res := nodes[1].Get("/live/cam/" + path)
		if res.Status != status || status == 200 &&
			(!strings.Contains(res.Body, ".m4s?token=reader\n") ||
				res.Header.Get("Cache-Control") != "private, max-age=1") {
			t.Errorf("%s: %d %v %s, want %d; playlists keep the token and are private", path,
				res.Status, res.Header, res.Body, status)
		}
	}
	p.End()
}

// A publisher moves to another node. The playlist continues there, and players at the third node
// see a discontinuity. A node that shuts down later leaves its segments in the store.
func TestHLSContinuesAtAnotherNode(t *testing.T) {
	t.Parallel()
	nodes := serveCluster(t, 3, func(c *Config) {
		keepAll(c)
		c.Segments, c.PublisherReturn = "redis", testTimeout
	})
	player := nodes[2].follow("film", nil)
	film := sampleReel(6)
	p := nodes[0].Publisher("film")
	nodes[0].sendHLS(p, film)
	player.got(film.payload() * 4 / 5)

	second := nodes[1].Publisher("film")
	nodes[1].sendHLS(second, film)
	if res := p.Wait(); res.Status != http.StatusConflict {
		t.Errorf("the first publisher: %d %s", res.Status, res.Body)
	}
	player.got(2 * film.payload() * 3 / 4)
	nodes[1].stop()
	second.Wait()
	eventually(t, "the playlist of the store", func() bool {
		list := nodes[2].Get("/live/film/media.m3u8")
		return list.Status == 200 && !strings.Contains(list.Body, "PRELOAD-HINT")
	})
	if list := nodes[2].Get("/live/film/index.m3u8"); !strings.Contains(list.Body, "CODECS=") {
		t.Errorf("%d %s, want the codecs", list.Status, list.Body)
	}
	names := uris(nodes[2].Get("/live/film/media.m3u8").Body)
	var media int
	for _, name := range names {
		res := nodes[2].Get("/live/film/" + name)
		if res.Status != 200 {
			t.Errorf("%s: %d, want 200", name, res.Status)
		}
		media += len(res.Body)
	}
	if media < film.payload() {
		t.Errorf("%d bytes in the store, published are twice %d", media, film.payload())
	}
	third := nodes[2].Publisher("film")
	nodes[2].sendHLS(third, film)
	player.got(3 * film.payload() * 3 / 4)
	stats := player.stop()
	if n := player.breaks(); n != 2 || stats.Inits != 3 {
		t.Errorf("%d breaks and %d inits\n%v", n, stats.Inits, stats)
	}
	// Parts that the player has not requested yet are lost with their node. A segment may be stored
	// a moment late.
	if len(hlscheck.Must(hlscheck.Without(stats.Problems, "hint-broken", "part-short",
		"object-missing"))) > 0 {
		t.Errorf("there are mistakes:\n%v", stats)
	}
	third.End()
}

// ffmpeg plays through a balancer without sticky sessions while the publisher moves. It gets the
// video frames of both nodes.
func TestHLSTakeoverWithFFmpeg(t *testing.T) {
	if testing.Short() {
		t.Skip("plays in real time")
	}
	need.Program(t, "ffmpeg")
	source := hlsFilm(t, 12)
	nodes := serveCluster(t, 3, func(c *Config) {
		keepAll(c)
		c.Segments, c.PublisherReturn, c.Latency = "redis", testTimeout, Defaults().Latency
	})
	var next atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, nodes[next.Add(1)%3].URL(r.URL.RequestURI()),
			http.StatusTemporaryRedirect)
	}))
	defer front.Close()
	push := func(f *rtmpFixture) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "ffmpeg", "-v", "error", "-re", "-i", source, "-c",
			"copy", "-f", "flv", f.URL("/live/film"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first := push(nodes[0])
	eventually(t, "the stream", func() bool {
		return nodes[0].Get("/live/film/index.m3u8").Status == 200
	})
	player := followURL(t, nodes[2].URL("/live/film/index.m3u8"),
		func(c *hlscheck.Client) { c.Hints, c.Delta = true, true })
	out := filepath.Join(t.TempDir(), "out.mkv")
	var playing sync.WaitGroup
	playing.Go(func() {
		runProgram(t, "ffmpeg", "-v", "error", "-live_start_index", "0", "-i", front.URL+
			"/live/film/index.m3u8", "-c", "copy", "-y", out)
	})
	player.got(500_000)
	second := push(nodes[1]) // which takes over
	if err := first.Wait(); err == nil {
		t.Error("the first publisher was not ended")
	}
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
	playing.Wait() // the stream has ended
	if n := len(decoded(t, out, "v")); n < 25*14 {
		t.Errorf("%d video frames", n)
	}
	stats := player.end()
	if player.breaks() != 1 || len(hlscheck.Must(hlscheck.Without(stats.Problems, "part-late",
		"hint-broken", "part-short"))) > 0 {
		t.Errorf("the player found mistakes, or not one break: %v", stats)
	}
}

// A stream that no node has is not found.
func TestHLSOfUnknownStreamAtAllNodes(t *testing.T) {
	t.Parallel()
	nodes := serveCluster(t, 2, func(c *Config) { c.ViewerWait = time.Millisecond })
	for _, path := range []string{"/live/nothing/index.m3u8", "/live/nothing/media.m3u8",
		"/live/film/nonsense"} {
		if res := nodes[1].Get(path); res.Status != 404 {
			t.Errorf("%s: %d %s, want 404", path, res.Status, res.Body)
		}
	}
}

// A server that shuts down answers its waiting players.
func TestHLSElsewhereAtShutdown(t *testing.T) {
	t.Parallel()
	nodes := serveCluster(t, 2, func(c *Config) { c.ViewerWait = 10 * testTimeout })
	answers := make(chan int, 2)
	p, _, next := nodes[0].publishSample(t)
	for _, path := range []string{"/live/nothing/index.m3u8", "/live/cam/" + next} {
		go func() { answers <- nodes[1].Get(path).Status }()
	}
	eventually(t, "the players", func() bool {
		return nodes[1].node.objects.Stats().Fetched > 0 && nodes[1].node.Stats().Lookups > 1
	})
	nodes[1].stop()
	if got := []int{<-answers, <-answers}; !slices.Equal(got, []int{503, 503}) {
		t.Errorf("answers %v, want two of 503", got)
	}
	p.End()
}

// Players at all nodes get the end of a stream: its last parts and segments, and a playlist that
// says so.
func TestHLSEndAtAllNodes(t *testing.T) {
	nodes := serveCluster(t, 3, func(c *Config) { c.PublisherReturn = 0 })
	film := sampleReel(10)
	var players []*hlsPlayer
	for _, f := range nodes[1:] {
		players = append(players, followURL(t, f.URL("/live/film/index.m3u8"),
			func(c *hlscheck.Client) { c.Hints, c.Verify = true, 0 }))
	}
	p := nodes[0].Publisher("film")
	nodes[0].sendHLS(p, film)
	for _, player := range players {
		player.got(film.payload() / 2)
	}
	_, hint, _ := strings.Cut(nodes[1].Get("/live/film/media.m3u8").Body,
		"PRELOAD-HINT:TYPE=PART,URI=\"")
	next, _, _ := strings.Cut(hint, "\"")
	o, ok := hls.ParseObject(next)
	if !ok {
		t.Fatalf("no hint follows %q", next)
	}
	p.End()
	for _, f := range nodes[1:] {
		eventually(t, "no owner", func() bool {
			_, err := f.node.Owner(t.Context(), "film")
			return errors.Is(err, cluster.ErrNoOwner)
		})
	}
	var end string
	eventually(t, "the end at the node that had the publisher", func() bool {
		// This node released the stream a moment before.
		end = nodes[0].Get("/live/film/media.m3u8").Body
		return strings.HasSuffix(end, "#EXT-X-ENDLIST\n")
	})
	for _, f := range nodes[1:] {
		for _, query := range []string{"", fmt.Sprintf("?_HLS_msn=%d&_HLS_part=%d", o.MSN, o.Part),
			fmt.Sprintf("?_HLS_msn=%d", o.MSN)} {
			eventually(t, "the end at all nodes", func() bool {
				// A playlist from before the end may be cached for the duration of a part.
				res := f.Get("/live/film/media.m3u8" + query)
				if res.Status != 200 {
					t.Errorf("media.m3u8%s at %s: %d %s", query, f.self(), res.Status, res.Body)
				}
				return t.Failed() || res.Body == end
			})
		}
		for _, name := range uris(end) {
			if res, want := f.Get("/live/film/"+name),
				nodes[0].Get("/live/film/"+name); res.Status != 200 || res.Body != want.Body {
				t.Errorf("%s at %s: %d, want 200 and the owner's bytes", name, f.self(), res.Status)
			}
		}
		if res := f.Get(fmt.Sprintf("/live/film/%s",
			hls.Object{Kind: hls.KindPart, Epoch: o.Epoch, MSN: o.MSN + 100})); res.Status != 404 {
			t.Errorf("a part that never was: %d", res.Status)
		}
	}
	for _, player := range players {
		if !t.Failed() {
			player.end()
		}
	}
	// The next stream with this name is at another node.
	p = nodes[1].Publisher("film")
	p.Send(film.bytes(5))
	eventually(t, "the next stream", func() bool {
		list := nodes[2].Get("/live/film/media.m3u8").Body
		return list != end && !strings.HasSuffix(list, "#EXT-X-ENDLIST\n") &&
			strings.Contains(list, "EXTINF")
	})
	p.End()
}
