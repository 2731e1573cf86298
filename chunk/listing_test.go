package chunk_test

import (
	"context"
	"errors"
	"html"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// slowPage is the reference for a list.
func slowPage(names []string) string {
	slices.Sort(names)
	reference := regexp.MustCompile("&([0-9A-Za-z#])")
	page := "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n"
	for _, name := range names {
		link := url.URL{Path: name}
		page += `<a href="` + reference.ReplaceAllString(link.String(), "&amp;$1") + `">` + html.EscapeString(name) + "</a>\n"
	}
	return page + "</pre>\n"
}

// manyNames has a directory called many with so many names of n bytes each, and one called few.
func manyNames(t testing.TB, count, n int, letter string) *os.Root {
	t.Helper()
	root, dir := makeTree(t, map[string]string{"few/a": "", "many/": ""})
	end := strings.Repeat(letter, n-6)
	for i := range count {
		f, err := os.Create(filepath.Join(dir, "many", itoa(100_000+i)+end))
		must(t, err)
		must(t, f.Close())
	}
	return root
}

// longList is a list that needs a place.
func longList(t testing.TB) *os.Root { return manyNames(t, 200, 200, "n") }

// TestListNames: names are escaped, and links lead to the files.
func TestListNames(t *testing.T) {
	root, _ := makeTree(t, map[string]string{`"'<>&`: "", "?foo=bar#baz": "", "<combo>?foo": "", "foo:bar": "", "a&lt;b": "", "x&#1": ""})
	h := newFiles(t, root)
	page := ask(h, "/").Body.String()
	for _, want := range []string{
		`<a href="%22%27%3C%3E&">&#34;&#39;&lt;&gt;&amp;</a>`, `<a href="%3Ffoo=bar%23baz">?foo=bar#baz</a>`,
		`<a href="%3Ccombo%3E%3Ffoo">&lt;combo&gt;?foo</a>`, `<a href="./foo:bar">foo:bar</a>`,
		`<a href="a&amp;lt;b">a&amp;lt;b</a>`, `<a href="x&%231">x&amp;#1</a>`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("%s\nhas no\n%s", page, want)
		}
	}
	must(t, root.Mkdir("a?b:c", 0o755))
	if to := ask(h, "/a%3Fb:c").Header().Get("Location"); to != "./a%3Fb:c/" {
		t.Errorf("leads to %q", to)
	}
}

// TestListAgainstOracle lists random names, in pages of up to a megabyte. HEAD promises what GET has.
func TestListAgainstOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, most := range []int{0, 1, 10, 100, 500} {
		root, dir := makeTree(t, nil)
		unique := make(map[string]bool)
		for range most {
			name := string(fromAlphabet(rnd, 1+rnd.IntN(255), `aZ09.-_~&&;#"'<>?:%* +$@=,é`))
			if strings.Trim(name, ".") != "" {
				unique[name] = true
				must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
			}
		}
		var all []string
		for name := range unique {
			all = append(all, name)
		}
		h := newFiles(t, root)
		want := slowPage(all)
		for _, method := range []string{"GET", "HEAD"} {
			w := serveTo(h, httptest.NewRequest(method, "/", nil))
			if length := w.Header().Get("Content-Length"); length != itoa(len(want)) {
				t.Errorf("%s of %d names: Content-Length is %s, want %d", method, len(all), length, len(want))
			}
			if got := w.Body.String(); method == "GET" && got != want || method == "HEAD" && got != "" {
				t.Errorf("%s of %d names: %.500q\nwant\n%.500q", method, len(all), got, want)
			}
		}
	}
}

