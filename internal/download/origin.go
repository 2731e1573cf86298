package download

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxValidator bounds an entity tag that is kept. Those of real servers have fewer than 100 bytes.
	maxValidator = 512

	// maxPlace bounds the address that is kept in the clear. Few are longer, and they are told apart by their hash.
	maxPlace = 2 << 10
)

// unknown is a length that nobody has told.
const unknown = -1

// An origin says of which version of what file bytes are.
type origin struct {
	URL      string `json:"url_sha256"`              // hashed: an address may hold a password, or a signature
	Place    string `json:"url,omitempty"`           // the address without these, or empty if it is too long
	ETag     string `json:"etag,omitempty"`          // strong, or empty
	Modified string `json:"last_modified,omitempty"` // as sent, or empty if it might stand for two versions
	Encoding string `json:"encoding,omitempty"`      // Content-Encoding, if the server insists on one
	Length   int64  `json:"length"`                  // or unknown
}

// originOf returns what an answer with the whole file says about it. It leaves open where it came from.
func originOf(res *http.Response) origin {
	return origin{
		ETag: strongTag(res.Header.Get("Etag")), Modified: soundDate(res.Header),
		Encoding: encoding(res.Header), Length: res.ContentLength,
	}
}

// originAt returns what is known of a file before anything was asked: its address.
func originAt(address string) origin {
	sum := sha256.Sum256([]byte(address))
	return origin{URL: hex.EncodeToString(sum[:]), Place: placeOf(address), Length: unknown}
}

// placeOf returns scheme, host and path: what may be shown of an address, and what stays when its signature is renewed.
func placeOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	place := (&url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}).String()
	if len(place) > maxPlace {
		return ""
	}
	return place
}

// renewable reports whether a download of o may be continued from w, whose address differs from o's in its query:
// whether an answer can show that both have the same file.
func (o *origin) renewable(w origin) bool {
	return o.Place != "" && o.Place == w.Place && o.ETag != "" && o.Length != unknown
}

// validator returns what a server is to compare its version with, or "" if bytes cannot be told from those of another.
func (o *origin) validator() string {
	if o.ETag != "" {
		return o.ETag
	}
	return o.Modified
}

// same reports whether an answer that begins at the first byte is of the same version, for certain.
func (o *origin) same(other origin) bool {
	v := o.validator()
	return v != "" && v == other.validator() && o.Encoding == other.Encoding &&
		(o.Length == other.Length || o.Length == unknown || other.Length == unknown)
}

// agrees reports whether the header of an answer without the whole file names no other version than o. What it does not say
// may be left out.
func (o *origin) agrees(h http.Header) bool {
	if tag := h.Get("Etag"); tag != "" && o.ETag != "" && tag != o.ETag {
		return false
	}
	date := h.Get("Last-Modified")
	return date == "" || o.ETag != "" || date == o.Modified
}

// strongTag returns a tag that promises the same bytes, or "".
func strongTag(tag string) string {
	if len(tag) < 2 || len(tag) > maxValidator || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return ""
	}
	for _, c := range []byte(tag[1 : len(tag)-1]) {
		if c < 0x21 || c == '"' || c == 0x7F {
			return ""
		}
	}
	return tag
}

// soundDate returns the Last-Modified of an answer, unless the file might have been changed again within the same second:
// RFC 9110, section 8.8.2.2.
func soundDate(h http.Header) string {
	text := h.Get("Last-Modified")
	modified, err := http.ParseTime(text)
	if err != nil || len(text) > maxValidator {
		return ""
	}
	sent, err := http.ParseTime(h.Get("Date"))
	if err != nil || sent.Sub(modified) < time.Second {
		return ""
	}
	return text
}

// encoding returns the Content-Encoding, "" if the bytes are the file's own.
func encoding(h http.Header) string {
	e := strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ",")))
	if e == "identity" || len(e) > maxValidator {
		return ""
	}
	return e
}
