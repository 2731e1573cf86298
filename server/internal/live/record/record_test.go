package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/disk"
)

// probe returns how many frames of the first stream of a type ffmpeg decodes. complaints are
// ffmpeg's messages.
func probe(t testing.TB, file, kind string) (frames int, complaints string) {
	t.Helper()
	need.Program(t, "ffprobe")
	cmd := exec.Command("ffprobe", "-v", "warning", "-count_frames", "-select_streams", kind,
		"-show_entries",
		"stream=nb_read_frames", "-of", "csv=p=0", file)
	var diag strings.Builder
	cmd.Stderr = &diag
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Sprint(err, diag.String())
	}
	frames, _ = strconv.Atoi(strings.TrimSpace(strings.Split(strings.TrimSpace(string(out)),
		"\n")[0]))
	return frames, diag.String()
}

// decodes checks that ffmpeg decodes all video frames of a file or a playlist, without complaints.
func decodes(t testing.TB, file string, pictures int) {
	t.Helper()
	if n, complaints := probe(t, file, "v"); n != pictures || complaints != "" {
		t.Errorf("%s: %d video frames, want %d\n%s", filepath.Base(file), n, pictures, complaints)
	}
}

func pictures(all []fragment) (n int) {
	for _, f := range all {
		n += f.Pictures
	}
	return n
}

// plays checks that ffmpeg decodes all video frames of each recording of a stream, from its file
// and from its playlist.
func (r *rig) plays(stream string) {
	r.t.Helper()
	for _, name := range r.files(stream) {
		all, _ := check(r.t, name, true)
		decodes(r.t, name+listExt, pictures(all))
		if !testing.Short() {
			decodes(r.t, name+mediaExt, pictures(all))
		}
	}
}

