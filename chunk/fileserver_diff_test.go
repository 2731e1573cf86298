package chunk_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// modified is the modification time of all files of a tree.
var modified = time.Date(2024, 2, 29, 12, 30, 15, 123456789, time.UTC)

// tree is served by the differential tests. A name that ends with a slash is a directory. A value
// that begins with "->" is a symbolic link.
var tree = map[string]string{
	"plain.txt":           "Hello, this is a plain text.\n",
	"large.bin":           string(someBytes(256 << 10)),
	"page.html":           "<!doctype html><p>page",
	"noext":               "<html>what am I",
	"binary":              "\x00\x01\x02\xff\xfe",
	"empty":               "",
	"one.byte":            "x",
	"upper.TXT":           "upper",
	"data.json":           "{}",
	"UPPER":               "x",
	"with space":          "space",
	"with%percent":        "percent",
	"with&amp;":           "reference",
	"with&":               "ampersand",
	"with?question":       "question",
	"with#hash":           "hash",
	"colon:name":          "colon",
	`quote"'<>`:           "quote",
	"..dots":              "dots",
	"...":                 "three dots",
	"back\\slash":         "backslash",
	".hidden":             "hidden",
	"ünïcödé":             "unicode",
	"dir/":                "",
	"dir/a.txt":           "a",
	"dir/b.txt":           "b",
	"dir/sub/c.txt":       "c",
	"indexed/index.html":  "<p>index",
	"indexed/other.txt":   "other",
	"empty dir/":          "",
	"nested/x/index.html": "<p>nested",
	"link.txt":            "->plain.txt",
	"dirlink":             "->dir",
	"uplink":              "->dir/../plain.txt",
	"broken":              "->nowhere",
	"outside":             "->../../../../../../../../etc/passwd",
	"absolute":            "->/etc/passwd",
	"loop":                "->loop",
	"dir/parent":          "->..",
}

// makeTree writes files into a new directory and opens it.
func makeTree(t testing.TB, files map[string]string) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	// Longest names first, because writing into a directory changes its time.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(files))) {
		full := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		content := files[name]
		switch to, isLink := strings.CutPrefix(content, "->"); {
		case isLink:
			must(t, os.Symlink(to, full))
			continue
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(full, 0o755))
		default:
			must(t, os.WriteFile(full, []byte(content), 0o644))
		}
	}
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.Type()&os.ModeSymlink != 0 {
			return err
		}
		return os.Chtimes(path, modified, modified)
	}))
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root, dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tagged sets an entity tag before it calls h, or prevents one. The standard library takes an
// entity tag from the response header.
func tagged(h http.Handler, etag string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Etag"] = nil
		if etag != "" {
			w.Header().Set("ETag", etag)
		}
		h.ServeHTTP(w, r)
	})
}

// A reply is a response in a comparable form.
type reply struct {
	status int
	header http.Header
	body   string
}

var boundaries = regexp.MustCompile("boundary=([0-9a-f]{60})")

// newReply reads a response. It replaces the random boundary of a multipart response by 60 times B,
// and removes the date.
func newReply(t testing.TB, res *http.Response) reply {
	t.Helper()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	must(t, res.Body.Close())
	r := reply{res.StatusCode, res.Header.Clone(), string(body)}
	r.header.Del("Date")
	if m := boundaries.FindStringSubmatch(r.header.Get("Content-Type")); m != nil {
		r.header.Set("Content-Type", strings.ReplaceAll(r.header.Get("Content-Type"), m[1],
			strings.Repeat("B", 60)))
		r.body = strings.ReplaceAll(r.body, m[1], strings.Repeat("B", 60))
	}
	return r
}

// compare fails the test if two responses differ. A correct Content-Length that only ours has is
// allowed.
func compare(t testing.TB, what string, method string, got, want reply) {
	t.Helper()
	if want.header.Get("Content-Length") == "" && method != http.MethodHead {
		if length := got.header.Get("Content-Length"); length != "" &&
			length != itoa(len(got.body)) {
			t.Errorf("%s: Content-Length is %s, and the body has %d bytes", what, length,
				len(got.body))
		}
	}
	if want.header.Get("Content-Length") == "" {
		got.header.Del("Content-Length")
	}
	if got.status != want.status {
		t.Errorf("%s: status %d, want %d", what, got.status, want.status)
	}
	if !maps.EqualFunc(got.header, want.header, slices.Equal) {
		t.Errorf("%s: header\n%v\nwant\n%v", what, got.header, want.header)
	}
	if got.body != want.body {
		t.Errorf("%s: body %.200q, want %.200q", what, got.body, want.body)
	}
}

// A transport is a way to send a request to a handler.
type transport struct {
	name string
	open func(t *testing.T, h http.Handler) (url string, c *http.Client)
}

var transports = []transport{
	{"1.1", func(t *testing.T, h http.Handler) (string, *http.Client) {
		return serve(t, h, false, false)
	}},
	{"TLS", func(t *testing.T, h http.Handler) (string, *http.Client) {
		return serve(t, h, true, false)
	}},
	{"2", func(t *testing.T, h http.Handler) (string, *http.Client) {
		return serve(t, h, true, true)
	}},
}

