package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/disk"
)

// A feed makes the fragments of an FLV file that is played repeatedly.
type feed struct {
	flv    []byte
	length uint32   // length of a round, in ms
	tick   func()   // called before each fragment if not nil
	only   flv.Type // if not 0, tags of other types are left out
	slides bool     // only keyframes of the video are used
	base   uint32   // time of the first tag

	muxer *mp4.Muxer
	movie mp4.Movie
	init  []byte // nil before the first fragment
	round uint32
	in    *millrace.Reader
	tags  *flv.Decoder
}

// newFeed plays the sample of the demo: 8 s of H.264 and AAC, with a keyframe each second.
func newFeed() *feed {
	return &feed{flv: demo.Sample, length: uint32(demo.Length.Milliseconds()),
		muxer: mp4.NewMuxer(mp4.Tracks(true, true))}
}

// next returns the next fragment. newInit is set if f.init has changed.
func (f *feed) next() (body *millrace.Chain, info mp4.FragmentInfo, newInit bool) {
	body = new(millrace.Chain)
	for {
		if f.in == nil {
			f.in = millrace.NewReader(bytes.NewReader(f.flv))
			f.tags = flv.NewDecoder(f.in)
		}
		var tag millrace.Chain
		t, err := f.tags.Next(&tag)
		if err == io.EOF {
			f.in.Release()
			f.in = nil
			f.round++
			continue
		}
		if err != nil {
			panic(err)
		}
		if f.only != 0 && t.Type != f.only {
			tag.Release()
			continue
		}
		if f.slides && t.Type == flv.TypeVideo && t.Packet == flv.PacketFrame && !t.Key {
			tag.Release()
			continue
		}
		t.Timestamp += f.base + f.round*f.length
		made, err := f.muxer.WriteTag(body, t, &tag)
		if err != nil {
			panic(err)
		}
		if made.Samples == 0 {
			continue
		}
		if made.NewInit {
			f.readInit()
		}
		info, need, err := f.movie.ReadFragment(bytes.Clone(body.Bytes()))
		if err != nil || need > 0 {
			panic(fmt.Sprint(need, err))
		}
		return body, info, made.NewInit
	}
}

func (f *feed) readInit() {
	c := f.initChain()
	f.init = bytes.Clone(c.Bytes())
	c.Release()
	var err error
	if f.movie, err = mp4.ReadMovie(f.init); err != nil {
		panic(err)
	}
}

func (f *feed) initChain() *millrace.Chain {
	c := new(millrace.Chain)
	if err := f.muxer.AppendInit(c); err != nil {
		panic(err)
	}
	return c
}

func (f *feed) release() {
	f.muxer.Release()
	if f.in != nil {
		f.in.Release()
	}
}

// A fragment is a fragment that was added to a Recording.
type fragment struct {
	mp4.FragmentInfo
	bytes []byte
}

// to adds n fragments to r, and returns them.
func (f *feed) to(r *Recording, n int) (all []fragment) {
	for range n {
		body, info, newInit := f.next()
		if f.tick != nil {
			f.tick()
		}
		all = append(all, fragment{info, bytes.Clone(body.Bytes())})
		if newInit {
			r.Init(f.initChain())
		}
		r.Add(info, body)
	}
	return all
}

// A testClock is a wall clock that is set by hand.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func newClock(text string) *testClock {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return &testClock{at: at}
}

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// A rig is an archive in a test's directory.
type rig struct {
	*Archive
	t    *testing.T
	dir  string
	log  *nettest.LogBook
	feed *feed
}

// newRig opens an archive. change may be nil.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, log: &nettest.LogBook{}, feed: newFeed()}
	cfg := Config{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(r.log, nil))}
	if change != nil {
		change(&cfg)
	}
	r.dir = cfg.Dir
	var err error
	if r.Archive, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.close()
		r.feed.release()
		if t.Failed() {
			t.Logf("the log:\n%s", r.log)
		}
	})
	return r
}