// sizes returns the total size of the files in a directory.
func sizes(t testing.TB, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkAll checks all recordings of a stream, and returns all their fragments in order.
func (r *rig) checkAll(stream string) (all []fragment) {
	r.t.Helper()
	for _, name := range r.files(stream) {
		part, _ := check(r.t, name, true)
		all = append(all, part...)
	}
	return all
}

// Everything added to a Recording is in its file. The file can be played alone and through its
// playlist.
func TestRecording(t *testing.T) {
	clock := newClock("2026-11-24T15:04:05.678Z")
	r := newRig(t, func(c *Config) { c.now = clock.now })
	rec := r.stream("cam")
	want := r.feed.to(rec, 450)
	rec.Close()
	rec.Close()
	r.ended()
	files := r.files("cam")
	if len(files) != 1 || filepath.Base(files[0]) != "2026-11-24T15-04-05.678Z" {
		t.Fatal(files)
	}
	got, p := check(t, files[0], true)
	sameFragments(t, got, want)
	if len(p.entries) < 8 || p.target != 10 {
		t.Errorf("%d segments, target duration %d", len(p.entries), p.target)
	}
	if !p.entries[0].date.Equal(clock.now()) {
		t.Errorf("the date is %v, want the clock's", p.entries[0].date)
	}
	for i, e := range p.entries {
		if e.discontinuity {
			t.Errorf("segment %d: a gap", i)
		}
	}
	if st := r.Stats(); st.Files != 1 || st.Lost != 0 || st.Failures != 0 ||
		st.Bytes != sizes(t, r.dir) {
		t.Errorf("%+v, %d bytes, want one file, no loss, and the bytes counted", st,
			sizes(t, r.dir))
	}
	decodes(t, files[0]+mediaExt, pictures(want))
	decodes(t, files[0]+listExt, pictures(want))
}

// ffmpeg decodes the same frames from a recording as from the source, with B-frames and in long
// GOPs.
func TestAgainstFFmpeg(t *testing.T) {
	need.Program(t, "ffmpeg")
	source := filepath.Join(t.TempDir(), "source.flv")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("ffmpeg", append([]string{"-v", "warning"},
			args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ffmpeg failed: %v\n%s", err, out)
		}
		return string(out)
	}
	run("-f", "lavfi", "-i", "testsrc=size=322x182:rate=25", "-f", "lavfi", "-i",
		"sine=sample_rate=44100", "-t", "9",
		"-c:v", "libx264", "-preset", "veryfast", "-g", "70", "-bf", "2", "-pix_fmt", "yuv420p",
		"-c:a", "aac", source)
	r := newRig(t, nil)
	var err error
	if r.feed.flv, err = os.ReadFile(source); err != nil {
		t.Fatal(err)
	}
	r.feed.length = 9000
	rec := r.stream("cam")
	n := pictures(r.feed.to(rec, 220))
	rec.Close()
	r.ended()
	name := r.files("cam")[0]
	check(t, name, true)
	hash := func(file string) string {
		return run("-i", file, "-map", "0:v", "-frames:v", strconv.Itoa(n-2), "-fps_mode",
			"passthrough", "-f", "md5", "-")
	}
	want := hash(source)
	for _, ext := range []string{mediaExt, listExt} {
		if got := hash(name + ext); got != want {
			t.Errorf("%s: %s, want %s", ext, got, want)
		}
	}
}

// A file begins with its earliest sample. That may be the audio of the second fragment.
func TestFileStartsWithTheEarliestSample(t *testing.T) {
	at := func(ms ...int) (list []entry) {
		for _, n := range ms {
			var e entry
			if e.First = time.Duration(n) * time.Millisecond; n < 0 {
				e = entry{init: 1}
			}
			list = append(list, e)
		}
		return list
	}
	for _, tt := range []struct {
		entries []entry
		want    int
	}{
		{at(5000), 5000},
		{at(5000, 5040, 5080), 5000},
		{at(5000, 4980, 5020), 4980},
		{at(5000, 5040, 4900), 4900},
		{at(5000, -1, 4900), 5000}, // another file
		{at(5000, 100, 140), 5000}, // the time of the stream has restarted
	} {
		if got := startOf(tt.entries); got != time.Duration(tt.want)*time.Millisecond {
			t.Errorf("start %v, want %d ms: %+v", got, tt.want, tt.entries)
		}
	}
}

// Each file begins at 0 for players, whatever the publisher's clock says. (In an earlier version,
// players showed 1:01:40 for 100 s.)
func TestBeginsAtZero(t *testing.T) {
	for _, base := range []uint32{0, 3_600_000, 1<<32 - 5000} {
		clock := newClock("2026-11-24T15:59:50Z")
		r := newRig(t, func(c *Config) { c.now = clock.now })
		r.feed.base = base
		r.feed.tick = func() { clock.add(40 * time.Millisecond) }
		rec := r.stream("cam")
		want := r.feed.to(rec, 600)
		rec.Close()
		r.ended()
		sameFragments(t, r.checkAll("cam"), want) // checks that each file begins at 0
		files := r.files("cam")
		if len(files) != 2 {
			t.Fatal(files)
		}
	}
}

// Players show a file's own length, whatever the publisher's clock says.
func TestBeginsAtZeroAgainstFFmpeg(t *testing.T) {
	need.Program(t, "ffprobe")
	r := newRig(t, nil)
	r.feed.base = 3_600_000
	rec := r.stream("cam")
	r.feed.to(rec, 300)
	rec.Close()
	r.ended()
	for _, ext := range []string{mediaExt, listExt} {
		out, err := exec.Command("ffprobe", "-v", "error", "-show_entries",
			"format=start_time,duration",
			"-of", "csv=p=0", r.files("cam")[0]+ext).CombinedOutput()
		var start, duration float64
		if _, scanErr := fmt.Sscanf(string(out), "%f,%f", &start, &duration); err != nil ||
			scanErr != nil ||
			start < 0 || start > 0.1 || duration < 9 || duration > 16 {
			t.Errorf("%s: %v, want a start of 0 and 9 to 16 s: %s", ext, err, out)
		}
	}
}

// Video with one frame per second and audio has no gaps: when a video frame arrives, its audio has
// already arrived.
func TestSlides(t *testing.T) {
	r := newRig(t, nil)
	r.feed.slides = true
	rec := r.stream("cam")
	want := r.feed.to(rec, 800)
	for !want[0].Key { // the first fragments have only audio
		want = want[1:]
	}
	rec.Close()
	r.ended()
	files := r.files("cam")
	if len(files) != 1 {
		t.Fatal(files)
	}
	got, p := check(t, files[0], false)
	sameFragments(t, got, want)
	total := 0.0
	for i, e := range p.entries {
		total += e.seconds
		if e.discontinuity {
			t.Errorf("a discontinuity in front of segment %d", i)
		}
	}
	if last := want[len(want)-1]; total < last.End.Seconds()-1.1 || total > last.End.Seconds()+1.1 {
		t.Errorf("the playlist has %.1f s, and the stream %v", total, last.End)
	}
}

// A file can be played while it grows, and its playlist only names segments that exist.
func TestGrowing(t *testing.T) {
	r := newRig(t, nil)
	rec := r.stream("cam")
	var want []fragment
	var before string
	for i := range 4 {
		want = append(want, r.feed.to(rec, 90)...)
		r.settle()
		name := r.files("cam")[0]
		text, err := os.ReadFile(name + listExt)
		if err != nil {
			t.Fatal(err)
		}
		p, err := readPlaylist(string(text), name)
		if err != nil {
			t.Fatal(err)
		}
		if p.kind != "EVENT" || p.ended || !strings.HasPrefix(string(text), before) ||
			len(text) == len(before) {
			t.Errorf("type %s, ended %v, after %q: %q", p.kind, p.ended, before, text)
		}
		before = string(text)
		media, err := os.ReadFile(name + mediaExt)
		if err != nil {
			t.Fatal(err)
		}
		got := checkEntries(t, media, p, true)
		sameFragments(t, got, want[:len(got)])
		if i == 0 || !testing.Short() {
			decodes(t, name+mediaExt, pictures(want))
		}
	}
	rec.Close()
	r.ended()
	sameFragments(t, r.checkAll("cam"), want)
}

// A stream with only audio is recorded, too.
func TestAudioOnly(t *testing.T) {
	r := newRig(t, nil)
	r.feed.only = flv.TypeAudio
	r.feed.muxer = mp4.NewMuxer(mp4.Tracks(false, true))
	rec := r.stream("radio")
	want := r.feed.to(rec, 90)
	rec.Close()
	r.ended()
	name := r.files("radio")[0]
	got, p := check(t, name, true)
	sameFragments(t, got, want)
	if len(p.entries) != 5 {
		t.Errorf("%d segments, want 5", len(p.entries))
	}
	for _, ext := range []string{mediaExt, listExt} {
		if n, complaints := probe(t, name+ext, "a"); n < 440 || complaints != "" {
			t.Errorf("%s: %d frames, want 440 or more and no complaint\n%s", ext, n, complaints)
		}
	}
}

// A new file begins at each full hour, wherever the clock jumps. The files' names sort in the order
// of their contents.
func TestClock(t *testing.T) {
	for _, tt := range []struct {
		name, begins string
		jump         time.Duration // after 200 fragments, each of 40 ms
		want         []string
	}{
		{"no hour", "2026-11-24T15:00:00Z", 0, []string{"2026-11-24T15-00-00.040Z"}},
		{"the hour", "2026-11-24T14:59:50Z", 0,
			[]string{"2026-11-24T14-59-50.040Z", "2026-11-24T15-00-00.040Z"}},
		{"forth", "2026-11-24T14:10:00Z", 5 * time.Hour,
			[]string{"2026-11-24T14-10-00.040Z", "2026-11-24T19-10-08.040Z"}},
		{"back by a moment", "2026-11-24T14:59:58Z", -8 * time.Second,
			[]string{"2026-11-24T14-59-58.040Z", "2026-11-24T15-00-00.040Z"}},
		{"back", "2026-11-24T14:10:00Z", -72 * time.Hour,
			[]string{"2026-11-24T14-10-00.040Z", "2026-11-24T14-10-00.041Z"}},
		{"back and at the hour", "2026-11-24T14:10:00Z",
			-72*time.Hour + 49*time.Minute + 50*time.Second,
			[]string{"2026-11-24T14-10-00.040Z", "2026-11-24T14-10-00.041Z",
				"2026-11-24T14-10-00.042Z"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clock := newClock(tt.begins)
			r := newRig(t, func(c *Config) { c.now = clock.now })
			r.feed.tick = func() { clock.add(40 * time.Millisecond) }
			rec := r.stream("cam")
			want := r.feed.to(rec, 200)
			clock.add(tt.jump)
			want = append(want, r.feed.to(rec, 200)...)
			rec.Close()
			r.ended()
			files := r.files("cam")
			for i := range files {
				files[i] = filepath.Base(files[i])
			}
			if !slices.Equal(files, tt.want) {
				t.Errorf("%v, want %v", files, tt.want)
			}
			sameFragments(t, r.checkAll("cam"), want)
			r.plays("cam")
		})
	}
}

// If the stream is late for a long time, dates follow the clock. If it is late for a moment, they
// do not.
func TestDates(t *testing.T) {
	clock := newClock("2026-11-24T15:00:00Z")
	r := newRig(t, func(c *Config) { c.now = clock.now })
	r.feed.tick = func() { clock.add(40 * time.Millisecond) }
	rec := r.stream("cam")
	for _, late := range []time.Duration{0, time.Second, time.Minute} {
		clock.add(late)
		r.feed.to(rec, 100)
	}
	rec.Close()
	r.ended()
	_, p := check(t, r.files("cam")[0], true)
	at := p.entries[0].date
	for i, e := range p.entries[1:] {
		at = at.Add(time.Duration(p.entries[i].seconds * float64(time.Second)))
		switch late := e.date.Sub(at).Round(100 * time.Millisecond); {
		case late != 0 && late != 61*time.Second:
			t.Errorf("segment %d is %v late", i+1, late)
		case late != 0:
			at = e.date
		}
	}
	if late := at.Sub(p.entries[0].date); late < 70*time.Second {
		t.Errorf("the last segment begins after %v", late)
	}
}

// The oldest files are deleted, and growing files are ended, so that all recordings fit.
func TestMaxBytes(t *testing.T) {
	const limit = 1 << 20
	r := newRig(t, func(c *Config) { c.MaxBytes = limit })
	feeds := map[string]*feed{"one": r.feed, "two": newFeed()}
	defer feeds["two"].release()
	want := map[string][]fragment{}
	streams := map[string]*Recording{"one": r.stream("one"), "two": r.stream("two")}
	for round := range 16 {
		for name, rec := range streams {
			want[name] = append(want[name], feeds[name].to(rec, 60)...)
		}
		r.settle()
		if n := sizes(t, r.dir); n > limit || n < limit/2 && round > 8 {
			t.Errorf("%d bytes, limit %d", n, limit)
		}
	}
	if st := r.Stats(); st.Lost > 0 {
		t.Errorf("%+v, want no loss", st)
	}
	for _, rec := range streams {
		rec.Close()
	}
	r.ended()
	st := r.Stats()
	if have := sizes(t, r.dir); st.Bytes != have || have < limit/2 || have > limit ||
		st.Removed < 4 {
		t.Errorf("%d bytes, %+v, want half of the limit to the limit, and old files removed", have,
			st)
	}
	for name := range streams {
		got := r.checkAll(name)
		sameFragments(t, got, want[name][len(want[name])-len(got):])
	}
	r.close()
	again, err := Open(Config{Dir: r.dir, MaxBytes: limit / 4})
	if err != nil {
		t.Fatal(err)
	}
	if n := sizes(t, r.dir); n > limit/4 || n != again.Stats().Bytes {
		t.Errorf("%d bytes after another Open, %+v", n, again.Stats())
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for name := range streams {
		r.plays(name)
	}
}

// A publisher that sends no keyframes cannot make a file grow without limit.
func TestMaxBytesWithoutKeyFrames(t *testing.T) {
	const limit = 256 << 10
	r := newRig(t, func(c *Config) { c.MaxBytes = limit })
	rec := r.stream("cam")
	r.feed.to(rec, 1)
	for range 8 {
		for range 60 {
			body, f, _ := r.feed.next()
			f.Key = false
			rec.Add(f, body)
		}
		r.settle()
		if n := sizes(t, r.dir); n > limit {
			t.Errorf("%d bytes, limit %d", n, limit)
		}
	}
	if r.Stats().Lost == 0 {
		t.Error("nothing is lost")
	}
	r.feed.to(rec, 60) // with keyframes
	rec.Close()
	r.ended()
	if len(r.files("cam")) != 1 {
		t.Error(r.files("cam"))
	}
	r.checkAll("cam")
}

// A gate is a disk that blocks while it is closed.
type gate struct{ open chan struct{} }

func (g *gate) wrap(f disk.File) disk.File { return gatedFile{f, g} }

type gatedFile struct {
	disk.File
	gate *gate
}

func (g gatedFile) Write(p []byte) (int, error) {
	<-g.gate.open
	return g.File.Write(p)
}

// Frames that wait for a slow disk can be dropped. The recording continues at the next keyframe.
func TestFree(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	const queue = 200 << 10
	g := &gate{make(chan struct{})}
	r := newRig(t, func(c *Config) { c.QueueBytes, c.open = queue, openWith(g.wrap) })
	rec := r.stream("cam")
	r.feed.to(rec, 10)
	if n := r.Free(1 << 30); n != 0 {
		t.Errorf("%d bytes go of a short queue", n)
	}
	r.feed.to(rec, 150)
	before := r.Stats()
	if n := r.Free(1 << 30); n < before.Queued/2 || r.Stats().Queued != before.Queued-n ||
		r.Stats().Lost <= before.Lost {
		t.Errorf("%d bytes go; %+v, before %+v", n, r.Stats(), before)
	}
	close(g.open)
	r.settle()
	more := r.feed.to(rec, 100)
	rec.Close()
	r.ended()
	if st := r.Stats(); st.Queued != 0 || st.Failures != 0 {
		t.Errorf("%+v, want nothing queued and no failure", st)
	}
	all, _ := check(t, r.files("cam")[len(r.files("cam"))-1], true)
	if last := more[len(more)-1]; all[len(all)-1].Sequence != last.Sequence {
		t.Errorf("the recording ends with fragment %d, the stream with %d",
			all[len(all)-1].Sequence, last.Sequence)
	}
}

// While the disk blocks, Add does not, the queue stays within its limit, and the playlist marks the
// gap.
func TestSlowDisk(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	const queue = 200 << 10
	clock := newClock("2026-11-24T15:00:00Z")
	g := &gate{make(chan struct{})}
	r := newRig(t, func(c *Config) {
		c.QueueBytes, c.open, c.now = queue, openWith(g.wrap), clock.now
	})
	r.feed.tick = func() { clock.add(40 * time.Millisecond) }
	rec := r.stream("cam")
	want := r.feed.to(rec, 310) // ends in the middle of a GOP
	st := r.Stats()
	if st.Queued > queue || st.Queued < queue/2 || st.Lost == 0 {
		t.Errorf("%+v, want a full queue and a loss", st)
	}
	lost := int(st.Lost)
	want = want[:len(want)-lost]
	close(g.open)
	r.settle()
	more := r.feed.to(rec, 100)
	for !more[0].Key {
		more = more[1:]
		lost++
	}
	rec.Close()
	r.ended()
	if st := r.Stats(); int(st.Lost) != lost || st.LostBytes == 0 || st.Failures != 0 ||
		st.Queued != 0 {
		t.Errorf("%+v, want %d lost", st, lost)
	}
	name := r.files("cam")[0]
	got, p := check(t, name, true)
	sameFragments(t, got, append(want, more...))
	gaps, date := 0, p.entries[0].date
	for _, e := range p.entries {
		if e.discontinuity {
			gaps++
			missing := more[0].Start - want[len(want)-1].End
			if d := e.missing - missing.Seconds(); d < -.001 || d > .001 {
				t.Errorf("a gap of %v s, want %v", e.missing, missing)
			}
			date = date.Add(missing)
		}
		if d := e.date.Sub(date); d.Abs() > 10*time.Millisecond {
			t.Errorf("a segment is at %v, want %v", e.date, date)
		}
		date = date.Add(time.Duration(e.seconds * float64(time.Second)))
	}
	if gaps != 1 {
		t.Errorf("%d gaps, want 1", gaps)
	}
	decodes(t, name+mediaExt, pictures(got))
	decodes(t, name+listExt, pictures(got))
}

// Close succeeds if everything is on the disk, even if its context has ended.
func TestCloseAfterTimeIsUp(t *testing.T) {
	r := newRig(t, nil)
	want := r.feed.to(r.stream("cam"), 100)
	r.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := r.Archive.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	sameFragments(t, r.checkAll("cam"), want)
}

// Close gives up when its context ends, and the blocks are returned.
func TestCloseWithHangingDisk(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	g := &gate{make(chan struct{})}
	dir := t.TempDir()
	a, err := Open(Config{Dir: dir, open: openWith(g.wrap)})
	if err != nil {
		t.Fatal(err)
	}
	f := newFeed()
	defer f.release()
	rec, err := a.Stream("cam")
	if err != nil {
		t.Fatal(err)
	}
	f.to(rec, 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := a.Stream("cam"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	f.to(rec, 10)
	rec.Init(f.initChain())
	close(g.open)
	nettest.Eventually(t, "the writer ends", func() bool { return a.Stats().Recordings == 0 })
	if err := a.lock.Close(); err != nil {
		t.Error(err)
	}
}

// A returning stream continues in a new file, even while the old file waits for the disk.
func TestReturn(t *testing.T) {
	g := &gate{make(chan struct{})}
	r := newRig(t, func(c *Config) { c.open = openWith(g.wrap) })
	rec := r.stream("cam")
	want := r.feed.to(rec, 60)
	if _, err := r.Stream("cam"); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	rec.Close()
	r.feed.to(rec, 10) // not recorded
	rec = r.stream("cam")
	r.feed.to(rec, 10) // before Init
	rec.Init(r.feed.initChain())
	more := r.feed.to(rec, 60)
	for !more[0].Key {
		more = more[1:]
	}
	rec.Close()
	close(g.open)
	r.ended()
	files := r.files("cam")
	if len(files) != 2 {
		t.Fatal(files)
	}
	for i, want := range [][]fragment{want, more} {
		got, _ := check(t, files[i], true)
		sameFragments(t, got, want)
	}
}

// A directory has one archive. An error of Open names the directory.
func TestOneArchive(t *testing.T) {
	r := newRig(t, nil)
	_, err := Open(Config{Dir: r.cfg.Dir})
	if err == nil || err.Error() != r.cfg.Dir+": another process records to this directory" {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, lockName), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.HasPrefix(err.Error(), dir+": ") {
		t.Error(err)
	}
}

// If a stream restarts its clock, it continues in another file, so that each file can be played
// alone.
func TestPublisherClockRestarts(t *testing.T) {
	r := newRig(t, nil)
	other := newFeed()
	defer other.release()
	rec := r.stream("cam")
	want := r.feed.to(rec, 60)
	for range 60 {
		body, f, _ := other.next()
		want = append(want, fragment{f, bytes.Clone(body.Bytes())})
		rec.Add(f, body)
	}
	rec.Close()
	r.ended()
	sameFragments(t, r.checkAll("cam"), want)
	for _, name := range r.files("cam") {
		decodes(t, name+mediaExt, 60)
	}
}

// Another init segment begins another file at its first keyframe.
func TestNewInit(t *testing.T) {
	r := newRig(t, nil)
	other := newFeed()
	defer other.release()
	rec := r.stream("cam")
	want := r.feed.to(rec, 60)
	for range 3 {
		rec.Init(r.feed.initChain())
	}
	more := other.to(rec, 60)
	rec.Close()
	r.ended()
	files := r.files("cam")
	if len(files) != 2 {
		t.Fatal(files)
	}
	for i, want := range [][]fragment{want, more} {
		got, _ := check(t, files[i], true)
		sameFragments(t, got, want)
	}
}

// If the directory is removed, recordings continue in a new file.
func TestDirectoryRemoved(t *testing.T) {
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprintf("whole=%v", whole), func(t *testing.T) {
			clock := newClock("2026-11-24T15:00:00Z")
			r := newRig(t, func(c *Config) { c.now = clock.now })
			rec := r.stream("cam")
			r.feed.to(rec, 60)
			r.settle()
			if whole {
				if err := os.RemoveAll(r.dir); err != nil {
					t.Fatal(err)
				}
			} else if err := os.RemoveAll(filepath.Join(r.dir, "cam")); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				r.feed.to(rec, 75)
				r.settle()
				clock.add(retryAfter)
			}
			if whole {
				if n := strings.Count(r.log.String(), "recording fails"); n != 1 {
					t.Errorf("%d lines in the log", n)
				}
				if err := os.Mkdir(r.dir, 0o755); err != nil {
					t.Fatal(err)
				}
				clock.add(retryAfter)
			}
			want := r.feed.to(rec, 100)
			rec.Close()
			r.ended()
			if st := r.Stats(); st.Failures == 0 || st.Lost == 0 ||
				st.Bytes != sizes(t, filepath.Join(r.dir, "cam")) {
				t.Errorf("%+v, %d bytes, want failures, a loss, and the bytes counted", st,
					sizes(t, r.dir))
			}
			got := r.checkAll("cam")
			if len(got) < 70 {
				t.Errorf("%d fragments, want the last of %d", len(got), len(want))
			}
			for !whole && len(got) > len(want) { // may begin with earlier fragments
				got = got[1:]
			}
			sameFragments(t, got, want[len(want)-len(got):])
			r.plays("cam")
		})
	}
}

// While it fails, a failingDisk writes a part of each Write, and returns an error.
type failingDisk struct{ fails bool }

var errDisk = errors.New("the disk is on fire")

func (d *failingDisk) wrap(f disk.File) disk.File { return failingFile{f, d} }

type failingFile struct {
	disk.File
	disk *failingDisk
}

func (f failingFile) Write(p []byte) (int, error) {
	if !f.disk.fails {
		return f.File.Write(p)
	}
	n, _ := f.File.Write(p[:len(p)/3])
	return n, errDisk
}

// An error in the middle of a write ends the file after its last whole fragment. After a pause, the
// next file begins at a keyframe.
func TestFailingDisk(t *testing.T) {
	clock := newClock("2026-11-24T15:00:00Z")
	d := &failingDisk{}
	r := newRig(t, func(c *Config) { c.now, c.open = clock.now, openWith(d.wrap) })
	r.feed.tick = func() { clock.add(40 * time.Millisecond) }
	rec := r.stream("cam")
	want := r.feed.to(rec, 80)
	r.settle()
	d.fails = true
	for range 8 { // s, in which it retries
		want = append(want, r.feed.to(rec, 25)...)
		r.settle()
	}
	d.fails = false
	clock.add(retryAfter)
	want = append(want, r.feed.to(rec, 80)...)
	rec.Close()
	r.ended()
	st := r.Stats()
	if log := r.log.String(); strings.Count(log, "recording fails") != 1 ||
		strings.Count(log, "continues\"") != 1 ||
		!strings.Contains(log, errDisk.Error()) || st.Failures < 2 || st.Failures > 3 {
		t.Errorf("%+v, want two or three failures and one line for each change\n%s", st, log)
	}
	got := r.checkAll("cam")
	if len(r.files("cam")) != 2 || len(got)+int(st.Lost) < len(want) ||
		st.Bytes != sizes(t, r.dir) {
		t.Errorf("%v, %d fragments of %d, %+v", r.files("cam"), len(got), len(want), st)
	}
	r.plays("cam")
}

// Names of streams never lead outside the directory.
func TestNames(t *testing.T) {
	r := newRig(t, nil)
	for _, name := range []string{
		"", ".", "..", "...", "../x", "/etc", "a b", "ä", strings.Repeat("x", 129), "a\x00", "a/",
		"a//b", "a/../b", "a/..", "a/./b", "a/b/c/d/e",
		"a/2026-11-24T15-04-05.000Z", "a/2026-11-24T15-04-05.000Z.mp4/b",
		"a/b/2026-11-24T15-04-05.000Z.m3u8.new",
	} {
		if _, err := r.Stream(name); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v, want ErrName", name, err)
		}
	}
	for _, name := range []string{"a", "A-Z_0.9", ".hidden", "2026-11-24T15-04-05.000Z/a",
		"a/b/c/d", strings.Repeat("x", 128)} {
		r.stream(name).Close()
	}
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(r.dir, "link")); err != nil {
		t.Skip(err)
	}
	for i, name := range []string{"link", "link/a", "link/a/b"} {
		rec, feed := r.stream(name), newFeed()
		feed.to(rec, 60)
		feed.release()
		rec.Close()
		r.ended()
		if n := sizes(t, outside); n > 0 || r.Stats().Failures <= int64(i) {
			t.Errorf("%s: %d bytes outside, %+v", name, n, r.Stats())
		}
	}
}