// TestListLimits: what has more names, or more bytes of them, than a list may take is a 403, and its memory is bounded.
func TestListLimits(t *testing.T) {
	count := chunk.MostNameBytes / 255
	root := manyNames(t, count, 255, "n")
	h := newFiles(t, root)
	if w := ask(h, "/many/"); w.Code != 200 || strings.Count(w.Body.String(), "<a ") != count {
		t.Errorf("%d names: %d, %.100q", count, w.Code, w.Body)
	}
	must(t, root.WriteFile("many/"+strings.Repeat("x", 250), nil, 0o644))
	if w := ask(h, "/many/"); w.Code != 403 || !strings.Contains(w.Body.String(), "too many files to list") {
		t.Errorf("more: %d, %.100q", w.Code, w.Body)
	}
	for _, n := range []int{1, 30, 63, 64, 255} {
		most := min(chunk.MostNames, chunk.MostNameBytes/n)
		if bytes, refused := chunk.ListSize(most, n); refused || bytes > 6<<20 {
			t.Errorf("%d names of %d bytes: %d bytes of memory, refused: %v", most, n, bytes, refused)
		}
		if _, refused := chunk.ListSize(most+1, n); !refused {
			t.Errorf("%d names of %d bytes are not refused", most+1, n)
		}
	}
	if bytes, _ := chunk.ListSize(2048, 8); bytes > 48<<10 {
		t.Errorf("a short list: %d bytes of memory", bytes)
	}
	if taken, _ := h.LongLists(); taken != 0 {
		t.Errorf("%d places were not given back", taken)
	}
}

// TestListPlaces: long lists wait for a place, and end with their request's context; nothing else waits for them, and they
// wait for nothing else.
func TestListPlaces(t *testing.T) {
	root := longList(t)
	synctest.Test(t, func(t *testing.T) {
		h := chunk.FileServer(root)
		defer h.Close()
		giveBack, warm := h.TakeListPlaces(), h.TakeColdSlots()
		ctx, cancel := context.WithCancel(t.Context())
		var patient, gone *httptest.ResponseRecorder
		var wg sync.WaitGroup
		wg.Go(func() { gone = serveTo(h, get("/many/", "").WithContext(ctx)) })
		synctest.Wait()
		wg.Go(func() { patient = serveTo(h, get("/many/", "")) })
		synctest.Wait()
		if taken, waiting := h.LongLists(); taken != chunk.LongLists || waiting != 2 {
			t.Errorf("%d lists, and %d wait", taken, waiting)
		}
		if w := ask(h, "/few/"); w.Code != 200 {
			t.Errorf("a short list: %d", w.Code)
		}
		cancel()
		synctest.Wait()
		if _, waiting := h.LongLists(); waiting != 1 || gone.Code != 503 {
			t.Errorf("%d wait after one has gone, with %d", waiting, gone.Code)
		}
		giveBack()
		wg.Wait()
		if patient.Code != 200 || strings.Count(patient.Body.String(), "<a ") != 200 {
			t.Errorf("%d, %q", patient.Code, patient.Body)
		}
		// Reading a long list ends as well; a short one is over soon.
		for path, status := range map[string]int{"/many/": 503, "/few/": 200} {
			if w := serveTo(h, get(path, "").WithContext(ctx)); w.Code != status {
				t.Errorf("%s without a wait: %d", path, w.Code)
			}
		}
		warm()
		if taken, waiting := h.LongLists(); taken != 0 || waiting != 0 {
			t.Errorf("%d lists, and %d wait, when all is over", taken, waiting)
		}
	})
}

// TestListPlaceHeld: the place is taken until the page is written, and however that ends.
func TestListPlaceHeld(t *testing.T) {
	root := longList(t)
	h := newFiles(t, root)
	for name, at := range map[string]func(){
		"written": func() {},
		"aborted": func() { panic(http.ErrAbortHandler) },
	} {
		func() {
			defer func() { _ = recover() }()
			w := &probe{ResponseRecorder: httptest.NewRecorder(), at: func() {
				if taken, _ := h.LongLists(); taken != 1 {
					t.Errorf("%s: %d places while a page is written", name, taken)
				}
				at()
			}}
			h.ServeHTTP(w, get("/many/", ""))
		}()
		if taken, _ := h.LongLists(); taken != 0 {
			t.Errorf("%s: %d places afterwards", name, taken)
		}
	}
}

