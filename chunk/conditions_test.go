package chunk_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

// FuzzConditions compares the answers to all conditions at once with http.FileServer's, with any tag that a handler before
// this one may have set.
func FuzzConditions(f *testing.F) {
	for i, tag := range tagSeeds {
		date := dateSeeds[i%len(dateSeeds)]
		f.Add(`"tag"`, tag, "", "", "", "", uint8(i))
		f.Add(`W/"tag"`, "", tag, date, "", "", uint8(i))
		f.Add("", "", "", date, date, tag, uint8(i))
		f.Add(`"tag"`, "", "", "", "", date, uint8(i))
	}
	root, _ := makeTree(f, map[string]string{"a.txt": string(letters[:100])})
	h := newFiles(f, root)
	f.Fuzz(func(t *testing.T, etag, match, noneMatch, since, unmodified, ifRange string, method uint8) {
		r := httptest.NewRequest([]string{"GET", "HEAD", "POST"}[method%3], "/a.txt", nil)
		for k, v := range map[string]string{
			"If-Match": match, "If-None-Match": noneMatch, "If-Modified-Since": since, "If-Unmodified-Since": unmodified,
			"If-Range": ifRange, "Range": "bytes=5-9",
		} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		compare(t, httpHeader(map[string]string{"Etag": etag}), r.Method, answer(t, tagged(h, etag), r), answer(t, reference(root, etag), r))
	})
}

// TestConditionsOwnTags: a file's own tag is strong, takes part in all conditions, and is another one for another encoding.
func TestConditionsOwnTags(t *testing.T) {
	content := string(letters[:5000])
	root, _ := makeTree(t, map[string]string{"a.txt": content, "a.txt.gz": "packed", "copy.txt": content, "large.txt": content + content})
	for name, opt := range map[string]chunk.FileOption{"stat": chunk.StatETags(), "content": chunk.ContentETags(5000)} {
		t.Run(name, func(t *testing.T) {
			h := newFiles(t, root, opt, chunk.Precompressed())
			get := func(path, key, value string) *httptest.ResponseRecorder {
				r := httptest.NewRequest("GET", path, nil)
				r.Header.Set(key, value)
				r.Header.Set("Range", "bytes=0-0")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			tag := get("/a.txt", "X", "").Header().Get("Etag")
			packed := get("/a.txt", "Accept-Encoding", "gzip").Header().Get("Etag")
			twin := get("/copy.txt", "X", "").Header().Get("Etag")
			large := get("/large.txt", "X", "").Header().Get("Etag")
			for _, s := range []string{tag, packed, twin, large} {
				if len(s) != 26 || !strings.HasPrefix(s, `"`) || !strings.HasSuffix(s, `"`) {
					t.Errorf("tag %s", s)
				}
			}
			if tag == packed || tag == large || (tag == twin) != (name == "content") {
				t.Errorf("tags %s, packed %s, twin %s, large %s", tag, packed, twin, large)
			}
			for _, c := range []struct {
				key, value string
				status     int
			}{
				{"If-None-Match", tag, 304}, {"If-None-Match", "W/" + tag, 304}, {"If-None-Match", packed, 206},
				{"If-Match", tag, 206}, {"If-Match", "W/" + tag, 412}, {"If-Match", packed, 412},
				{"If-Range", tag, 206}, {"If-Range", "W/" + tag, 200}, {"If-Range", packed, 200},
			} {
				w := get("/a.txt", c.key, c.value)
				if w.Code != c.status {
					t.Errorf("%s: %s: %d, want %d", c.key, c.value, w.Code, c.status)
				}
				if w.Code == 304 && (w.Body.Len() > 0 || w.Header().Get("Etag") != tag || w.Header().Get("Vary") != "Accept-Encoding") {
					t.Errorf("%s: %v with %d bytes", c.key, w.Header(), w.Body.Len())
				}
			}
		})
	}
}
