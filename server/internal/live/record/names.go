package record

import (
	"errors"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/streamname"
)

// The name of a file is the time when it begins (stampFormat), followed by one of these extensions.
const (
	mediaExt    = ".mp4"
	listExt     = ".m3u8"
	newListExt  = ".m3u8.new" // of a playlist before it is renamed
	stampFormat = "2006-01-02T15-04-05.000Z"
)

// extensions has the extensions of a recording's files, in the order in which the files are
// deleted. A playlist is deleted before its media file.
var extensions = []string{newListExt, listExt, mediaExt}

const (
	fileMode = 0o640
	dirMode  = 0o750
)

// stampTime returns the time in the name of a file, or the zero time if stamp has another format.
func stampTime(stamp string) time.Time {
	at, err := time.Parse(stampFormat, stamp)
	if err != nil || at.Format(stampFormat) != stamp {
		return time.Time{}
	}
	return at
}

// ErrName is returned by Archive.Stream if no stream can have the given name, or if a directory in
// the name could be confused with another stream's file.
var ErrName = errors.New(
	"record: no name of a stream, or a part but the first begins like a file of a recording")

// checkName returns ErrName if no stream can have the name. It also returns ErrName if a directory
// in the name could be confused with another stream's file.
func checkName(name string) error {
	if streamname.Check(name) != nil {
		return ErrName
	}
	for _, part := range strings.Split(name, "/")[1:] {
		if len(part) >= len(stampFormat) && !stampTime(part[:len(stampFormat)]).IsZero() {
			return ErrName
		}
	}
	return nil
}
