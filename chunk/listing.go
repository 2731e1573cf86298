package chunk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// maxNames bounds the memory that a list of a directory takes: 6 MiB with names of 30 bytes. What has more is no place to
// look around in.
const maxNames = 1 << 16

var errTooManyNames = errors.New("chunk: too many names in a directory")

// nameEscapes are what net/http writes.
var nameEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// reference is what a browser could take for a character reference in a link. Of what has a meaning in HTML, a URL leaves
// nothing but the ampersand as it is.
var reference = regexp.MustCompile("&([0-9A-Za-z#])")

// listing returns a page with the names in a directory, in ascending order. Those of directories end with a slash. To read
// a directory is to wait for a disk, and takes a turn; so no more than that many are in memory and not yet a page.
func (c *descriptors) listing(ctx context.Context, name string) ([]byte, error) {
	if err := c.turns.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.turns.release()
	dir, err := c.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(maxNames + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(entries) > maxNames {
		return nil, errTooManyNames
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return listPage(entries), nil
}

func listPage(entries []fs.DirEntry) []byte {
	var page bytes.Buffer
	page.WriteString("<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n")
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		// As a URL, so that a question mark or number sign is one of the name's, and a colon does not end a scheme.
		link := url.URL{Path: name}
		page.WriteString(`<a href="` + reference.ReplaceAllString(link.String(), "&amp;$1") + `">`)
		page.WriteString(nameEscapes.Replace(name) + "</a>\n")
	}
	page.WriteString("</pre>\n")
	return page.Bytes()
}
