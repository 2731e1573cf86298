package server

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// The player of docs/hls.md continues when audio starts late, and when the publisher returns
// without audio, with only audio, and with both.
func TestHLSSampleFollowsTracksInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("plays in real time")
	}
	page, err := os.ReadFile("../../../docs/hls.md")
	if err != nil {
		t.Fatal(err)
	}
	_, html, _ := strings.Cut(string(page), "```html\n")
	html, _, _ = strings.Cut(html, "```")
	f := serve(t, func(c *Config) { c.PublisherReturn = testTimeout })
	const address = "http://127.0.0.1:8080/live/demo/index.m3u8"
	if !strings.Contains(html, address) {
		t.Fatalf("docs/hls.md plays another address than %s:\n%s", address, html)
	}
	tab := pagetest.OpenPage(t, strings.ReplaceAll(html, address, f.URL("/live/film/index.m3u8")))

	film := sampleReel(60)
	lateAudio := film.change(func(_ int, tag []byte) []byte {
		if tag[0] == audioTag && tagTime(tag) < 6000 {
			return nil
		}
		return tag
	})
	audioHeader := film.config().only(audioTag)
	for i, tag := range lateAudio {
		if tag[0] == audioTag {
			header := reel{withTime(audioHeader[0], tagTime(tag))}
			lateAudio = append(append(lateAudio[:i:i], header...), lateAudio[i:]...)
			break
		}
	}
	for _, round := range []struct {
		name         string
		film         reel
		video, audio bool
	}{
		{"late audio", lateAudio, true, true},
		{"video alone", film.only(videoTag), true, false},
		{"both", film, true, true},
		{"audio alone", film.only(audioTag), false, true},
		{"both again", film, true, true},
	} {
		stop, ended := make(chan struct{}), make(chan struct{})
		p := f.Publisher("film")
		go func() {
			defer close(ended)
			begin := time.Now()
			for i, tag := range round.film {
				select {
				case <-time.After(
					time.Until(begin.Add(time.Duration(tagTime(tag)) * time.Millisecond))):
				case <-stop:
					p.Cut()
					return
				}
				if i == 0 {
					tag = reel{tag}.bytes(5)
				}
				p.Send(tag)
			}
		}()
		count := func(of string) float64 {
			n, _ := strconv.ParseFloat(tab.Eval("video."+of), 64)
			return n
		}
		plays := func() bool {
			video, audio := count("webkitVideoDecodedByteCount"),
				count("webkitAudioDecodedByteCount")
			time.Sleep(2 * time.Second)
			return count("webkitVideoDecodedByteCount") > video == round.video &&
				count("webkitAudioDecodedByteCount") > audio == round.audio
		}
		for deadline := time.Now().Add(50 * time.Second); !plays(); {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not played", round.name)
			}
		}
		t.Logf("%s: at %s s", round.name, tab.Eval("video.currentTime"))
		close(stop)
		<-ended
		p.Wait()
	}
}
