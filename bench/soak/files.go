package soak

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
)

// fileSizes has the sizes of the served files. Some are so small that the server does not use
// sendfile. Others are larger than the buffers of a connection.
var fileSizes = map[string]int64{"empty": 0, "one": 1, "small.txt": 3000, "page.html": 70_001,
	"odd.bin": 1<<20 + 7, "large.bin": 6 << 20}

var fileNames = []string{"empty", "one", "small.txt", "page.html", "odd.bin", "large.bin"}

func makeFiles(dir string) error {
	for name, size := range fileSizes {
		b := make([]byte, size)
		fill(b, contentOf(name), 0)
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *cycle) file(url string, _ context.Context, r *rand.Rand) error {
	name := fileNames[r.IntN(len(fileNames))]
	size := fileSizes[name]
	url += "/files/" + name
	c.done.add(fileRequests, 1)
	defer sleep.For(c.working, 10*time.Millisecond) // leaves CPU time for other clients
	switch way := r.IntN(8); {
	case way < 3 && size > 0:
		from := r.Int64N(size)
		to := from + r.Int64N(size-from)
		return c.download(name, url, fmt.Sprintf("bytes=%d-%d", from, to), from, to)
	case way == 3 && size > 0:
		n := 1 + r.Int64N(size)
		return c.download(name, url, fmt.Sprintf("bytes=-%d", n), size-n, size-1)
	case way == 4 && size > 0:
		part := fmt.Sprintf("bytes=%d-", size+1)
		res, err := c.do(http.MethodGet, url, http.StatusRequestedRangeNotSatisfiable, "Range",
			part)
		if err != nil {
			return err
		}
		return res.Body.Close()
	case way == 5:
		return c.fileAgain(url, size)
	case way == 6 && size > 1<<20: // disconnect in the middle
		res, err := c.do(http.MethodGet, url, http.StatusOK)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.CopyN(&content{what: "file " + name, id: contentOf(name)}, res.Body,
			r.Int64N(size/2))
		return err
	}
	return c.download(name, url, "", 0, size-1)
}

// do sends a request without a body. The parameter header alternates the names and the values of
// header fields. If the response does not have the status wantStatus, the error is a statusError.
// The caller must close the response body.
func (c *cycle) do(method, url string, wantStatus int, header ...string) (*http.Response, error) {
	return c.send(method, url, nil, 0, []int{wantStatus}, header...)
}

// send is like do, but sends a body and accepts several statuses. If length is -1, the body has
// chunked encoding.
func (c *cycle) send(
	method, url string, body io.Reader, length int64, status []int, header ...string,
) (*http.Response, error) {
	req, err := http.NewRequestWithContext(c.hard, method, url, body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = length
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.requests.Do(req)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(status, res.StatusCode) {
		defer res.Body.Close()
		return nil, statusOf(method+" "+url, res)
	}
	return res, nil
}

type statusError struct {
	what   string
	status int
	text   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.what, e.status, e.text)
}

func statusOf(what string, res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	return &statusError{what, res.StatusCode, string(text)}
}

// download requests a file and checks that the response has the bytes at the offsets first to last,
// inclusive. If byteRange is not empty, it is sent as the Range header.
func (c *cycle) download(name, url, byteRange string, first, last int64) error {
	status, header := http.StatusOK, []string(nil)
	if byteRange != "" {
		status, header = http.StatusPartialContent, []string{"Range", byteRange}
	}
	res, err := c.do(http.MethodGet, url, status, header...)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	got, want := res.Header.Get("Content-Range"),
		fmt.Sprintf("bytes %d-%d/%d", first, last, fileSizes[name])
	if byteRange != "" && got != want {
		return wrong("file %s: Content-Range is %q, want %q", name, got, want)
	}
	body := &content{what: "file " + name, id: contentOf(name), off: first}
	n, err := io.Copy(body, res.Body)
	c.done.add(checked, n)
	if err == nil && body.off != last+1 {
		err = wrong("file %s ended at byte %d, want %d", name, body.off, last+1)
	}
	return err
}

// fileAgain sends a conditional request for a file that has not changed.
func (c *cycle) fileAgain(url string, size int64) error {
	head, err := c.do(http.MethodHead, url, http.StatusOK)
	if err != nil {
		return err
	}
	_ = head.Body.Close()
	if head.ContentLength != size {
		return wrong("HEAD says %d bytes, want %d", head.ContentLength, size)
	}
	res, err := c.do(http.MethodGet, url, http.StatusNotModified, "If-None-Match",
		head.Header.Get("Etag"))
	if err != nil {
		return err
	}
	return res.Body.Close()
}
