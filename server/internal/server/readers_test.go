package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
)

// A packet is a video or audio frame, as a program reads it from a file.
type packet struct {
	Kind  string  `json:"codec_type"`
	PTS   float64 `json:"pts_time,string"` // in seconds
	DTS   float64 `json:"dts_time,string"`
	Pos   int64   `json:"pos,string"` // offset in the file, in bytes
	Hash  string  `json:"data_hash"`
	Flags string  `json:"flags"`
}

func (p packet) key() bool { return p.Flags[0] == 'K' }

var kinds = []string{"video", "audio"}

// only returns the packets of a kind.
func only(list []packet, kind string) []packet {
	return slices.DeleteFunc(slices.Clone(list), func(p packet) bool { return p.Kind != kind })
}

func hashes(list []packet) (all []string) {
	for _, p := range list {
		all = append(all, p.Hash)
	}
	return all
}

// readFFprobe lists the packets of a file as ffprobe reads them.
func readFFprobe(t testing.TB, file string) []packet {
	t.Helper()
	out, err := exec.Command("ffprobe", "-v", "error", "-show_packets", "-show_data_hash", "md5",
		"-of", "json", file).Output()
	if err != nil {
		t.Fatalf("ffprobe %s: %v", file, err)
	}
	var all struct{ Packets []packet }
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	return all.Packets
}

// gstBuffer matches a line that GStreamer's element checksumsink writes for each buffer.
var gstBuffer = regexp.MustCompile(`(?m)^(\d+:\d\d:\d\d\.\d+) ([0-9a-f]+)$`)

// readGStreamer lists the packets of a kind in a file, as GStreamer reads them.
func readGStreamer(t testing.TB, file, kind string) (all []packet) {
	t.Helper()
	demux, pad := "flvdemux", "d."+kind
	if filepath.Ext(file) == ".mp4" {
		demux, pad = "qtdemux", pad+"_0"
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "gst-launch-1.0", "-q", "filesrc", "location="+file, "!",
		demux, "name=d", pad, "!", "queue", "!", "checksumsink", "hash=md5", "sync=false",
		"async=false").CombinedOutput()
	if err != nil {
		t.Fatalf("gst-launch-1.0 %s: %v\n%s", file, err, out)
	}
	for _, m := range gstBuffer.FindAllSubmatch(out, -1) {
		all = append(all, packet{Kind: kind, PTS: gstTime(m[1]), Hash: "MD5:" + string(m[2])})
	}
	return all
}

// readOwn counts the frames of each kind in a file, as this project's own packages read them.
func readOwn(t testing.TB, file string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	if filepath.Ext(file) == ".flv" {
		r := millrace.NewReader(bytes.NewReader(b))
		defer r.Release()
		dec := flv.NewDecoder(r)
		for {
			var tag millrace.Chain
			h, err := dec.Next(&tag)
			tag.Release()
			if err == io.EOF {
				return count
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if h.Packet == flv.PacketFrame {
				count[h.Type.String()]++
			}
		}
	}
	init := bytes.Index(b, []byte("moof")) - 4
	movie, err := mp4.ReadMovie(b[:init])
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for b = b[init:]; len(b) > 8 && string(b[4:8]) == "moof"; {
		f, _, err := movie.ReadFragment(b)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		count["video"] += f.Pictures
		count["audio"] += f.Sounds
		b = b[f.Size:]
	}
	return count
}

// gstTime parses a time such as 0:00:01.080000000.
func gstTime(text []byte) (seconds float64) {
	for _, part := range strings.Split(string(text), ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return math.NaN() // "none"
		}
		seconds = 60*seconds + n
	}
	return seconds
}

