package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
)

// writerDirectory is the environment variable that makes a test binary a writer; see
// TestKilledWriters.
const writerDirectory = "MILLRACE_TEST_BLOB_WRITER"

// writerKeys is the number of keys that the writer uses.
const writerKeys = 4

// writeUntilKilled puts and deletes values until the test kills its process.
func writeUntilKilled(dir string) {
	d, err := openStore(dir, false, millrace.DefaultPool())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	for i := range writerKeys {
		go func() {
			rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
			key := fmt.Sprint("key", i)
			for {
				value := described(rnd.Uint64(), 16+rnd.IntN(1<<20))
				if _, _, err := d.Put(context.Background(), key, bytes.NewReader(value),
					int64(len(value)), Put{Limit: limit}); err != nil {
					fmt.Println(err)
				}
				if rnd.IntN(8) == 0 {
					_ = d.Delete(context.Background(), key, nil)
				}
			}
		}()
	}
	select {}
}

// A process that is killed during a write leaves only complete values.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	unfinished, there := 0, 0
	for range 15 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerDirectory+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 5)
		if _, err := io.ReadFull(out, said); err != nil || string(said) != "open\n" {
			t.Errorf("the writer says %q, %v", said, err)
		}
		time.Sleep(time.Duration(1+rand.IntN(30)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(out)
		if _ = cmd.Wait(); len(rest) > 0 {
			t.Errorf("the writer says %s", rest)
		}
		names, err := os.ReadDir(filepath.Join(dir, incoming))
		if err != nil {
			t.Fatal(err)
		}
		unfinished += len(names)
		there += checkKilled(t, dir)
	}
	if unfinished == 0 || there == 0 {
		t.Errorf("%d writes were cut, and %d values there: the test has seen nothing", unfinished,
			there)
	}
}

// checkKilled returns the number of values in a directory, after checking that each is complete.
func checkKilled(t *testing.T, dir string) (there int) {
	t.Helper()
	d, err := openStore(dir, false, millrace.DefaultPool())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range writerKeys {
		value, err := d.root.ReadFile(fileOf(fmt.Sprint("key", i)).path)
		if err == nil && isWhole(value) {
			there++
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("key%d: %d bytes, %v", i, len(value), err)
		}
	}
	left(t, d, there)
	return there
}

func TestOneProcessHasADirectory(t *testing.T) {
	dir := t.TempDir()
	openDirectory(t, dir)
	if _, err := OpenDirectory(dir, false, millrace.DefaultPool()); err == nil ||
		!strings.Contains(err.Error(), dir+": another process") {
		t.Errorf("%v, want an error that names the directory and another process", err)
	}
	others := t.TempDir()
	file := filepath.Join(others, "incoming", "file")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{file: "not a directory", dir +
		"/none": "no such file", others: "neither empty"} {
		if _, err := OpenDirectory(name, false, millrace.DefaultPool()); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want an error that says so", name, err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("another program's file: %v", err)
	}
}

