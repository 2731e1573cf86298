package chunk_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// ask sends a request to a handler without a network.
func ask(h http.Handler, path string) *httptest.ResponseRecorder {
	return serveTo(h, get(path, ""))
}

// TestFileServerTagsEachVersion checks that each change of a file, in place or by replacement,
// changes its tag.
func TestFileServerTagsEachVersion(t *testing.T) {
	root, dir := makeTree(t, map[string]string{"a": "one", "b": "two", "same": "0"})
	h, name, other := chunk.FileServer(root), filepath.Join(dir, "a"), filepath.Join(dir, "b")
	tags := make(map[string]int)
	for i, change := range []func() error{
		func() error { return nil },
		func() error { return os.Rename(other, name) },
		func() error { return os.WriteFile(name, []byte("three"), 0o644) },
		func() error { return os.Truncate(name, 2) },
		func() error {
			return errors.Join(os.WriteFile(other, nil, 0o644), os.Remove(name),
				os.Symlink("b", name))
		},
	} {
		must(t, change())
		w := ask(h, "/a")
		want, err := os.ReadFile(name)
		must(t, err)
		if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), want) {
			t.Errorf("step %d: %d %q, want %q", i, w.Code, w.Body, want)
		}
		if before, ok := tags[w.Header().Get("Etag")]; ok {
			t.Errorf("steps %d and %d have the same tag", before, i)
		}
		tags[w.Header().Get("Etag")] = i
	}
	if runtime.GOOS != "linux" {
		return
	}
	before := ask(h, "/same").Header().Get("Etag")
	until(t, "a change shows that keeps the size and the modification time", func() bool {
		// The clock of the file system may be coarse.
		must(t, os.WriteFile(filepath.Join(dir, "same"), []byte("1"), 0o644))
		must(t, os.Chtimes(filepath.Join(dir, "same"), modified, modified))
		return ask(h, "/same").Header().Get("Etag") != before
	})
}

// A probe calls at once, when the first bytes of the body arrive.
type probe struct {
	*httptest.ResponseRecorder
	at func()
}

func (p *probe) Write(b []byte) (int, error) {
	if at := p.at; at != nil {
		p.at = nil
		at()
	}
	return p.ResponseRecorder.Write(b)
}

// TestFileServerWhileFilesChange sends many requests while names are given to other files. Each
// response must be one complete version.
func TestFileServerWhileFilesChange(t *testing.T) {
	root, dir := makeTree(t, map[string]string{"0": "", "1": "", "2": "", "link": "->0"})
	var versions sync.Map // SHA-256 of all versions of each name
	write := func(name string, r *rand.Rand) {
		content := bytes.Repeat([]byte(fmt.Sprintf("%s %d;", name, r.Uint64())), 1+r.IntN(8000))
		versions.Store(sha256.Sum256(content), true)
		full := filepath.Join(dir, name)
		must(t, os.WriteFile(full+".new", content, 0o644))
		must(t, os.Rename(full+".new", full))
	}
	versions.Store(sha256.Sum256(nil), true)
	h := chunk.FileServer(root)
	url, client := serve(t, h, false, false)
	var done atomic.Bool
	var changes, askers sync.WaitGroup
	changes.Go(func() {
		for r := rand.New(rand.NewPCG(1, 2)); !done.Load(); {
			name := itoa(r.IntN(3))
			switch r.IntN(6) {
			case 0:
				_ = os.Remove(filepath.Join(dir, name))
			case 1:
				link := filepath.Join(dir, "link")
				_ = os.Symlink(name, link+".new")
				_ = os.Rename(link+".new", link)
			default:
				write(name, r)
			}
		}
	})
	var tags sync.Map
	for i := range 8 {
		askers.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for range 60 {
				checkVersion(t, client, url+"/"+[]string{"0", "1", "2", "link"}[r.IntN(4)],
					&versions, &tags)
			}
		})
	}
	askers.Wait()
	done.Store(true)
	changes.Wait()
	client.CloseIdleConnections()
}

// checkVersion downloads a file, and checks that its bytes and its tag belong to one version.
func checkVersion(t *testing.T, client *http.Client, url string, versions, tags *sync.Map) {
	res, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case res.StatusCode == 404:
	case err != nil || res.StatusCode != 200:
		t.Errorf("%s: %d, %v, want 200", url, res.StatusCode, err)
	default:
		sum := sha256.Sum256(body)
		if _, ok := versions.Load(sum); !ok {
			t.Errorf("%s: %d bytes that there never were: %.60q…", url, len(body), body)
		}
		if before, ok := tags.LoadOrStore(res.Header.Get("Etag"), sum); ok && before != sum {
			t.Errorf("%s: two versions have the tag %s", url, res.Header.Get("Etag"))
		}
	}
}

// TestFileServerOfAFileThatIsCut checks that the connection breaks if a file is truncated while it
// is sent, in HTTP/1 and HTTP/2.
func TestFileServerOfAFileThatIsCut(t *testing.T) {
	const size, left = 32 << 20, 1 << 20
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			root, dir := makeTree(t, map[string]string{"a": ""})
			name := filepath.Join(dir, "a")
			must(t, os.WriteFile(name, bytes.Repeat([]byte("0123456789abcdef"), size/16), 0o644))
			h := chunk.FileServer(root)
			url, client := tr.open(t, h)
			res, err := client.Get(url + "/a")
			must(t, err)
			defer res.Body.Close()
			if _, err := io.CopyN(io.Discard, res.Body, left/2); err != nil {
				t.Fatal(err)
			}
			must(t, os.Truncate(name, left))
			n, err := io.Copy(io.Discard, res.Body)
			var op *net.OpError
			if err == nil || errors.As(err, &op) && op.Timeout() {
				t.Errorf("%d bytes more, %v; want a broken connection", n, err)
			}
			w, err := client.Get(url + "/a")
			must(t, err)
			if w.ContentLength != left {
				t.Errorf("then %d bytes, want %d", w.ContentLength, left)
			}
			must(t, w.Body.Close())
		})
	}
}

// TestFileServerOfAClosedRoot checks that a closed root is a server error, not a client error.
func TestFileServerOfAClosedRoot(t *testing.T) {
	root, _ := makeTree(t, map[string]string{"a": "x"})
	h := chunk.FileServer(root)
	must(t, root.Close())
	for _, path := range []string{"/", "/a", "/a/"} {
		if w := ask(h, path); w.Code != 500 {
			t.Errorf("%s: %d, want 500", path, w.Code)
		}
	}
}