// close closes the archive, and waits for the files.
func (r *rig) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), nettest.Timeout)
	defer cancel()
	if err := r.Archive.Close(ctx); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) stream(name string) *Recording {
	r.t.Helper()
	rec, err := r.Stream(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return rec
}

// openWith returns a Config.open that applies wrap to the media files.
func openWith(wrap func(disk.File) disk.File) func(string) (disk.Root, error) {
	return func(dir string) (disk.Root, error) {
		root, err := disk.Open(dir)
		return wrappedRoot{root, wrap}, err
	}
}

type wrappedRoot struct {
	disk.Root
	wrap func(disk.File) disk.File
}

func (r wrappedRoot) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	f, err := r.Root.OpenFile(name, flag, perm)
	if err == nil && flag&os.O_EXCL != 0 && filepath.Ext(name) == mediaExt {
		f = r.wrap(f)
	}
	return f, err
}

// settle makes the archive write its queues at once, and waits for that.
func (r *rig) settle() {
	r.t.Helper()
	r.mu.Lock()
	for _, rec := range r.recordings {
		notify(rec.mustWrite)
	}
	r.mu.Unlock()
	nettest.Eventually(r.t, "nothing waits for the disk",
		func() bool { return r.Stats().Queued == 0 })
}

// ended waits until no recording is running.
func (r *rig) ended() {
	r.t.Helper()
	nettest.Eventually(r.t, "no recording continues",
		func() bool { return r.Stats().Recordings == 0 })
}

// files returns the names of a stream's recordings in order, without extensions.
func (r *rig) files(stream string) []string {
	r.t.Helper()
	return filesOf(r.t, filepath.Join(r.dir, stream))
}

func filesOf(t testing.TB, dir string) (names []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"+mediaExt))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		names = append(names, strings.TrimSuffix(name, mediaExt))
	}
	slices.Sort(names)
	return names
}

// An entryOf is a segment, parsed by the test's own parser.
type entryOf struct {
	offset, size  int64
	seconds       float64
	date          time.Time
	discontinuity bool
	missing       float64
}

// A playlistOf is a playlist, parsed by the test's own parser.
type playlistOf struct {
	kind    string
	ended   bool
	target  int
	init    int64
	entries []entryOf
}

// attribute returns the value of an attribute in a line.
func attribute(line, name string) string {
	_, rest, _ := strings.Cut(line, name+"=")
	if strings.HasPrefix(rest, `"`) {
		rest, _, _ = strings.Cut(rest[1:], `"`)
		return rest
	}
	rest, _, _ = strings.Cut(rest, ",")
	return rest
}

// readPlaylist is slow and strict: unknown lines are errors. name is a path without an extension.
func readPlaylist(text, name string) (p playlistOf, err error) {
	var e entryOf
	media := filepath.Base(name) + mediaExt
	bad := func(line string) error { return fmt.Errorf("line %q of %s", line, text) }
	if !strings.HasPrefix(text, "#EXTM3U\n#EXT-X-VERSION:7\n") || !strings.HasSuffix(text, "\n") {
		return p, bad("first, last")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		tag, value, _ := strings.Cut(line, ":")
		if p.ended {
			return p, bad(line)
		}
		switch tag {
		case "#EXTM3U", "#EXT-X-VERSION", "":
		case "#EXT-X-TARGETDURATION":
			p.target, err = strconv.Atoi(value)
		case "#EXT-X-PLAYLIST-TYPE":
			p.kind = value
		case "#EXT-X-MAP":
			if attribute(value, "URI") != media {
				return p, bad(line)
			}
			_, err = fmt.Sscanf(attribute(value, "BYTERANGE"), "%d@0", &p.init)
		case "#EXT-X-DISCONTINUITY":
			e.discontinuity = true
		case "#EXT-X-DATERANGE":
			e.missing, err = strconv.ParseFloat(attribute(value, "DURATION"), 64)
		case "#EXT-X-PROGRAM-DATE-TIME":
			e.date, err = time.Parse(time.RFC3339Nano, value)
		case "#EXTINF":
			e.seconds, err = strconv.ParseFloat(strings.TrimSuffix(value, ","), 64)
		case "#EXT-X-BYTERANGE":
			_, err = fmt.Sscanf(value, "%d@%d", &e.size, &e.offset)
		case "#EXT-X-ENDLIST":
			p.ended = true
		case media:
			if e.seconds <= 0 || e.size <= 0 || e.date.IsZero() {
				return p, bad(line)
			}
			p.entries = append(p.entries, e)
			e = entryOf{}
		default:
			return p, bad(line)
		}
		if err != nil {
			return p, bad(line)
		}
	}
	if p.target <= 0 || p.init <= 0 || e != (entryOf{}) {
		return p, bad("the whole")
	}
	return p, nil
}

