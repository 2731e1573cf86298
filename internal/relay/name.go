package relay

import (
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/frame/hls"
	"github.com/millrace-io/millrace/internal/refuse"
	"github.com/millrace-io/millrace/internal/relay/hlslive"
)

// A name has 1 to maxParts parts of nameBytes with a slash between them: a stream, or also an application, a tenant, an
// event.
const (
	maxParts  = 4
	maxName   = 128 // bytes, so that four parts hold a UUID between words, and keys in Redis and lines of logs stay short
	nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// CheckName refuses a name that is malformed, or that could not be watched because its end means something else.
func CheckName(name string) error {
	bad := func(format string, args ...any) error {
		return refuse.New(http.StatusBadRequest, "bad stream name "+format, args...).For(refuse.BadName)
	}
	parts := strings.SplitN(name, "/", maxParts+1)
	if len(name) > maxName || len(parts) > maxParts {
		return bad("%.80q: want %d bytes at most, in up to %d parts", name, maxName, maxParts)
	}
	for _, part := range parts {
		switch {
		case part == "" || strings.Trim(part, nameBytes) != "":
			return bad("%.80q: want A-Z a-z 0-9 . _ -, in up to %d parts with a slash between them", name, maxParts)
		case strings.Trim(part, ".") == "":
			return bad("%q: dots alone mean a directory", name)
		}
	}
	if _, _, ok := cutExt(name); ok {
		return bad("%q: an ending of .flv or .mp4 asks for a format", name)
	}
	// NAME.mp4 would be an init segment.
	if _, object := SplitPath(name + ".mp4"); object != "" {
		return bad("%q: the HLS of a stream has such names", name)
	}
	if isObject(name) {
		return bad("%q: an ending of .m3u8 or .m4s asks for HLS; the HLS of a stream is at NAME/%s", name, hlslive.MasterName)
	}
	return nil
}

// SplitPath splits what follows /live/ in an address: the HLS of a stream is at NAME/OBJECT. Without an object, p is the
// name, which may end with a format. The name is to be checked.
func SplitPath(p string) (name, object string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 || !isObject(p[i+1:]) {
		return p, ""
	}
	return p[:i], p[i+1:]
}

// isObject reports whether a word is what the objects of HLS are called.
func isObject(word string) bool {
	if strings.HasSuffix(word, ".m3u8") || strings.HasSuffix(word, ".m4s") {
		return true
	}
	o, ok := hls.ParseObject(word)
	return ok && o.Kind == hls.KindInit
}

// PublishName returns the name of the stream that is published at NAME or NAME.flv, so that one address serves both to
// publish and to watch. An error is a [refuse.Refusal].
func PublishName(path string) (string, error) {
	name, f, ok := cutExt(path)
	if ok && f != formatFLV {
		name = path
	}
	return name, CheckName(name)
}

// StreamName returns the name of the stream at NAME, NAME.flv, NAME.mp4 or NAME/OBJECT. It may be no name at all.
func StreamName(path string) string {
	name, object := SplitPath(path)
	if object == "" {
		name, _, _ = cutExt(name)
	}
	return name
}
