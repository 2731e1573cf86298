// Package streamname checks the names of streams, and extracts them from paths.
//
// Below /live/, a stream is at NAME, NAME.flv and NAME.mp4. Its HLS playlists and segments and its
// poster, which are called objects, are at NAME/OBJECT. A page with a player is at NAME/. A path
// never belongs to two streams.
package streamname

import (
	"net/http"
	"path"
	"strings"

	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A name has 1 to maxParts parts, separated by slashes. Each part consists of the characters in
// nameBytes. The last part names the stream. The parts before it may name an application, a tenant
// or an event.
const (
	maxParts = 4
	// maxName is the maximum length of a stream name in bytes. It is enough for a name of several
	// words and a UUID, for example. The limit keeps Redis keys and log lines short.
	maxName   = 128
	nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
)

// Path is the prefix of the HTTP paths of streams.
const Path = "/live/"

// Poster is the name of the object with the newest keyframe of a stream.
const Poster = "poster.mp4"

// Player is the object of the path NAME/.
const Player = "/"

// Extensions that select the format of a stream.
const (
	FLV = ".flv"
	MP4 = ".mp4"
)

// Match reports whether name matches pattern. The pattern has the syntax of path.Match, but its
// wildcards also match slashes. If the pattern is malformed, Match returns false.
func Match(pattern, name string) bool {
	const slash = ":" // not allowed in a name
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", slash),
		strings.ReplaceAll(name, "/", slash))
	return ok
}

// Check returns a [refuse.Refusal] if name is malformed. It also refuses the names that select a
// format or an HLS object of another stream, such as cam.mp4 or cam/index.m3u8. A stream with such
// a name could not be watched.
func Check(name string) error {
	bad := func(format string, args ...any) error {
		return refuse.New(http.StatusBadRequest, "bad stream name "+format,
			args...).For(refuse.BadName)
	}
	if len(name) > maxName || strings.Count(name, "/") >= maxParts {
		return bad("%.80q: want %d bytes at most, in up to %d parts", name, maxName, maxParts)
	}
	for part := range strings.SplitSeq(name, "/") {
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
	// Viewers request a stream as MP4 at the path name+MP4. Refuse the name if the HLS init segment
	// or the poster of another stream has the same path.
	if _, object := Split(name + MP4); object != "" {
		return bad("%q: the HLS or the poster of a stream has such a name", name)
	}
	if isObject(name) {
		return bad("%q: an ending of .m3u8 or .m4s asks for HLS; the HLS of a stream is at NAME/index.m3u8", name)
	}
	return nil
}

// CutExt separates path into a name and the extension that selects a format. If path does not have
// a known extension, ext is "".
func CutExt(path string) (name, ext string) {
	for _, ext := range []string{FLV, MP4} {
		if name, ok := strings.CutSuffix(path, ext); ok {
			return name, ext
		}
	}
	return path, ""
}

// Split separates path, a path below /live/, into the name of a stream and the name of an HLS
// object. If path contains no object, object is "" and name is the whole path, which may have an
// extension. Split does not check the name.
func Split(path string) (name, object string) {
	if name, ok := strings.CutSuffix(path, "/"); ok {
		return name, Player
	}
	i := strings.LastIndexByte(path, '/')
	if i < 0 || !isObject(path[i+1:]) {
		return path, ""
	}
	return path[:i], path[i+1:]
}

func isObject(word string) bool {
	if word == Poster || strings.HasSuffix(word, ".m3u8") || strings.HasSuffix(word, ".m4s") {
		return true
	}
	o, ok := hls.ParseObject(word)
	return ok && o.Kind == hls.KindInit
}

// Published returns the name of the stream to publish at path. The path is NAME or NAME.flv, and
// the stream is called NAME in both cases. The error is a [refuse.Refusal].
func Published(path string) (string, error) {
	name, ext := CutExt(path)
	if ext == MP4 {
		name = path
	}
	return name, Check(name)
}

// Of returns the name of the stream at path, which has the form NAME, NAME.flv, NAME.mp4 or
// NAME/OBJECT. It does not check the name.
func Of(path string) string {
	name, object := Split(path)
	if object == "" {
		name, _ = CutExt(name)
	}
	return name
}

// InPath returns the name of the stream in an HTTP path, or "" if the path is not below /live/. It
// does not check the name.
func InPath(path string) string {
	below, ok := strings.CutPrefix(path, Path)
	if !ok {
		return ""
	}
	return Of(below)
}