// check checks a finished recording: its playlist names every byte of the media file, and each
// segment consists of whole fragments. If keys is set, each segment begins with a keyframe. check
// returns the fragments and the playlist.
func check(t testing.TB, name string, keys bool) ([]fragment, playlistOf) {
	t.Helper()
	media, err := os.ReadFile(name + mediaExt)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name + listExt)
	if err != nil {
		t.Fatal(err)
	}
	p, err := readPlaylist(string(text), name)
	if err != nil {
		t.Fatal(err)
	}
	if p.kind != "VOD" || !p.ended {
		t.Errorf("%s: type %s, ended %v", name, p.kind, p.ended)
	}
	if _, err := os.Stat(name + newListExt); err == nil {
		t.Errorf("%s is left", name+newListExt)
	}
	all := checkEntries(t, media, p, keys)
	if first := all[0].First; first != 0 {
		t.Errorf("%s begins at %v", name, first)
	}
	if last := p.entries[len(p.entries)-1]; last.offset+last.size != int64(len(media)) {
		t.Errorf("%s: the playlist ends at byte %d of %d", name, last.offset+last.size, len(media))
	}
	return all, p
}

// checkEntries checks the segments of a playlist, whether it has ended or not.
func checkEntries(t testing.TB, media []byte, p playlistOf, keys bool) (all []fragment) {
	t.Helper()
	movie, err := mp4.ReadMovie(media[:p.init])
	if err != nil {
		t.Fatal(err)
	}
	at := p.init
	var line mp4.Timeline
	for i, e := range p.entries {
		if e.discontinuity {
			line = mp4.Timeline{}
		}
		if e.offset != at || e.offset+e.size > int64(len(media)) {
			t.Fatalf("segment %d: %d bytes at %d, want at %d", i, e.size, e.offset, at)
		}
		at += e.size
		var begin, end time.Duration
		for in := media[e.offset : e.offset+e.size]; len(in) > 0; {
			f, need, err := movie.ReadFragment(in)
			if err != nil || need > 0 || f.Size > len(in) {
				t.Fatalf("segment %d: %+v, need %d, %v", i, f, need, err)
			}
			from, to := line.Add(f)
			if first := len(in) == int(e.size); first {
				begin = from
				if keys && !f.Key {
					t.Errorf("segment %d does not begin with a keyframe", i)
				}
			}
			all, end = append(all, fragment{f, in[:f.Size]}), to
			in = in[f.Size:]
		}
		if d := (end - begin).Seconds() - e.seconds; d < -1e-5 || d > 1e-5 ||
			int(e.seconds+.5) > p.target {
			t.Errorf("segment %d: EXTINF %v, target %d, want %v", i, e.seconds, p.target, end-begin)
		}
		if keys && e.seconds < 1.9 && i < len(p.entries)-1 && !p.entries[i+1].discontinuity {
			t.Errorf("segment %d of %d has %v s", i, len(p.entries), e.seconds)
		}
	}
	return all
}

// sameFragments fails the test unless got equals want, except for the times in the heads, because
// each file begins at 0.
func sameFragments(t testing.TB, got, want []fragment) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d fragments, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(withoutTimes(got[i].bytes), withoutTimes(want[i].bytes)) {
			t.Fatalf("fragment %d of %d differs", i, len(got))
		}
		if i > 0 && got[i].Start > got[i-1].Start &&
			got[i].Start-got[i-1].Start != want[i].Start-want[i-1].Start {
			t.Fatalf("fragment %d of %d begins at %v, the one before at %v", i, len(got),
				got[i].Start, got[i-1].Start)
		}
	}
}

// withoutTimes returns a fragment with decode times of 0.
func withoutTimes(fragment []byte) []byte {
	b := bytes.Clone(fragment)
	head := b[:binary.BigEndian.Uint32(b)]
	for {
		_, after, ok := bytes.Cut(head, []byte("tfdt"))
		if !ok {
			return b
		}
		clear(after[4:12])
		head = after
	}
}
