package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// On a page of another site, hls.js plays the demo by parts, by whole segments, and with a token,
// without a stop. By parts it is less than two seconds behind the live end.
func TestHLSInABrowser(t *testing.T) {
	tab := pagetest.NewPlayers(t)
	open := serve(t, func(c *Config) { c.Demo, c.Latency = true, Defaults().Latency })
	closed := serve(t, func(c *Config) {
		c.Demo, c.Latency, c.ReadToken = true, Defaults().Latency, "a secret"
	})
	const path = "/live/demo/index.m3u8"
	checkBeside(t, open.follow("demo", func(c *hlscheck.Client) {
		c.FromStart, c.Verify = false, 10
	}))
	// A player that was delayed by a busy machine plays faster until it has caught up.
	const live = "lowLatencyMode: true, maxLiveSyncPlaybackRate: 1.5, liveSyncOnStallIncrease: 0"
	tab.Play("parts", open.URL(path), live)
	tab.Play("token", closed.URL(path)+"?token=a+secret", live)
	names := []string{"parts", "token"}
	// If the machine has no time for the browser, the browser stops, is late, or leaves out a part.
	// That is not a fault of the stream, unless it happens again and again.
	rounds, seconds, want := 6, 10.0, 3
	if testing.Short() { // until the first good round
		rounds, seconds, want = 10, 4, 1
	} else { // it starts three segments before the end, if there are so many
		tab.Reaches("parts", 8)
		tab.Play("segments", open.URL(path), "lowLatencyMode: false")
		names = append(names, "segments")
	}
	steady := map[string]int{}
	for round := range rounds {
		for _, name := range names {
			if name != "segments" {
				tab.Eval(fmt.Sprintf("jump(%q)", name))
			}
			tab.Reaches(name, 2)
			tab.Eval(fmt.Sprintf("begin(%q)", name))
		}
		least := rounds
		for _, name := range names {
			tab.Reaches(name, seconds)
			r := tab.Report(name)
			t.Logf("%s: %v", name, r)
			last := slices.Max(append(r.Behind, 0))
			if r.Waiting == 0 && len(r.Errors) == 0 && last > 0 &&
				(name == "segments" || last < 2000) {
				steady[name]++
			}
			least = min(least, steady[name])
			if len(r.Fatal) > 0 {
				t.Errorf("%s: fatal errors %q, want none", name, r.Fatal)
			}
			if r.Width != 640 {
				t.Errorf("%s: the picture is %d wide", name, r.Width)
			}
		}
		if testing.Short() && least >= want {
			return
		}
		if round == rounds-1 && least < want {
			t.Errorf("of %d rounds without a stop and within two seconds there were %v", rounds,
				steady)
		}
	}
}

// checkBeside lets a player check the playlists while browsers play. Mistakes against the given
// rules are allowed.
func checkBeside(t *testing.T, player *hlsPlayer, may ...string) {
	t.Cleanup(func() {
		stats := player.stop()
		if mistakes := hlscheck.Must(hlscheck.Without(stats.Problems,
			may...)); stats.Playlists == 0 || len(mistakes) > 0 {
			t.Errorf("there are mistakes: %v\n%v", mistakes, stats)
		}
	})
}

// hls.js continues, by parts and by segments, when the publisher is disconnected and returns, when
// it returns with other codecs, and up to the end of the stream.
func TestHLSChangesInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("plays in real time")
	}
	tab := pagetest.NewPlayers(t)
	f := serve(t, func(c *Config) { c.PublisherReturn = testTimeout })
	// When the publisher is disconnected, a part may be short, because the next frame is unknown.
	checkBeside(t, f.follow("film", nil), "hint-broken", "part-short")
	film := sampleReel(5)
	other := slices.Concat(otherCodec(t, film.config()), film.rest())
	for i, part := range []reel{film, film, other, film} {
		p := f.Publisher("film")
		begin := time.Now()
		for j, tag := range part {
			time.Sleep(time.Until(begin.Add(time.Duration(tagTime(tag)) * time.Millisecond)))
			if j == 0 {
				tag = reel{tag}.bytes(5)
			}
			p.Send(tag)
			if i == 0 && j == len(part)/2 {
				tab.Play("parts", f.URL("/live/film/index.m3u8"),
					"lowLatencyMode: true, startPosition: 0")
				tab.Play("segments", f.URL("/live/film/index.m3u8"),
					"lowLatencyMode: false, startPosition: 0")
			}
		}
		if i == 3 {
			p.End()
		} else {
			p.Cut()
			p.Wait()
		}
	}
	for _, name := range []string{"parts", "segments"} {
		eventually(t, name+" to play to the end", func() bool { return tab.Report(name).Ended })
		r := tab.Report(name)
		t.Logf("%s: %v", name, r)
		if m := r.Mistakes(); len(m) > 0 || r.Time < 15 {
			t.Errorf("%s: played %v s, want 15 s; mistakes %q", name, r.Time, m)
		}
	}
}
