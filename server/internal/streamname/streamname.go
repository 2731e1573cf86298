// Package streamname checks the names of streams, and finds them in addresses.
//
// Below /live/, a stream is at NAME, NAME.flv and NAME.mp4, and its HLS at NAME/OBJECT. No address
// belongs to two streams.
package streamname

import (
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A name has 1 to maxParts parts of nameBytes, separated by slashes: a stream, and before it
// perhaps an application, a tenant, an event.
const (
	maxParts = 4
	// bytes: four parts hold a UUID between words, and keys in Redis and lines of logs stay short.
	maxName   = 128
	nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// Path is where streams are in addresses of HTTP.
const Path = "/live/"

// The extensions that ask for a format.
const (
	FLV = ".flv"
	MP4 = ".mp4"
)

// Check refuses a malformed name, and a name that could not be watched because its end has another
// meaning. The error is a [refuse.Refusal].
func Check(name string) error {
	bad := func(format string, args ...any) error {
		return refuse.New(http.StatusBadRequest, "bad stream name "+format,
			args...).For(refuse.BadName)
	}
	parts := strings.SplitN(name, "/", maxParts+1)
	if len(name) > maxName || len(parts) > maxParts {
		return bad("%.80q: want %d bytes at most, in up to %d parts", name, maxName, maxParts)
	}
	for _, part := range parts {
		switch {
		case part == "" || strings.Trim(part, nameBytes) != "":
			return bad("%.80q: want A-Z a-z 0-9 . _ -, in up to %d parts with a slash between them",
				name, maxParts)
		case strings.Trim(part, ".") == "":
			return bad("%q: dots alone mean a directory", name)
		}
	}
	if _, ext := CutExt(name); ext != "" {
		return bad("%q: an ending of .flv or .mp4 asks for a format", name)
	}
	// NAME.mp4 would be an init segment.
	if _, object := Split(name + MP4); object != "" {
		return bad("%q: the HLS of a stream has such names", name)
	}
	if isObject(name) {
		return bad("%q: an ending of .m3u8 or .m4s asks for HLS; the HLS of a stream is at NAME/index.m3u8", name)
	}
	return nil
}

// CutExt returns path without an extension that asks for a format, and the extension, or "".
func CutExt(path string) (name, ext string) {
	for _, ext := range []string{FLV, MP4} {
		if name, ok := strings.CutSuffix(path, ext); ok {
			return name, ext
		}
	}
	return path, ""
}

// Split splits the path below /live/ of an object of HLS. If path has no object, name is all of it,
// and may end with an extension. The name is not checked.
func Split(path string) (name, object string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || !isObject(path[i+1:]) {
		return path, ""
	}
	return path[:i], path[i+1:]
}

// isObject reports whether word has the form of an object of HLS.
func isObject(word string) bool {
	if strings.HasSuffix(word, ".m3u8") || strings.HasSuffix(word, ".m4s") {
		return true
	}
	o, ok := hls.ParseObject(word)
	return ok && o.Kind == hls.KindInit
}

// Published returns the name of the stream that is published at NAME or NAME.flv, so that one
// address serves both to publish and to watch. The error is a [refuse.Refusal].
func Published(path string) (string, error) {
	name, ext := CutExt(path)
	if ext == MP4 {
		name = path
	}
	return name, Check(name)
}

// Of returns the name of the stream at NAME, NAME.flv, NAME.mp4 or NAME/OBJECT. The name is not
// checked.
func Of(path string) string {
	name, object := Split(path)
	if object == "" {
		name, _ = CutExt(name)
	}
	return name
}

// InPath returns the name of the stream that a path of HTTP is about, or "". The name is not
// checked.
func InPath(path string) string {
	below, ok := strings.CutPrefix(path, Path)
	if !ok {
		return ""
	}
	return Of(below)
}