func serve(t testing.TB, h http.Handler, tls, two bool) (string, *http.Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = two
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	return clientOf(t, s)
}

func clientOf(t testing.TB, s *httptest.Server) (string, *http.Client) {
	t.Helper()
	t.Cleanup(s.Close)
	c := s.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Transport.(*http.Transport).DisableCompression = true
	return s.URL, c
}

// A question is a request, with the entity tag that both handlers use.
type question struct {
	method, path, etag string
	header             map[string]string
}

func (q question) request(t testing.TB, base string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(q.method, base+q.path, nil)
	must(t, err)
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	return r
}

// questions are the requests in the tests of net/http's file server, and more.
func questions() (list []question) {
	paths := []string{
		"/", "/dir", "/dir/", "/dir/sub", "/dir/sub/", "/indexed", "/indexed/",
		"/indexed/index.html", "/index.html",
		"/empty%20dir/", "/dir?x=1&y=2", "/plain.txt/", "/plain.txt/?q", "/plain.txt/more",
		"/plain.txt/..", "/nothing",
		"/nothing/", "/nothing/index.html", "/dir/../plain.txt", "/../plain.txt", "/..%2fplain.txt",
		"/..%2f..%2fetc/passwd",
		"/%2e%2e/%2e%2e/etc/passwd", "/dir//a.txt", "//plain.txt", "/./plain.txt", "/dir/.",
		"/dir/./", "/broken", "/broken/",
		"/outside", "/outside/", "/absolute", "/dirlink", "/dirlink/", "/dirlink/a.txt", "/uplink",
		"/dir/parent/",
		"/dir/parent/plain.txt", "/with%26", "/with%26amp;", "/index.html/", "/indexed/index.html/",
		"/indexed/index.html/x",
	}
	for name := range tree {
		paths = append(paths, strings.ReplaceAll(escaped(name), "/?", "/%3F"))
	}
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		for _, method := range []string{"GET", "HEAD", "POST", "DELETE"} {
			list = append(list, question{method: method, path: p})
		}
	}
	for _, ranges := range rangeSeeds {
		for _, p := range []string{"/plain.txt", "/large.bin", "/empty", "/one.byte", "/dir/"} {
			for _, method := range []string{"GET", "HEAD", "PUT"} {
				list = append(list, question{method, p, "", map[string]string{"Range": ranges}})
			}
		}
	}
	return append(list, conditionQuestions()...)
}

// conditionQuestions are conditional requests for a file with and without a tag, and for a
// directory.
func conditionQuestions() (list []question) {
	add := func(key, value string) {
		header := map[string]string{"Range": "bytes=0-1", key: value}
		for _, etag := range []string{"", `"tag"`, `W/"tag"`} {
			list = append(list, question{"GET", "/plain.txt", etag, header})
		}
		list = append(list, question{"GET", "/dir/", "", header},
			question{"POST", "/plain.txt", `"tag"`, header})
	}
	for _, tag := range tagSeeds {
		add("If-Match", tag)
		add("If-None-Match", tag)
		add("If-Range", tag)
	}
	for _, date := range dateSeeds {
		add("If-Modified-Since", date)
		add("If-Unmodified-Since", date)
		add("If-Range", date)
	}
	return list
}

var (
	rangeSeeds = []string{
		"bytes=0-4", "bytes=5-", "bytes=-5", "bytes=-500000", "bytes=0-0", "bytes=28-28",
		"bytes=28-", "bytes=29-", "bytes=100-200",
		"bytes=0-1,3-4", "bytes=3-4,0-1", "bytes=0-1,100-", "bytes=0-0,0-0", "bytes=0-,0-",
		"bytes=0-20,5-25", "bytes=1-1, 3-3 ,, 5-",
		"bytes=", "bytes=,", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=1-2-3", "bytes= 1 - 2 ",
		"Bytes=0-1", "bytes 0-1", "lines=1-2", "x",
		"bytes=99999999999999999999-", "bytes=0-99999999999999999999", "bytes=9223372036854775807-",
		"bytes=0-9223372036854775807",
		"bytes=--1", "bytes=100000-x", "bytes=1000000-x,0-1",
		"bytes=0-4096,5000-9000,100000-200000", "bytes=200000-,0-99999",
	}
	tagSeeds = []string{
		`"tag"`, `W/"tag"`, `"other"`, `"other", "tag"`, `*`, `"a", *`, `tag`, `"tag`, `,,"tag"`,
		`""`, `W/""`, `"a" "tag"`, `"a b"`, ` "tag" `, `,`,
	}
	dateSeeds = []string{
		"Thu, 29 Feb 2024 12:30:15 GMT", "Thu, 29 Feb 2024 12:30:14 GMT",
		"Thu, 29 Feb 2024 12:30:16 GMT",
		"Thursday, 29-Feb-24 12:30:15 GMT", "yesterday", "Thu, 01 Jan 1970 00:00:00 GMT",
	}
)

