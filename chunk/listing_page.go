package chunk

import (
	"io"
	"net/url"

	"github.com/millrace-io/millrace"
)

const (
	// pageBlock is what is written of a page at a time.
	pageBlock = 32 << 10

	// pageMargin is room for one entry more: a name has up to 255 bytes, each of which takes 8 in the link and the text.
	pageMargin = 4 << 10
)

const (
	pageHead = "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n"
	pageTail = "</pre>\n"
)

// writePage writes a page with links to the names to w, in pieces. It returns how many bytes w took.
func (n *names) writePage(w io.Writer) (taken int64, err error) {
	block := millrace.DefaultPool.Get(pageBlock)
	defer block.Release()
	page := append(block.Bytes()[:0], pageHead...)
	for _, i := range n.all {
		if page = appendEntry(page, n.at(i)); len(page) > pageBlock-pageMargin {
			written, err := writeAll(w, page)
			taken += int64(written)
			if err != nil {
				return taken, err
			}
			page = page[:0]
		}
	}
	written, err := writeAll(w, append(page, pageTail...))
	return taken + int64(written), err
}

// pageLen returns how long the page is.
func (n *names) pageLen() int64 {
	length, _ := n.writePage(io.Discard)
	return length
}

// appendEntry appends a name's line of the page.
func appendEntry(page, name []byte) []byte {
	page = append(page, `<a href="`...)
	page = appendLink(page, name)
	page = append(page, `">`...)
	page = appendEscaped(page, name)
	return append(page, "</a>\n"...)
}

// appendLink appends a link to the name. As a URL, so that a question mark or number sign is one of the name's, and a colon
// does not end a scheme. Of what has a meaning in HTML, a URL leaves nothing but the ampersand as it is, and that matters
// only where a browser could take it for the start of a character reference.
func appendLink(page, name []byte) []byte {
	if isPlain(name) {
		return append(page, name...)
	}
	link := url.URL{Path: string(name)}
	text := link.String()
	for i, c := range []byte(text) {
		page = append(page, c)
		if c == '&' && i+1 < len(text) && (isAlphanumeric(text[i+1]) || text[i+1] == '#') {
			page = append(page, "amp;"...)
		}
	}
	return page
}

// appendEscaped appends the name as text, with what net/http writes for what has a meaning in HTML.
func appendEscaped(page, name []byte) []byte {
	for _, c := range name {
		switch c {
		case '&':
			page = append(page, "&amp;"...)
		case '<':
			page = append(page, "&lt;"...)
		case '>':
			page = append(page, "&gt;"...)
		case '"':
			page = append(page, "&#34;"...)
		case '\'':
			page = append(page, "&#39;"...)
		default:
			page = append(page, c)
		}
	}
	return page
}

// isPlain reports whether a name is the same in a link, which for most is seen sooner than a URL is made.
func isPlain(name []byte) bool {
	for _, c := range name {
		if !isAlphanumeric(c) && c != '.' && c != '-' && c != '_' && c != '/' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }
