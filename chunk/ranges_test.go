package chunk_test

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRangesParts reads answers with several parts as a client does.
func TestRangesParts(t *testing.T) {
	root, _ := makeTree(t, tree)
	url, client := serve(t, newFiles(t, root), false, false)
	for ranges, want := range map[string][]span{
		"bytes=0-9,100000-199999":             {{0, 10}, {100000, 200000}},
		"bytes=200000-,0-0,5-5":               {{200000, 262144}, {0, 1}, {5, 6}},
		"bytes=-1,-2,-3":                      {{262143, 262144}, {262142, 262144}, {262141, 262144}},
		"bytes=0-,":                           {{0, 262144}},
		"bytes=0-0,999999-":                   {{0, 1}},
		"bytes=" + strings.Repeat("7-8,", 64): times(span{7, 9}, 64),
	} {
		r, err := http.NewRequest("GET", url+"/large.bin", nil)
		must(t, err)
		r.Header.Set("Range", ranges)
		res, err := client.Do(r)
		must(t, err)
		got, err := parts(res)
		must(t, err)
		if len(want) == 1 {
			got = map[int]string{0: got[0]}
		}
		for i, s := range want {
			if got[i] != string(letters[s.from:s.to]) {
				t.Errorf("%.50s: part %d has %d bytes and not those of %v", ranges, i, len(got[i]), s)
			}
		}
		if res.StatusCode != 206 || len(got) != len(want) {
			t.Errorf("%.50s: %d with %d parts, want %d", ranges, res.StatusCode, len(got), len(want))
		}
	}
}

// A span is the bytes [from, to).
type span struct{ from, to int }

func times(s span, n int) (list []span) {
	for range n {
		list = append(list, s)
	}
	return list
}

// parts returns the parts of an answer, by number.
func parts(res *http.Response) (map[int]string, error) {
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	_, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return map[int]string{0: string(body)}, err
	}
	list := make(map[int]string)
	for r := multipart.NewReader(strings.NewReader(string(body)), params["boundary"]); ; {
		p, err := r.NextPart()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		list[len(list)] = string(b)
	}
}

// TestRangesAmplification: no Range makes an answer larger than the file and the heads of 64 parts.
func TestRangesAmplification(t *testing.T) {
	root, _ := makeTree(t, tree)
	h := newFiles(t, root)
	for _, c := range []struct {
		part          string
		times, status int
	}{
		{"0-,", 2, 200}, {"0-,", 64, 200}, {"0-,", 100_000, 200}, {"0-0,", 64, 206}, {"0-0,", 65, 200}, {"-262143,", 2, 200},
		{"9999999-,", 100_000, 416}, {",", 900_000, 200}, {"1-0,", 100_000, 416},
	} {
		r := httptest.NewRequest("GET", "/large.bin", nil)
		r.Header.Set("Range", "bytes="+strings.Repeat(c.part, c.times))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || w.Body.Len() > len(letters)+64*256 {
			t.Errorf("%d times %s: %d with %d bytes, want %d", c.times, c.part, w.Code, w.Body.Len(), c.status)
		}
	}
}

// FuzzRange compares what a Range gets of a file of any size with what http.ServeContent gives.
func FuzzRange(f *testing.F) {
	for i, s := range rangeSeeds {
		f.Add(s, uint16(i*7))
	}
	root, _ := makeTree(f, map[string]string{})
	f.Fuzz(func(t *testing.T, ranges string, size uint16) {
		size %= 4096
		if rangesDifferent("", ranges) || size == 0 {
			return // see TestFileServerHeldBackDifferences
		}
		must(t, root.WriteFile("f.txt", letters[:size], 0o644))
		must(t, root.Chtimes("f.txt", modified, modified))
		h := newFiles(t, root)
		r := httptest.NewRequest("GET", "/f.txt", nil)
		r.Header.Set("Range", ranges)
		compare(t, ranges, "GET", answer(t, h, r), answer(t, reference(root, ""), r))
	})
}