// different reports whether q is answered differently from http.FileServer. It has all differences
// that the documentation names.
func different(q question) bool {
	path, _, _ := strings.Cut(q.path, "?")
	switch {
	case strings.HasPrefix(path, "/loop"), strings.HasPrefix(path, "/outside"),
		strings.HasPrefix(path, "/absolute"):
		return true // 404 instead of 500
	}
	return false
}

// mapOf returns the files of a tree without its links. All files have the given time.
func mapOf(files map[string]string, modified time.Time) fstest.MapFS {
	m := make(fstest.MapFS)
	for name, content := range files {
		f := &fstest.MapFile{Data: []byte(content), Mode: 0o644, ModTime: modified}
		name, isDir := strings.CutSuffix(name, "/")
		if isDir {
			f.Mode |= fs.ModeDir
		}
		if !strings.HasPrefix(content, "->") {
			m[name] = f
		}
	}
	return m
}

// TestFileServerLikeHTTP sends the same requests to both file servers, over all versions of the
// protocol.
func TestFileServerLikeHTTP(t *testing.T) {
	root, _ := makeTree(t, tree)
	compareServers(t, chunk.FileServer(root), http.FileServer(http.FS(root.FS())), different)
}

// zipOf returns the files and directories of m in a zip.Reader. The files have no Seek method.
func zipOf(t testing.TB, m fs.FS) *zip.Reader {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	must(t, w.AddFS(m))
	must(t, w.Close())
	r, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	must(t, err)
	return r
}

// TestFileServerFSLikeHTTP does the same for file systems with and without links, times, and files
// of the operating system.
func TestFileServerFSLikeHTTP(t *testing.T) {
	_, dir := makeTree(t, tree)
	for _, c := range []struct {
		name string
		fsys fs.FS
	}{
		{"os.DirFS", os.DirFS(dir)},
		{"MapFS", mapOf(tree, modified)},
		{"MapFS without times", mapOf(tree, time.Time{})},
		{"without Stat", struct{ fs.FS }{mapOf(tree, modified)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			compareServers(t, chunk.FileServerFS(c.fsys), http.FileServerFS(c.fsys),
				func(q question) bool { return strings.HasPrefix(q.path, "/loop") }) // 404, not 500
		})
	}
	for _, m := range []fs.FS{mapOf(tree, modified), mapOf(tree, time.Time{})} {
		files := zipOf(t, m)
		compareServers(t, chunk.FileServerFS(files), http.FileServerFS(files),
			func(q question) bool { // net/http breaks a response with several ranges off
				return strings.Contains(q.header["Range"], ",")
			})
	}
}

// compareServers sends the same requests to both handlers, except those of different.
func compareServers(t *testing.T, ours, standard http.Handler, different func(question) bool) {
	t.Helper()
	all := questions()
	for i, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			byTag := make(map[string][2]func(q question) reply)
			for _, etag := range []string{"", `"tag"`, `W/"tag"`} {
				var both [2]func(q question) reply
				for k, h := range []http.Handler{tagged(ours, etag), tagged(standard, etag)} {
					base, client := tr.open(t, h)
					both[k] = func(q question) reply {
						res, err := client.Do(q.request(t, base))
						must(t, err)
						return newReply(t, res)
					}
				}
				byTag[etag] = both
			}
			for k, q := range all {
				if different(q) || i > 0 && k%11 != 0 {
					continue
				}
				got, want := byTag[q.etag][0](q), byTag[q.etag][1](q)
				compare(t, fmt.Sprint(q.method, " ", q.path, " ", q.header), q.method, got, want)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// TestFileServerHeldBackDifferences checks the documented differences.
func TestFileServerHeldBackDifferences(t *testing.T) {
	root, _ := makeTree(t, tree)
	h := chunk.FileServer(root)
	for _, c := range []struct {
		path, ranges string
		status       int
		body         string // a part of the body
	}{
		{"/loop", "", 404, "404 page not found"},
		{"/outside", "", 404, "404 page not found"},
		{"/outside/", "", 404, "404 page not found"},
		{"/absolute", "", 404, "404 page not found"},
		{"/plain.txt", "bytes=+1-2", 206, "el"}, // net/http accepts the plus sign
		{"/%00", "", 404, "404 page not found"},
		{"/plain.txt%00", "", 404, "404 page not found"},
		{"/" + strings.Repeat("x", 300), "", 404, "404 page not found"},
		{"/" + strings.Repeat("x/", 3000), "", 404, "404 page not found"},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		if c.ranges != "" {
			r.Header.Set("Range", c.ranges)
		}
		w := serveTo(h, r)
		if w.Code != c.status || !bytes.Contains(w.Body.Bytes(), []byte(c.body)) {
			t.Errorf("%.60s %.60s: %d %.100q, want %d with %.100q", c.path, c.ranges, w.Code,
				w.Body, c.status, c.body)
		}
	}
}

func init() { _ = mime.AddExtensionType(".bin", "application/octet-stream") }
