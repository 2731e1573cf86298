package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/disk"
)

// childLimit is MaxBytes of recordUntilKilled. Its files may exceed childLimit by childExcess: for
// each of its two streams, by a file that is being deleted and by a batch that is being written. A
// file ends at the first keyframe after an eighth of childLimit, or with the batch after it.
const (
	childLimit  = 6 << 20
	childBatch  = gatherBytes + gatherBytes/2
	childExcess = 2 * (childLimit/8 + 2*childBatch)
)

// recordUntilKilled records two streams as fast as the disk allows, in files of 20 s.
func recordUntilKilled(dir string) {
	clock := newClock("2026-11-24T15:00:00Z")
	a, err := Open(Config{Dir: dir, MaxBytes: childLimit, Every: 20 * time.Second, now: clock.now})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	for _, name := range []string{"one", "two"} {
		f := newFeed()
		f.tick = func() { clock.add(20 * time.Millisecond) }
		rec, err := a.Stream(name)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go func() {
			for {
				for rec.queued() < childBatch {
					f.to(rec, 1)
				}
				time.Sleep(100 * time.Microsecond)
			}
		}()
	}
	select {}
}

// The recording of a killed process can be played. After the next Open it consists of whole
// fragments.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("20 processes")
	}
	dir := t.TempDir()
	repaired := 0
	for round := range 20 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+childKilled, childDirEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var guard childproc.Guard
		if err := guard.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
			t.Fatalf("the process printed %q, %v, want open", line, err)
		}
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		guard.Release()
		checkUnfinished(t, dir, round%5 == 0)
		a, err := Open(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		repaired += a.Stats().Repaired
		if n := sizes(t, dir); n != a.Stats().Bytes || n > childLimit+childExcess {
			t.Errorf("%d bytes of recordings, want %d as counted, and at most %d", n,
				a.Stats().Bytes, childLimit+childExcess)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for n, stream := range []string{"one", "two"} {
			files := filesOf(t, filepath.Join(dir, stream))
			for i, name := range files {
				all, _ := check(t, name, true)
				if i == len(files)-1 && round%2 == n { // the repaired file
					decodes(t, name+[]string{mediaExt, listExt, listExt}[round/2%3], pictures(all))
				}
			}
			lists, _ := filepath.Glob(filepath.Join(dir, stream, "*"))
			if len(lists) != 2*len(files) {
				t.Errorf("%q, want two files for each recording", lists)
			}
		}
	}
	if repaired < 10 {
		t.Errorf("%d files repaired in 20 rounds", repaired)
	}
}

// checkUnfinished checks the recordings that a killed process has left.
func checkUnfinished(t *testing.T, dir string, decode bool) {
	t.Helper()
	for _, stream := range []string{"one", "two"} {
		for _, name := range filesOf(t, filepath.Join(dir, stream)) {
			text, err := os.ReadFile(name + listExt)
			// The process was killed before its first write.
			if os.IsNotExist(err) || err == nil && len(text) == 0 {
				continue
			}
			p, err := readPlaylist(string(text), name)
			if err != nil {
				t.Fatal(err)
			}
			if p.ended {
				continue
			}
			media, err := os.ReadFile(name + mediaExt)
			if err != nil {
				t.Fatal(err)
			}
			all := checkEntries(t, media, p, true)
			if !decode || len(all) == 0 {
				continue
			}
			if n, complaints := probe(t, name+mediaExt, "v"); n < pictures(all) {
				t.Errorf("%d video frames, want %d and more\n%s", n, pictures(all), complaints)
			}
		}
	}
}

