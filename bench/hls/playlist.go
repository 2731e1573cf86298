package hls

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A mediaPlaylist has the fields of a media playlist that viewers use. Addresses are absolute
// paths.
type mediaPlaylist struct {
	target   time.Duration // value of EXT-X-TARGETDURATION
	canBlock bool
	canSkip  bool
	init     string // address in EXT-X-MAP; may be empty
	segments []object
	parts    []object // parts of complete segments and of the open segment
	next     object   // position after the last listed part; has no address
	ended    bool
}

// An object is a segment or a part.
type object struct {
	msn  uint64
	part int // number of the part in its segment, from 0
	uri  string
	*arrival
}

func (o object) before(p object) bool { return o.msn < p.msn || o.msn == p.msn && o.part < p.part }

var errPlaylist = errors.New("not a playlist")

const playlistHead = "#EXTM3U"

// variant parses the playlist at path. For a multivariant playlist, it returns the address of the
// first media playlist. For a media playlist, it returns path.
func variant(path string, text []byte) (string, error) {
	if !bytes.HasPrefix(text, []byte(playlistHead)) {
		return "", fmt.Errorf("%s is %w", path, errPlaylist)
	}
	stream := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#EXT-X-STREAM-INF:"):
			stream = true
		case stream && line != "" && line[0] != '#':
			return resolve(path, line), nil
		case strings.HasPrefix(line, "#EXT-X-TARGETDURATION:"):
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: no variant: %w", path, errPlaylist)
}

// parseMedia parses the media playlist at path. It sets the arrival field of each part and segment
// from arrivals.
func parseMedia(path string, text []byte, arrivals *arrivals) (*mediaPlaylist, error) {
	if !bytes.HasPrefix(text, []byte(playlistHead)) {
		return nil, fmt.Errorf("%s is %w", path, errPlaylist)
	}
	m := new(mediaPlaylist)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		tag, value, _ := strings.Cut(line, ":")
		var err error
		switch {
		case line == "":
		case line[0] != '#':
			m.segments = append(m.segments, object{m.next.msn, 0, resolve(path, line), nil})
			m.next = object{msn: m.next.msn + 1}
		case tag == "#EXT-X-TARGETDURATION":
			var seconds int
			seconds, err = strconv.Atoi(value)
			m.target = time.Duration(seconds) * time.Second
		case tag == "#EXT-X-SERVER-CONTROL":
			m.canBlock = attribute(value, "CAN-BLOCK-RELOAD") == "YES"
			m.canSkip = attribute(value, "CAN-SKIP-UNTIL") != ""
		case tag == "#EXT-X-MEDIA-SEQUENCE":
			m.next.msn, err = strconv.ParseUint(value, 10, 64)
		case tag == "#EXT-X-SKIP":
			var skipped uint64
			skipped, err = strconv.ParseUint(attribute(value, "SKIPPED-SEGMENTS"), 10, 64)
			m.next.msn += skipped
		case tag == "#EXT-X-MAP":
			m.init = resolve(path, attribute(value, "URI"))
		case tag == "#EXT-X-PART":
			m.parts = append(m.parts, object{m.next.msn, m.next.part,
				resolve(path, attribute(value, "URI")), nil})
			m.next.part++
		case tag == "#EXT-X-ENDLIST":
			m.ended = true
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, line, errPlaylist)
		}
	}
	for _, list := range [][]object{m.parts, m.segments} {
		for i := range list {
			list[i].arrival = arrivals.of(list[i].uri)
		}
	}
	return m, nil
}

// attribute returns an attribute's value without quotes, or "" if list does not have it.
func attribute(list, name string) string {
	for list != "" {
		key, rest, ok := strings.Cut(list, "=")
		if !ok {
			return ""
		}
		var value string
		if quoted, found := strings.CutPrefix(rest, `"`); found {
			value, rest, _ = strings.Cut(quoted, `"`)
			rest = strings.TrimPrefix(rest, ",")
		} else {
			value, rest, _ = strings.Cut(rest, ",")
		}
		if strings.TrimSpace(key) == name {
			return value
		}
		list = rest
	}
	return ""
}

// resolve returns the absolute path, without the host, of the file with the address uri in a
// playlist. The argument path is the path of the playlist.
func resolve(path, uri string) string {
	if _, rest, ok := strings.Cut(uri, "://"); ok {
		_, p, _ := strings.Cut(rest, "/")
		return "/" + p
	}
	if strings.HasPrefix(uri, "/") {
		return uri
	}
	path, _, _ = strings.Cut(path, "?")
	return path[:strings.LastIndexByte(path, '/')+1] + uri
}