// films makes FLV files that differ in what encoders do.
var films = sync.OnceValues(func() (films [][]byte, err error) {
	dir, err := os.MkdirTemp("", "films")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const size, small = "testsrc2=size=160x120:rate=25", "testsrc2=size=96x64:rate=25"
	film := func(size string, more ...string) []string {
		return append([]string{"-v", "error", "-nostdin", "-f", "lavfi", "-i", size, "-f", "lavfi",
			"-i", "sine=frequency=440:sample_rate=44100", "-t", "3", "-c:v", "libx264", "-preset",
			"veryfast", "-g", "25", "-pix_fmt", "yuv420p", "-b:v", "200k", "-c:a", "aac",
			"-flvflags", "no_duration_filesize"}, more...)
	}
	for i, args := range [][]string{
		film(size, "-bf", "2"),
		film(size, "-bf", "3", "-x264-params", "open-gop=1"),
		film(small, "-bf", "0", "-ar", "22050", "-ac", "1"),
		film(size, "-an"),
		film(size, "-vn"),
	} {
		file := filepath.Join(dir, fmt.Sprint(i, ".flv"))
		if out, err := exec.Command("ffmpeg", append(args, file)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ffmpeg %v: %w: %s", args, err, out)
		}
		film, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		films = append(films, film)
	}
	return films, nil
})