// A time to live survives the process. An expired value is not served, and is deleted later.
func TestExpiry(t *testing.T) {
	dir := t.TempDir()
	d, err := openStore(dir, false, millrace.DefaultPool())
	if err != nil {
		t.Fatal(err)
	}
	for key, ttl := range map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour,
		"ever": 0, "century": maxTTL} {
		if _, _, err := d.Put(t.Context(), key, strings.NewReader(key), unknownSize,
			Put{Limit: limit, TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		after time.Duration
		there string
	}{
		{0, "hour day ever century"}, {time.Hour - time.Minute, "hour day ever century"},
		{time.Hour, "day ever century"},
		{25 * time.Hour, "ever century"}, {2 * maxTTL, "ever"},
	} {
		d := openDirectoryAt(t, dir, func() time.Time { return time.Now().Add(tt.after) })
		w := serve(t, d)
		for _, key := range []string{"hour", "day", "ever", "century"} {
			want := []byte(key)
			if !strings.Contains(tt.there, key) {
				want = nil
			}
			w.mustHave(t, key, want)
			if err := d.Check(t.Context(), key,
				func(tag string) bool { return (tag == "") == (want == nil) }); err != nil {
				t.Errorf("after %v, Check of %s: %v", tt.after, key, err)
			}
			if err := d.Delete(t.Context(), key,
				func(string) bool { return false }); err != ErrCondition {
				t.Errorf("after %v, Delete of %s: %v, want ErrCondition", tt.after, key, err)
			}
		}
		for i := range shards {
			d.sweepShard(t.Context(), i)
		}
		files, err := filepath.Glob(dir + "/??/*")
		if err != nil || len(files) != len(strings.Fields(tt.there)) {
			t.Errorf("after %v there are %v, %v", tt.after, files, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// openDirectoryAt opens a directory with the given clock, and without its sweeper.
func openDirectoryAt(t *testing.T, name string, clock func() time.Time) *directory {
	t.Helper()
	d, err := openStore(name, false, millrace.DefaultPool())
	if err != nil {
		t.Fatal(err)
	}
	d.stopSweeper()
	<-d.swept
	d.clock = clock
	return d
}

// A sweep does not delete a value that has replaced an expired one since the sweep checked.
func TestSweepRechecksBeforeDeleting(t *testing.T) {
	d := openDirectory(t, t.TempDir())
	at := fileOf("k")
	mustPut(t, d, "k", []byte("new"))
	d.sweepFile(at)
	serve(t, d).mustHave(t, "k", []byte("new"))
	if n := d.expired.Load(); n != 0 {
		t.Errorf("%d have expired", n)
	}
}

// A symbolic link in the directory does not make the server read outside it.
func TestLinksLeadNowhere(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := openDirectory(t, dir)
	if err := os.Symlink(secret, filepath.Join(dir, fileOf("k").path)); err != nil {
		t.Fatal(err)
	}
	value, _, err := serve(t, d).get(t.Context(), "k")
	if value != nil {
		t.Errorf("a link was followed: %q, %v", value, err)
	}
	mustPut(t, d, "k", []byte("value"))
	if got, err := os.ReadFile(secret); err != nil || string(got) != "secret" {
		t.Errorf("the linked file is %q, %v, want secret", got, err)
	}
	serve(t, d).mustHave(t, "k", []byte("value"))
}

// If a value expires before its writer gets the answer, the answer still has a tag.
func TestTagOfExpiringValue(t *testing.T) {
	looks := new(atomic.Int64)
	d := closing(t, openDirectoryAt(t, t.TempDir(),
		func() time.Time { return time.Unix(1e9+looks.Add(1), 0) }))
	tag, created, err := d.Put(t.Context(), "k", strings.NewReader("value"), 5,
		Put{Limit: limit, TTL: time.Millisecond})
	if err != nil || !created || len(tag) < 10 {
		t.Errorf("tag %q, created %v, %v, want a new value with a tag", tag, created, err)
	}
	if err := d.Check(t.Context(), "k", func(tag string) bool { return tag == "" }); err != nil {
		t.Errorf("it has not expired: %v", err)
	}
}

// No value is reported to last longer than its writer has requested.
func TestValuesExpireOnTime(t *testing.T) {
	d := closing(t, openDirectoryAt(t, t.TempDir(), func() time.Time { return time.Unix(1e9, 0) }))
	d.serial.Store(int64(time.Millisecond) - 50)
	for range 100 { // beyond the last serial number
		if _, _, err := d.Put(t.Context(), "k", strings.NewReader("value"), 5,
			Put{Limit: limit, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		v, err := d.Open(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if v.TTL > time.Hour || v.TTL < time.Hour-2*time.Millisecond {
			t.Errorf("%v are left of an hour", v.TTL)
		}
		if err := v.Content.(*os.File).Close(); err != nil {
			t.Error(err)
		}
	}
}

// Values that are put at the same time and have the same length have different tags.
func TestTagsDiffer(t *testing.T) {
	d := closing(t, openDirectoryAt(t, t.TempDir(), func() time.Time { return time.Unix(1e9, 0) }))
	tags := make(map[string]bool)
	for range 100 {
		tags[mustPut(t, d, "k", []byte("same"))] = true
	}
	if len(tags) != 100 {
		t.Errorf("%d tags of 100 values", len(tags))
	}
}
