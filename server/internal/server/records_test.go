package server

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live/record"
)

// A recording is available under /files/ while it grows, and is complete after the stream. Streams
// with other names are not recorded.
func TestRecordings(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "recordings")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) {
		c.Root, c.FilesListing, c.Record, c.RecordStreams = root, true, dir, "cam-*"
	})
	other := f.Publisher("other")
	other.Send(demo.Sample)
	p := f.Publisher("cam-1")
	p.Send(demo.Sample)
	name := regexp.MustCompile(`href="([^"]+\.m3u8)"`)
	var playlist string
	eventually(t, "a playlist with two segments", func() bool {
		m := name.FindStringSubmatch(f.Get("/files/recordings/cam-1/").Body)
		if m == nil {
			return false
		}
		playlist = "/files/recordings/cam-1/" + m[1]
		return strings.Count(f.Get(playlist).Body, "#EXTINF") >= 2
	})
	res := f.Get(playlist)
	if kind := res.Header.Get("Content-Type"); kind != "application/vnd.apple.mpegurl" ||
		!strings.Contains(res.Body, "EXT-X-PLAYLIST-TYPE:EVENT") {
		t.Errorf("content type %s, want a playlist that grows:\n%s", kind, res.Body)
	}
	if n := f.metric("millrace_recordings"); n != "1" {
		t.Errorf("%s recordings, want 1", n)
	}
	p.End()
	other.End()
	eventually(t, "the end of the playlist", func() bool {
		return strings.HasSuffix(strings.TrimSpace(f.Get(playlist).Body), "#EXT-X-ENDLIST")
	})
	if res := f.Get("/files/recordings/other/"); res.Status != http.StatusNotFound {
		t.Errorf("a stream that is not to be recorded: %d", res.Status)
	}
	need.Program(t, "ffprobe")
	count := func(input string) string {
		out, err := exec.Command("ffprobe", "-v", "error", "-count_packets", "-show_entries",
			"stream=codec_name,nb_read_packets",
			"-of", "compact", input).CombinedOutput()
		if err != nil {
			t.Fatalf("the recording is not played: %v: %s", err, out)
		}
		return string(out)
	}
	source := filepath.Join(t.TempDir(), "source.flv")
	if err := os.WriteFile(source, demo.Sample, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := count(f.URL(playlist)), count(source); !strings.Contains(got, want) {
		t.Errorf("the recording has\n%s\nthe stream had\n%s", got, want)
	}
}

// Recordings are completely on the disk when the server has stopped.
func TestRecordingsEndWithTheServer(t *testing.T) {
	dir := t.TempDir()
	f := serve(t, func(c *Config) { c.Record = dir })
	p := f.Publisher("cam")
	p.Send(demo.Sample)
	f.published("cam", len(demo.Sample)-13)
	f.stop()
	lists, _ := filepath.Glob(filepath.Join(dir, "cam", "*.m3u8"))
	if len(lists) != 1 {
		t.Fatal(lists)
	}
	if text, err := os.ReadFile(lists[0]); err != nil ||
		!strings.Contains(string(text), "#EXT-X-ENDLIST") {
		t.Errorf("the playlist is not ended: %v\n%s", err, text)
	}
	p.Wait()
}

// A server that shuts down releases the directory of recordings to its successor when they are on
// the disk, while it still waits for downloads.
func TestRecordingsEndBeforeDownloads(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "big"), random(16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(c *Config) { c.Root, c.Record, c.DrainTimeout = root, dir, time.Minute })
	w := f.Ask("/files/big", 4096) // and reads nothing
	w.Begin()
	p := f.Publisher("cam")
	p.Send(demo.Sample)
	f.published("cam", len(demo.Sample)-13)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.stop()
	}()
	var next *record.Archive
	eventually(t, "the directory", func() (ok bool) {
		var err error
		next, err = record.Open(record.Config{Dir: dir})
		return err == nil
	})
	select {
	case <-stopped:
		t.Error("the server has stopped before")
	default:
	}
	if st := next.Stats(); st.Files != 1 || st.Repaired != 0 {
		t.Errorf("%+v, want one file and no repair", st)
	}
	_ = next.Close(t.Context())
	_ = w.Res.Body.Close()
	<-stopped
}

// Each stream is recorded, including a stream that begins directly after another one with the same
// name, and a stream whose name is like that of a file in the directory.
func TestEachStreamIsRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const rounds = 100
	f := serve(t, func(c *Config) { // a slow disk may need a queue for all of it
		c.Record, c.PublisherReturn, c.RecordQueue = dir, 0, rounds*int64(len(demo.Sample)+1<<16)
	})
	names := []string{"cam", "millrace-recordings.lock", "millrace-recordings.lock/cam"}
	for range rounds {
		for _, name := range names {
			p := f.Publisher(name)
			p.Send(demo.Sample)
			if res := p.End(); res.Status != http.StatusOK {
				t.Fatal(res.Status, res.Body)
			}
		}
	}
	f.stop()
	for _, name := range names {
		var files int
		lists, _ := filepath.Glob(filepath.Join(dir, name, "*.m3u8"))
		for _, list := range lists {
			if text, err := os.ReadFile(list); err != nil ||
				!strings.Contains(string(text), "#EXT-X-ENDLIST") {
				t.Errorf("%s is not ended: %v\n%s", list, err, text)
			} else {
				files += 1 + strings.Count(string(text), "#EXT-X-MAP") - 1
			}
		}
		if files != rounds {
			t.Errorf("%s: %d of %d streams are recorded", name, files, rounds)
		}
	}
	if st := f.Server.records.Stats(); st.Refused != 0 || st.Lost != 0 || st.Failures != 0 {
		t.Errorf("%+v, want no loss", st)
	}
}