// A directory has one archive at a time.
func TestLock(t *testing.T) {
	r := newRig(t, nil)
	if _, err := Open(Config{Dir: r.dir}); err == nil {
		t.Error("opened twice")
	}
	if _, err := Open(Config{Dir: filepath.Join(r.dir, "none")}); err == nil {
		t.Error("there is no such directory")
	}
	r.close()
	again, err := Open(Config{Dir: r.dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Segments are at least as long as leastSegment if there are keyframes. They are never longer than
// the target duration, unless a fragment is.
func TestSegmenter(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		keys := []int{1, 25, 250, 2000}[rnd.IntN(4)]
		frame := time.Duration(1+rnd.IntN(400)) * time.Millisecond
		var s segmenter
		var all []segment
		var at time.Duration
		var offset int64
		for i := range 3000 {
			f := mp4.FragmentInfo{Size: 1, Start: at, End: at + frame, Key: i%keys == 0,
				Sequence: uint32(i)}
			if g, ok := s.add(f, time.Time{}, offset); ok {
				all = append(all, g)
			}
			at, offset = f.End, offset+1
		}
		if g, ok := s.finish(); ok {
			all = append(all, g)
		}
		if _, ok := s.finish(); ok {
			t.Fatal("a segment of nothing")
		}
		offset, at = 0, 0
		for i, g := range all {
			length := g.end - g.start
			if g.offset != offset || g.start != at || g.afterGap || g.size < 1 ||
				length > s.target {
				t.Fatalf("seed %d: segment %d: %+v, target duration %v", seed, i, g, s.target)
			}
			begins := int(g.offset) % keys
			if begins != 0 && i > 0 && length < leastSegment && i < len(all)-1 &&
				int(g.offset+g.size)%keys != 0 {
				t.Fatalf("seed %d: segment %d has %v", seed, i, length)
			}
			offset, at = offset+g.size, g.end
		}
		if offset != 3000 || s.target > mostTarget {
			t.Fatalf("seed %d: %d fragments, target duration %v", seed, offset, s.target)
		}
	}
}

// If fragments are missing, according to sequence numbers or times, a new segment starts that says
// so.
func TestGaps(t *testing.T) {
	for _, tt := range []struct {
		name           string
		skip           uint32
		wait           time.Duration
		gap            bool
		missing, start time.Duration
	}{
		{"none", 0, 0, false, 0, 0},
		{"a late fragment", 0, 900 * time.Millisecond, false, 0, 0},
		{"one fragment, and no time", 1, 0, true, 0, time.Second},
		{"one fragment", 1, 40 * time.Millisecond, true, 40 * time.Millisecond,
			1040 * time.Millisecond},
		{"time alone", 0, time.Minute, true, time.Minute, 61 * time.Second},
		{"a start over", 0, -500 * time.Millisecond, false, 0, 0},
		{"another start", 7, -time.Second, true, 0, 0},
	} {
		var s segmenter
		date := time.Unix(1e9, 0)
		_, _ = s.add(mp4.FragmentInfo{Size: 1, End: time.Second, Key: true, Sequence: 1<<32 - 1},
			date, 0)
		begin := time.Second + tt.wait
		done, ended := s.add(mp4.FragmentInfo{Size: 1, Start: begin, End: begin + time.Second,
			Key: true, Sequence: tt.skip}, date, 1)
		if ended != tt.gap || s.open.afterGap != tt.gap || s.open.missing != tt.missing ||
			s.open.start != tt.start ||
			ended && (done.afterGap || done.end != time.Second) {
			t.Errorf("%s: ended %v, %+v, then %+v", tt.name, ended, done, s.open)
		}
	}
}

// A growing playlist ends with a whole entry at the end of each page.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	root, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &file{root: root, name: "cam", init: 1000}
	if f.media, err = os.Create(filepath.Join(dir, "cam.mp4")); err != nil {
		t.Fatal(err)
	}
	f.segments.target = leastTarget
	rnd := rand.New(rand.NewPCG(1, 1))
	at := int64(1000)
	for i := range 20_000 { // an entry ends at each offset of a page
		for range rnd.IntN(3) {
			g := segment{offset: at, size: 1 + rnd.Int64N(1<<20), end: time.Second,
				afterGap: rnd.IntN(4) == 0,
				date:     time.Unix(int64(1e9+i), 0)}
			f.done = append(f.done, g)
			at += g.size
		}
		if len(f.done) > 0 {
			if err := f.writeEntries(); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.close()
	text, err := os.ReadFile(filepath.Join(dir, "cam"+listExt))
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(text)) != f.listSize || len(text) < 5*pageSize {
		t.Fatal(len(text), f.listSize)
	}
	head := ""
	for n := pageSize; n < len(text); n += pageSize {
		if _, err := readPlaylist(head+string(text[n-pageSize:n]), "cam"); err != nil {
			t.Fatal(n, err)
		}
		head = string(listHeader(growing, "cam.mp4", 1000, leastTarget))
	}
	whole, err := readPlaylist(string(text), "cam")
	if err != nil {
		t.Fatal(err)
	}
	if l := parseList(text, "cam.mp4", 1000, at); len(l.entries) != len(whole.entries) ||
		len(whole.entries) < 300 {
		t.Errorf("%d entries, want %d", len(l.entries), len(whole.entries))
	}
}

// parseList stops at damage, and returns only complete entries that are in the media file.
func FuzzParseList(f *testing.F) {
	head := string(listHeader(growing, "m.mp4", 10, leastTarget))
	g := segment{offset: 10, size: 20, end: 2 * time.Second, date: time.Unix(1e9, 0)}
	one := string(g.appendEntry(nil, "m.mp4"))
	g.offset, g.afterGap = 30, true
	two := string(g.appendEntry(nil, "m.mp4"))
	for _, text := range []string{"", head, head + one, head + one + two, head + one +
		"\n\n" + two + endLine, head + two + one,
		head + one[:len(one)-1], one} {
		f.Add([]byte(text), int64(10), int64(50))
	}
	f.Fuzz(func(t *testing.T, text []byte, init, size int64) {
		init, size = min(max(init, 0), maxInit), max(size, 0)
		l := parseList(text, "m.mp4", init, size)
		at, end := init, 0
		for _, e := range l.entries {
			if e.offset != at || e.end <= at || e.end > size || e.textEnd <= end {
				t.Fatalf("the entries are not in order, or longer than the file: %+v", l)
			}
			at, end = e.end, e.textEnd
		}
		if end != len(l.text) {
			t.Fatalf("%d bytes of text, entries end at %d", len(l.text), end)
		}
		again := parseList(append(listHeader(finished, "m.mp4", init, max(l.target, time.Second)),
			l.text...), "m.mp4", init, size)
		if !slices.Equal(again.entries, l.entries) || !bytes.Equal(again.text, l.text) {
			t.Fatalf("%+v became %+v when it was parsed again", l, again)
		}
	})
}

// Streams whose names are prefixes of each other have separate recordings. Their directories are
// removed with the last file.
func TestNamesBelowNames(t *testing.T) {
	clock := newClock("2026-11-24T15:00:00Z")
	r := newRig(t, func(c *Config) { c.now = clock.now })
	names := []string{"a", "a/b", "a/b/c/d", "x/y"}
	want := map[string][]fragment{}
	for _, name := range names {
		rec, feed := r.stream(name), newFeed()
		want[name] = feed.to(rec, 75)
		feed.release()
		rec.Close()
		r.ended()
		clock.add(time.Minute)
	}
	check := func(names ...string) {
		t.Helper()
		for _, name := range names {
			sameFragments(t, r.checkAll(name), want[name][len(want[name])-len(r.checkAll(name)):])
		}
	}
	check(names...)
	r.close()

	// Another process finds all recordings, and deletes the oldest first. Other files stay.
	for _, file := range []string{"a/notes.txt", "a/b/c/notes",
		"a/b/c/d/e/2026-11-24T15-00-00.000Z.mp4"} {
		_ = os.MkdirAll(filepath.Join(r.dir, filepath.Dir(file)), 0o755)
		if err := os.WriteFile(filepath.Join(r.dir, file), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]int64{}
	for _, name := range names {
		for _, file := range r.files(name) {
			for _, ext := range []string{mediaExt, listExt} {
				if info, err := os.Stat(file + ext); err == nil {
					all[name] += info.Size()
				}
			}
		}
	}
	reopen := func(limit int64, files int) {
		t.Helper()
		again, err := Open(Config{Dir: r.dir, MaxBytes: limit})
		if err != nil {
			t.Fatal(err)
		}
		if st := again.Stats(); st.Files != files || st.Repaired != 0 {
			t.Errorf("%+v, want %d files", st, files)
		}
		if err := again.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	reopen(0, 4)
	reopen(all["x/y"]+all["a/b/c/d"], 2)
	check("a/b/c/d", "x/y")
	if len(r.files("a")) > 0 || len(r.files("a/b")) > 0 {
		t.Errorf("%v and %v are left", r.files("a"), r.files("a/b"))
	}
	reopen(1, 0)
	if _, err := os.Stat(filepath.Join(r.dir, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory is left: %v", err)
	}
	for _, file := range []string{"a/notes.txt", "a/b/c/notes",
		"a/b/c/d/e/2026-11-24T15-00-00.000Z.mp4"} {
		if _, err := os.Stat(filepath.Join(r.dir, file)); err != nil {
			t.Error(err)
		}
	}
}
