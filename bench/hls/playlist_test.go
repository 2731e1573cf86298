package hls

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const lowLatency = `#EXTM3U
#EXT-X-VERSION:9
#EXT-X-TARGETDURATION:2
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=0.6,CAN-SKIP-UNTIL=12.0
#EXT-X-PART-INF:PART-TARGET=0.2
#EXT-X-MEDIA-SEQUENCE:41
#EXT-X-MAP:URI="a-i0.mp4"
#EXTINF:2.000,
a-41.m4s
#EXT-X-PROGRAM-DATE-TIME:2026-11-24T03:00:00.000Z
#EXT-X-PART:DURATION=0.2,URI="a-42.0.m4s",INDEPENDENT=YES
#EXT-X-PART:URI="/b/a,42.1.m4s",DURATION=0.2
#EXTINF:2.000,
http://127.0.0.1:80/c/a-42.m4s
#EXT-X-PART:DURATION=0.2,URI="a-43.0.m4s",INDEPENDENT=YES
#EXT-X-PRELOAD-HINT:TYPE=PART,URI="a-43.1.m4s"
`

// names lists objects as "MSN.PART uri".
func names(list []object) (all []string) {
	for _, o := range list {
		all = append(all, fmt.Sprintf("%d.%d %s", o.msn, o.part, o.uri))
	}
	return all
}

func TestParseMedia(t *testing.T) {
	var a arrivals
	m, err := parseMedia("/live/x/media.m3u8?y/z", []byte(lowLatency), &a)
	if err != nil {
		t.Fatal(err)
	}
	if m.target != 2*time.Second || !m.canBlock || !m.canSkip || m.ended ||
		m.init != "/live/x/a-i0.mp4" {
		t.Errorf("%+v, want a target of 2 s and all abilities", m)
	}
	if got, want := names(m.segments), []string{"41.0 /live/x/a-41.m4s",
		"42.0 /c/a-42.m4s"}; !slices.Equal(got, want) {
		t.Errorf("segments %q, want %q", got, want)
	}
	want := []string{"42.0 /live/x/a-42.0.m4s", "42.1 /b/a,42.1.m4s", "43.0 /live/x/a-43.0.m4s"}
	if got := names(m.parts); !slices.Equal(got, want) {
		t.Errorf("parts %q, want %q", got, want)
	}
	if m.next.msn != 43 || m.next.part != 1 {
		t.Errorf("next %d.%d, want 43.1", m.next.msn, m.next.part)
	}
	if m.parts[2].arrival != a.of("/live/x/a-43.0.m4s") ||
		m.parts[2].arrival == a.of("/live/x/a-43.1.m4s") {
		t.Error("a part does not have the arrival of its address")
	}
}

func TestParseMediaOthers(t *testing.T) {
	for _, test := range []struct {
		name, text string
		segments   []string
		next       string
	}{
		{"delta", "#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:7\n#EXT-X-SKIP:SKIPPED-SEGMENTS=3\n#EXTINF:1,\nx\n", []string{"10.0 /x"}, "11.0"},
		{"no sequence", "#EXTM3U\r\n#EXTINF:1,\r\nx\r\n#EXTINF:1,\r\ny",
			[]string{"0.0 /x", "1.0 /y"}, "2.0"},
		{"empty", "#EXTM3U\n", nil, "0.0"},
	} {
		m, err := parseMedia("/p.m3u8", []byte(test.text), new(arrivals))
		if err != nil {
			t.Errorf("%s: %v, want it parsed", test.name, err)
			continue
		}
		if got := names(m.segments); !slices.Equal(got, test.segments) {
			t.Errorf("%s: segments %q, want %q", test.name, got, test.segments)
		}
		if got := fmt.Sprintf("%d.%d", m.next.msn, m.next.part); got != test.next {
			t.Errorf("%s: next %s, want %s", test.name, got, test.next)
		}
		if m.canBlock || m.canSkip || m.init != "" {
			t.Errorf("%s: %+v, want no ability and no init segment", test.name, m)
		}
	}
	for _, text := range []string{"", "<html>", "#EXTM3U\n#EXT-X-TARGETDURATION:two\n",
		"#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:-1\n",
		"#EXTM3U\n#EXT-X-SKIP:RECENTLY-REMOVED-DATERANGES=\"x\"\n"} {
		if _, err := parseMedia("/p", []byte(text), new(arrivals)); !errors.Is(err, errPlaylist) {
			t.Errorf("%q: error %v, want errPlaylist", text, err)
		}
	}
}

func TestVariant(t *testing.T) {
	const multi = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"no.m3u8\"\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS=\"a,b\"\n\nmedia.m3u8\n" +
		"#EXT-X-STREAM-INF:BANDWIDTH=2\nother.m3u8\n"
	for text, want := range map[string]string{multi: "/live/x/media.m3u8",
		lowLatency: "/live/x/index.m3u8"} {
		if got, err := variant("/live/x/index.m3u8", []byte(text)); got != want || err != nil {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	for _, text := range []string{"", "not found", "#EXTM3U\n",
		"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n"} {
		if got, err := variant("/", []byte(text)); !errors.Is(err, errPlaylist) {
			t.Errorf("%q: %s, %v, want errPlaylist", text, got, err)
		}
	}
}

func TestAttribute(t *testing.T) {
	const list = `A=1,B="x,C=2",D=`
	for name, want := range map[string]string{"A": "1", "B": "x,C=2", "C": "", "D": "", "E": ""} {
		if got := attribute(list, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, list := range []string{"", "A", `B="`, `B="x`, ",,="} {
		if got := attribute(list, "A"); got != "" {
			t.Errorf("%q has no attribute A, got %q", list, got)
		}
	}
}

func FuzzParseMedia(f *testing.F) {
	f.Add(lowLatency)
	f.Add(strings.ReplaceAll(lowLatency, "\n", "\r\n"))
	f.Add("#EXTM3U\n#EXT-X-SKIP:SKIPPED-SEGMENTS=3\nx")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parseMedia("/live/x", []byte(text), new(arrivals))
		if (m == nil) == (err == nil) {
			t.Fatalf("%v, %v, want a playlist or an error", m, err)
		}
		if m != nil {
			for _, o := range slices.Concat(m.parts, m.segments) {
				if o.arrival == nil {
					t.Fatalf("%s has no arrival", o.uri)
				}
			}
		}
	})
}