// memoryDir returns a directory in memory, if there is one, because fsync is slow on disks.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "millrace")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A file that was cut at any byte is repaired to its whole fragments.
func TestCut(t *testing.T) {
	r := newRig(t, nil)
	rec := r.stream("cam")
	for range 75 { // the stream's times begin at 3 s
		body, _, _ := r.feed.next()
		body.Release()
	}
	rec.Init(r.feed.initChain())
	want := r.feed.to(rec, 110)
	rec.Close()
	r.ended()
	name := r.files("cam")[0]
	media, err := os.ReadFile(name + mediaExt)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name + listExt)
	if err != nil {
		t.Fatal(err)
	}
	_, p := check(t, name, true)
	grown := strings.Replace(strings.TrimSuffix(string(text), endLine), ":VOD", ":EVENT", 1)
	ends := []int{len(r.feed.init)} // ends of the fragments
	for _, f := range want {
		ends = append(ends, ends[len(ends)-1]+f.Size)
	}
	dir := memoryDir(t)
	root, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	base := filepath.Join("cam", filepath.Base(name))
	step := 1
	if testing.Short() {
		step = 13
	}
	cutAt := len(want) // index of the damaged fragment
	cut := func(n int, list string) {
		_ = root.Mkdir("cam", 0o755)
		if err := os.WriteFile(filepath.Join(dir, base+mediaExt), media[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if list != "" {
			if err := os.WriteFile(filepath.Join(dir, base+listExt), []byte(list), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		size, err := finish(root, base)
		if err != nil {
			t.Fatalf("a media file cut to %d bytes: %v", n, err)
		}
		if have := sizes(t, dir); size != have {
			t.Fatalf("%d bytes: finish says %d, there are %d", n, size, have)
		}
		whole := 0
		for whole < cutAt && ends[whole+1] <= n {
			whole++
		}
		if whole == 0 {
			if size != 0 {
				t.Fatalf("%d bytes: %d are left", n, size)
			}
			return
		}
		got, again := check(t, filepath.Join(dir, base), true)
		sameFragments(t, got, want[:whole])
		for i, e := range again.entries {
			if e.offset != p.entries[i].offset || !e.date.Equal(p.entries[i].date) {
				t.Fatalf("%d bytes: segment %d is %+v, want %+v", n, i, e, p.entries[i])
			}
		}
		if err := remove(root, base); err != nil {
			t.Fatal(err)
		}
	}
	// This covers the init segment, the first fragment, and the last two fragments, the first of
	// which ends a segment.
	for n := 0; n < ends[0]+200; n += step {
		cut(n, "")
	}
	at := 0
	for i, end := range ends {
		if int64(end) == p.entries[1].offset {
			at = i
		}
	}
	for n := ends[at-1]; n <= ends[at+1]; n += step {
		cut(n, "")
		cut(n, grown)
		cut(n, grown[:len(grown)-70])
	}
	// The damage is in the last segment that the playlist names, and in the first one.
	for _, i := range []int{at + 3, 0} {
		whole := bytes.Clone(media)
		copy(media[ends[i]:], bytes.Repeat([]byte{0xff}, 100))
		if i > 0 {
			cutAt = i
			cut(len(media), grown[:strings.LastIndex(grown, "#EXT-X-PROGRAM")])
		} else if err := errors.Join(root.Mkdir("cam", 0o755),
			os.WriteFile(filepath.Join(dir, base+mediaExt), media, 0o644)); err != nil {
			t.Fatal(err)
		} else if _, err := finish(root, base); !errors.Is(err, mp4.ErrNotMP4) {
			t.Error(err)
		}
		media, cutAt = whole, len(want)
	}
	// The playlist is cut anywhere.
	for n := 0; n < len(grown); n += step {
		cut(len(media), grown[:n])
	}
}

// Damaged bytes in a file end it there.
func FuzzFinish(f *testing.F) {
	feed := newFeed()
	defer feed.release()
	var media []byte
	for range 3 {
		body, _, _ := feed.next()
		media = append(media, body.Bytes()[:min(body.Len(), 700)]...)
		body.Release()
	}
	media = append(bytes.Clone(feed.init), media...)
	list := listHeader(growing, "2026-11-24T15-04-05.000Z.mp4", int64(len(feed.init)), leastTarget)
	f.Add(media, list)
	f.Add(media[:len(media)/2], []byte(nil))
	f.Fuzz(func(t *testing.T, media, list []byte) {
		const name = "cam/2026-11-24T15-04-05.000Z"
		dir := memoryDir(t)
		root, err := disk.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := root.Mkdir("cam", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+mediaExt), media, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+listExt), list, 0o644); err != nil {
			t.Fatal(err)
		}
		size, err := finish(root, name)
		if err != nil {
			if have := sizes(t, dir); have != int64(len(media)+len(list)) {
				t.Fatalf("%d bytes, were %d, %d: %v", have, len(media), len(list), err)
			}
			return
		}
		if have := sizes(t, dir); size != have {
			t.Fatalf("finish says %d, there are %d", size, have)
		}
		again, err := finish(root, name)
		if err != nil || again != size {
			t.Fatalf("%d bytes, then %d, %v", size, again, err)
		}
	})
}

// Open does not touch foreign files.
func TestForeignFiles(t *testing.T) {
	feed := newFeed()
	defer feed.release()
	body, _, _ := feed.next()
	body.Release()
	dir, outside := t.TempDir(), t.TempDir()
	files := map[string]string{
		"readme.txt": "text", "cam/holiday.mp4": "film", "cam/2026-11-24T15-04-05.000Z.txt": "text",
		"cam/2026-11-24T15-04-05.000Z.mp4":     "\x00\x00\x00\x10ftypisom\x00\x00\x00\x00\x00\x00\x00\x08mdat",
		"cam/2026-11-24T15-04-06.000Z.mp4":     "not an mp4",
		"cam/2026-11-24T15-04-08.000Z.mp4":     string(feed.init) + "\x00\x00\x00\x08sidx",
		"cam/2026-11-24T15-04-05.000Z.mp4.bak": "film", "cam/2026-99-24T15-04-05.000Z.mp4": "film",
		"a b/2026-11-24T15-04-05.000Z.mp4": "film",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	film := filepath.Join(outside, "2026-11-24T15-04-05.000Z.mp4")
	if err := os.WriteFile(film, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	files[film] = ""
	_ = os.Symlink(outside, filepath.Join(dir, "link"))
	_ = os.Symlink(film, filepath.Join(dir, "cam", "2026-11-24T15-04-07.000Z.mp4"))
	a, err := Open(Config{Dir: dir, MaxBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for name, text := range files {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%s was changed: %q, %v", name, got, err)
		}
	}
}

// Open cleans up after a process that was killed while it replaced a playlist, or deleted a file.
func TestLeftBehind(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, name string) error
		files  int
	}{
		{"a new playlist", func(t *testing.T, name string) error {
			return os.Rename(name+listExt, name+newListExt)
		}, 1},
		{"no media file", func(t *testing.T, name string) error {
			return os.Remove(name + mediaExt)
		}, 0},
		{"no playlist", func(t *testing.T, name string) error { return os.Remove(name + listExt) },
			1},
		{"an empty media file", func(t *testing.T, name string) error {
			_ = os.Remove(name + listExt)
			return os.Truncate(name+mediaExt, 0)
		}, 0},
		{"no end, and no room for it", func(t *testing.T, name string) error {
			text, err := os.ReadFile(name + listExt)
			if err != nil {
				return err
			}
			if err := os.Mkdir(name+newListExt, 0o755); err != nil {
				return err
			}
			return os.WriteFile(name+listExt, bytes.TrimSuffix(text, []byte(endLine)), 0o644)
		}, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			rec := r.stream("cam")
			want := r.feed.to(rec, 60)
			rec.Close()
			r.ended()
			r.close()
			if err := tt.damage(t, r.files("cam")[0]); err != nil {
				t.Fatal(err)
			}
			a, err := Open(Config{Dir: r.dir})
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if tt.files < 0 { // cannot be repaired, but is counted
				if st := a.Stats(); st.Files != 1 || st.Repaired != 0 ||
					st.Bytes < sizes(t, r.dir) {
					t.Errorf("%+v, %d bytes, want one file, counted, without a repair", st,
						sizes(t, r.dir))
				}
				return
			}
			if st := a.Stats(); st.Files != tt.files || st.Repaired != 1 ||
				st.Bytes != sizes(t, r.dir) {
				t.Errorf("%+v, want one repaired file, and the bytes counted", st)
			}
			left, _ := filepath.Glob(filepath.Join(r.dir, "*", "*"))
			if len(left) != 2*tt.files {
				t.Errorf("%q, want two files for each recording", left)
			}
			if tt.files > 0 {
				sameFragments(t, r.checkAll("cam"), want)
			}
		})
	}
}