// TestListAbandoned: clients that have hung up do not take a turn.
func TestListAbandoned(t *testing.T) {
	const clients = 20
	var statuses sync.Map
	done := make(chan int, clients)
	h := newFiles(t, longList(t), chunk.OnServed(func(_ *http.Request, _ chunk.Report, status int) { done <- status }))
	server, _ := serve(t, h, false, false)
	giveBack := h.TakeListPlaces()
	defer giveBack()
	var conns []net.Conn
	for range clients {
		c := open(t, server)
		_, err := io.WriteString(c, "GET /many/ HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		conns = append(conns, c)
	}
	for _, c := range conns {
		must(t, c.Close())
	}
	for range clients {
		statuses.Store(<-done, true) // while all places are taken
	}
	statuses.Range(func(status, _ any) bool {
		if status != 503 {
			t.Errorf("ended with %v", status)
		}
		return true
	})
}

// TestListHalfClosed: who has nothing more to say, and listens, gets a list.
func TestListHalfClosed(t *testing.T) {
	root, _ := makeTree(t, tree)
	url, _ := serve(t, newFiles(t, root), false, false)
	got := converse(t, url, "GET /dir/ HTTP/1.0\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.0 200 OK") || !strings.HasSuffix(got, "</pre>\n") {
		t.Errorf("%q", got)
	}
}

// TestListOfRemovedRoot: a directory that has gone is not there, as with http.FileServer.
func TestListOfRemovedRoot(t *testing.T) {
	root, dir := makeTree(t, nil)
	must(t, os.Remove(dir))
	if got, want := ask(newFiles(t, root), "/").Code, ask(http.FileServer(http.Dir(dir)), "/").Code; got != want {
		t.Errorf("%d, http.FileServer %d", got, want)
	}
}

// A stingy response takes so many bytes.
type stingy struct {
	*httptest.ResponseRecorder
	left int
}

func (s *stingy) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		return 0, errors.New("full")
	}
	return s.ResponseRecorder.Write(p)
}

// TestListCut: a list that ends too soon is broken off where net/http would not count it.
func TestListCut(t *testing.T) {
	h := newFiles(t, longList(t))
	for _, c := range []struct {
		proto   int
		foreign string
		aborts  bool
	}{{1, "", false}, {1, "gzip", true}, {2, "", true}} {
		func() {
			defer func() {
				if v := recover(); (v == http.ErrAbortHandler) != c.aborts {
					t.Errorf("%+v: %v", c, v)
				}
			}()
			w := &stingy{httptest.NewRecorder(), 40 << 10}
			if c.foreign != "" {
				w.Header().Set("Content-Encoding", c.foreign)
			}
			r := get("/many/", "")
			r.ProtoMajor = c.proto
			h.ServeHTTP(w, r)
		}()
	}
}

// TestListDeadline: a client that takes nothing loses its place at the deadline of a middleware. On a slow machine that comes
// before the page is written, which must end as well.
func TestListDeadline(t *testing.T) {
	h := newFiles(t, manyNames(t, 4000, 250, `"`)) // 8 MB, more than sockets hold
	done := make(chan int64, 1)
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 200*time.Millisecond)
		defer cancel()
		c := &counter{ResponseWriter: w}
		h.ServeHTTP(c, r.WithContext(ctx))
		done <- c.taken
	}), false, false)
	c := open(t, server)
	must(t, c.SetReadBuffer(4<<10))
	_, err := io.WriteString(c, "GET /many/ HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	if taken := <-done; taken > 7<<20 {
		t.Errorf("%d bytes are all of it", taken)
	}
	if taken, _ := h.LongLists(); taken != 0 {
		t.Errorf("%d places are taken", taken)
	}
}

// A counter counts what passes.
type counter struct {
	http.ResponseWriter
	taken int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.taken += int64(n)
	return n, err
}

func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