// needFilms returns the films.
func needFilms(t testing.TB) [][]byte {
	t.Helper()
	need.Program(t, "ffmpeg")
	need.Program(t, "ffprobe")
	need.Program(t, "gst-launch-1.0")
	all, err := films()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tagsOf divides an FLV file into its header and its tags.
func tagsOf(film []byte) (head []byte, tags [][]byte) {
	head, film = film[:13], film[13:]
	for len(film) >= 15 {
		n := 15 + int(film[1])<<16 + int(film[2])<<8 + int(film[3])
		if len(film) < n {
			break
		}
		tags, film = append(tags, slices.Clone(film[:n])), film[n:]
	}
	return head, tags
}

// isFrame reports whether a tag is a frame of H.264 or AAC.
func isFrame(tag []byte) bool {
	return (tag[0] == 9 && tag[11]&0x0f == 7 || tag[0] == 8 && tag[11]>>4 == 10) && tag[12] == 1
}

func setTagTime(tag []byte, ms int) {
	tag[4], tag[5], tag[6], tag[7] = byte(ms>>16), byte(ms>>8), byte(ms), byte(ms>>24)
}

// edit changes the film all[which]. Each edit has three bytes: what to do, where, and how much.
func edit(all [][]byte, which byte, edits []byte) []byte {
	head, tags := tagsOf(all[int(which)%len(all)])
	for ; len(edits) >= 3 && len(tags) > 0; edits = edits[3:] {
		at, by := int(edits[1])*len(tags)/256, int(edits[2])
		later := func(tags [][]byte, ms int) {
			for _, tag := range tags {
				setTagTime(tag, max(tagTime(tag)+ms, 0))
			}
		}
		switch edits[0] % 8 {
		case 0: // lose frames
			end := at
			for end < len(tags) && end < at+1+by%4 && isFrame(tags[end]) {
				end++
			}
			tags = slices.Delete(tags, at, end)
		case 1: // repeat a tag
			tags = slices.Insert(tags, at, slices.Clone(tags[at]))
		case 2: // the clock jumps ahead
			later(tags[at:], by*by)
		case 3: // the clock jumps back
			later(tags[at:], -by*by)
		case 4: // two frames change places
			if at+1 < len(tags) && isFrame(tags[at]) && isFrame(tags[at+1]) {
				tags[at], tags[at+1] = tags[at+1], tags[at]
			}
		case 5: // another composition time
			if tag := tags[at]; tag[0] == 9 && isFrame(tag) && len(tag) > 20 {
				binary.BigEndian.PutUint16(tag[14:], uint16(by*4))
			}
		case 6: // another film follows
			_, more := tagsOf(all[by%len(all)])
			later(more, tagTime(tags[at]))
			tags = append(tags[:at:at], more...)
		case 7: // a single time is wrong
			later(tags[at:at+1], by-128)
		}
	}
	return append(slices.Clone(head), bytes.Join(tags, nil)...)
}

// outputs publishes a film to a server, and returns files with all that its viewers and its
// recorder get. The names of the files begin with the output: flv, mp4, hls or recorded. outputs
// also returns the number of frames that the server has counted as left out.
func outputs(t testing.TB, film []byte) (dir string, counted int64) {
	t.Helper()
	dir = t.TempDir()
	records, segments := filepath.Join(dir, "records"), filepath.Join(dir, "segments")
	for _, sub := range []string{records, segments} {
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f := serve(t, func(c *Config) { keepAll(c); c.Record = records })
	begin := 13 // up to the first frame
	_, tags := tagsOf(film)
	for _, tag := range tags {
		if isFrame(tag) {
			break
		}
		begin += len(tag)
	}
	player := f.follow("cam", func(c *hlscheck.Client) { c.Output = &filmFiles{segments} })
	p := f.Publisher("cam")
	p.Send(film[:begin])
	f.Logged("rendition started")
	var watching sync.WaitGroup
	for _, ext := range []string{"flv", "mp4"} {
		watching.Go(func() {
			if err := download(f.URL("/live/cam."+ext), filepath.Join(dir, ext+"."+ext)); err != nil {
				t.Log(ext, err)
			}
		})
	}
	eventually(t, "the viewers", func() bool {
		stats := f.hub.Stats()
		return stats.Viewers == 2 && stats.HLS.Windows == 1
	})
	p.Send(film[begin:])
	p.End()
	watching.Wait()
	player.end()
	f.stop()
	rename(t, segments, filepath.Join(dir, "hls-"))
	rename(t, filepath.Join(records, "cam"), filepath.Join(dir, "recorded-"))
	stats := f.hub.Stats()
	return dir, stats.LeftOut + stats.Unstarted + f.records.Stats().Hidden
}

// rename moves the MP4 files in dir. Their new names begin with prefix.
func rename(t testing.TB, dir, prefix string) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "*.mp4"))
	for _, name := range names {
		if err := os.Rename(name, prefix+filepath.Base(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// download requests url, and writes the body to a file.
func download(url, file string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o600)
}

// missing returns how many elements of all are not in part. ok is false if part has other elements,
// or another order.
func missing(part, all []string) (n int, ok bool) {
	for _, h := range part {
		i := slices.Index(all, h)
		if i < 0 {
			return 0, false
		}
		n, all = n+i, all[i+1:]
	}
	return n + len(all), true
}

// compare publishes a film, and checks that ffprobe, GStreamer and this project's packages read the
// same frames from all outputs of the server. Only frames that the server has counted as left out
// may be missing. If exact is true, the outputs must also have the same times.
func compare(t *testing.T, film []byte, exact bool) {
	t.Helper()
	dir, counted := outputs(t, film)
	read := func(prefix string) (list []packet) {
		names, _ := filepath.Glob(filepath.Join(dir, prefix+"*.*"))
		for _, name := range names {
			more := readFFprobe(t, name)
			// In FLV, GStreamer corrects a clock that goes back, and follows no change of tracks.
			if exact || filepath.Ext(name) == ".mp4" {
				sameInGStreamer(t, name, more)
			}
			own := readOwn(t, name)
			for _, kind := range kinds {
				if n := len(only(more, kind)); own[kind] != n {
					t.Errorf("%s: ffprobe reads %d frames of %s, and we %d", filepath.Base(name), n,
						kind, own[kind])
				}
			}
			list = append(list, more...)
		}
		return list
	}
	want := read("flv")
	begun := false
	want = slices.DeleteFunc(want, func(p packet) bool { // no decoder can start before a keyframe
		begun = begun || p.Kind == "video" && p.key()
		return p.Kind == "video" && !begun
	})
	recorded, hls, mp4 := read("recorded"), read("hls"), read("mp4")
	var lost int64
	for _, kind := range kinds {
		all := hashes(only(recorded, kind))
		n, ok := missing(all, hashes(only(want, kind)))
		if lost += int64(n); !ok {
			t.Errorf("the recordings have other %s than FLV, or another order", kind)
		}
		// HLS has no start until it knows the distance of the frames, and begins again after a
		// change of the codecs before that. It ends when a track appears or disappears.
		part := hashes(only(hls, kind))
		if !strings.Contains(strings.Join(all, " "), strings.Join(part, " ")) ||
			exact && len(part) < len(all) {
			t.Errorf("HLS has other %s than the recordings: %d frames, and %d", kind, len(part),
				len(all))
		}
		// MP4 ends at the first change of the codecs.
		part = hashes(only(mp4, kind))
		if len(part) > len(all) || !slices.Equal(part, all[:len(part)]) {
			t.Errorf("MP4 has other %s than the recordings: %d frames, and %d", kind, len(part),
				len(all))
		}
	}
	if lost > counted {
		t.Errorf("%d frames are missing in the recordings, and %d are counted", lost, counted)
	}
	if exact {
		sameTimes(t, "recorded", recorded, want)
		sameTimes(t, "hls", hls, want)
		sameTimes(t, "mp4", mp4, want)
	}
}

// sameInGStreamer checks that GStreamer reads the same frames from a file as ffprobe, which has
// read list.
func sameInGStreamer(t *testing.T, file string, list []packet) {
	t.Helper()
	if len(list) == 0 {
		return
	}
	// ffprobe reads by time if the tracks are more than a second apart.
	first := slices.MinFunc(list, func(a, b packet) int { return cmp.Compare(a.Pos, b.Pos) })
	for _, kind := range kinds {
		a := only(list, kind)
		if len(a) == 0 {
			continue
		}
		b := readGStreamer(t, file, kind)
		// GStreamer skips frames that are earlier than the first fragment. After a wrong clock, a
		// file may begin with such a fragment of audio.
		for len(a) > len(b) && a[0].PTS < first.PTS {
			a = a[1:]
		}
		if len(a) != len(b) {
			t.Errorf("%s: ffprobe reads %d frames of %s, GStreamer %d", filepath.Base(file), len(a),
				kind, len(b))
			continue
		}
		for i := range a {
			if a[i].Hash != b[i].Hash || math.Abs(a[i].PTS-b[i].PTS) > 0.0011 {
				t.Errorf("%s: %s frame %d: ffprobe reads %s at %.3f s, GStreamer %s at %.3f s",
					filepath.Base(file), kind, i, a[i].Hash, a[i].PTS, b[i].Hash, b[i].PTS)
				break
			}
		}
	}
}

// sameTimes checks that two outputs have the same times, counted from the first frame of each.
func sameTimes(t *testing.T, output string, list, want []packet) {
	t.Helper()
	start := func(list []packet) (at float64) {
		at = math.Inf(1)
		for _, p := range list {
			at = min(at, p.DTS)
		}
		return at
	}
	from, wantFrom := start(list), start(want)
	for _, kind := range kinds {
		a, b := only(list, kind), only(want, kind)
		for i := range min(len(a), len(b)) {
			pts, dts := a[i].PTS-from-b[i].PTS+wantFrom, a[i].DTS-from-b[i].DTS+wantFrom
			if math.Abs(pts) > 0.0011 || math.Abs(dts) > 0.0011 {
				t.Errorf("%s: %s frame %d is %.1f ms later than in FLV, and decoded %.1f ms later",
					output, kind, i, pts*1e3, dts*1e3)
				break
			}
		}
	}
}

// ffprobe and GStreamer read the same frames at the same times from FLV, MP4, HLS and recordings.
func TestOtherReaders(t *testing.T) {
	for i, film := range needFilms(t) {
		t.Run(strconv.Itoa(i), func(t *testing.T) { compare(t, film, true) })
	}
}

// They also read the same frames if publishers lose frames, repeat or reorder them, change the
// codecs, or have a wrong clock.
func FuzzOtherReaders(f *testing.F) {
	all := needFilms(f)
	for op := range byte(8) {
		f.Add(op, []byte{op, 100, 40})
		f.Add(op, []byte{op, 180, 200, op + 1, 30, 9})
	}
	f.Fuzz(func(t *testing.T, which byte, edits []byte) {
		if len(edits) <= 12 {
			compare(t, edit(all, which, edits), false)
		}
	})
}
