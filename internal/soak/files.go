package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// A file is one that is served. Its content follows from its name.
type file struct {
	name string
	size int64
}

func (f file) content() uint64 { return keyNumber(f.name) }

// files are of the sizes at which something changes: nothing, what is copied rather than sent by the kernel, one that is
// no multiple of anything, and one that does not fit a connection's buffers.
var files = []file{
	{"empty", 0}, {"one", 1}, {"small.txt", 3000}, {"page.html", 70_001}, {"odd.bin", 1<<20 + 7}, {"large.bin", 6 << 20},
}

// makeFiles writes the files under dir.
func makeFiles(dir string) error {
	for _, f := range files {
		b := make([]byte, f.size)
		fill(b, f.content(), 0)
		if err := os.WriteFile(filepath.Join(dir, f.name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

const (
	// fileClients is how many download from a server at a time.
	fileClients = 3
	// fileRest is how long each of them rests after a request, so that it leaves the processors to others.
	fileRest = 10 * time.Millisecond
	// slowPiece is how much a slow client reads before it rests.
	slowPiece = 256 << 10
)

// download asks for one file after the other, in every way.
func (s *shift) download(number int) {
	r := s.random(kindFile, number)
	s.work("downloading", func(url string) error {
		f := files[r.IntN(len(files))]
		err := s.request(f, r, url+"/files/"+f.name)
		pause(s.working, fileRest)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		return nil
	})
}

func (s *shift) request(f file, r *rand.Rand, url string) error {
	switch way := r.IntN(10); {
	case way < 3 && f.size > 0:
		from := r.Int64N(f.size)
		to := from + r.Int64N(f.size-from)
		return s.getPart(f, url, fmt.Sprintf("bytes=%d-%d", from, to), from, to)
	case way == 3 && f.size > 0:
		n := 1 + r.Int64N(f.size)
		return s.getPart(f, url, fmt.Sprintf("bytes=-%d", n), f.size-n, f.size-1)
	case way == 4 && f.size > 0:
		return s.getPart(f, url, fmt.Sprintf("bytes=%d-", f.size+1), -1, -1)
	case way == 5:
		return s.getAgain(f, url)
	case way == 6 && f.size > slowPiece:
		return s.abort(f, r.Int64N(f.size/2), url)
	case way == 7:
		return s.getWhole(f, url, func(b io.Reader) io.Reader { return &slowReader{r: b, until: s.working} })
	}
	return s.getWhole(f, url, func(b io.Reader) io.Reader { return b })
}

// A slowReader rests now and then.
type slowReader struct {
	r     io.Reader
	until context.Context // there is no rest any more
	taken int
}

func (s *slowReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.taken += n; s.taken > slowPiece {
		s.taken = 0
		pause(s.until, fileRest)
	}
	return n, err
}

// do sends a request that has no body, and returns an answer with a status that is wanted.
func (s *shift) do(ctx context.Context, method, url string, status int, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.fast.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != status {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		return nil, &statusError{method, res.StatusCode, string(text)}
	}
	return res, nil
}

func (s *shift) getWhole(f file, url string, through func(io.Reader) io.Reader) error {
	res, err := s.do(s.hard, http.MethodGet, url, http.StatusOK)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return s.compare(f, through(res.Body), 0, f.size-1)
}

// getPart asks for a part, which is from the byte at from to that at to, or cannot be had if from is negative.
func (s *shift) getPart(f file, url, part string, from, to int64) error {
	status, header := http.StatusPartialContent, fmt.Sprintf("bytes %d-%d/%d", from, to, f.size)
	if from < 0 {
		status, header = http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("bytes */%d", f.size)
	}
	res, err := s.do(s.hard, http.MethodGet, url, status, "Range", part)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Range"); got != header {
		return wrong("Content-Range is %q, want %q", got, header)
	}
	if from < 0 {
		_, err := io.Copy(io.Discard, res.Body)
		s.tally.Files.Add(1)
		return err
	}
	return s.compare(f, res.Body, from, to)
}

// compare reads a body, which must be the bytes of f from one offset to another.
func (s *shift) compare(f file, body io.Reader, from, to int64) error {
	v := &contentVerifier{what: "file " + f.name, id: f.content(), off: from}
	n, err := io.Copy(struct{ io.Writer }{v}, body)
	s.tally.Checked.Add(n)
	if err != nil {
		return err
	}
	if v.off != to+1 {
		return wrong("file %s ended at byte %d, want %d", f.name, v.off, to+1)
	}
	s.tally.Files.Add(1)
	return nil
}

// getAgain asks for a file that the client has.
func (s *shift) getAgain(f file, url string) error {
	head, err := s.do(s.hard, http.MethodHead, url, http.StatusOK)
	if err != nil {
		return err
	}
	_ = head.Body.Close()
	if head.ContentLength != f.size {
		return wrong("HEAD says %d bytes, want %d", head.ContentLength, f.size)
	}
	res, err := s.do(s.hard, http.MethodGet, url, http.StatusNotModified, "If-None-Match", head.Header.Get("Etag"))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	s.tally.Unmodified.Add(1)
	var b bytes.Buffer
	if n, err := io.Copy(&b, io.LimitReader(res.Body, maxAnswer)); err != nil || n > 0 {
		return errors.Join(err, wrong("304 with a body of %d bytes", n))
	}
	return nil
}

// abort hangs up in the middle of a download.
func (s *shift) abort(f file, after int64, url string) error {
	ctx, cancel := context.WithCancel(s.hard)
	defer cancel()
	res, err := s.do(ctx, http.MethodGet, url, http.StatusOK)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	v := &contentVerifier{what: "file " + f.name, id: f.content()}
	n, err := io.CopyN(v, res.Body, after)
	s.tally.Checked.Add(n)
	s.tally.Aborted.Add(1)
	return err
}
