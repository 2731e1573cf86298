package record

import (
	"errors"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/streamname"
)

// Names of files: the time of their beginning, and one of these.
const (
	mediaExt    = ".mp4"
	listExt     = ".m3u8"
	newListExt  = ".m3u8.new" // before it is renamed
	stampFormat = "2006-01-02T15-04-05.000Z"
)

// extensions are the extensions of a recording's files, in the order of their deletion: a playlist
// never outlives its media file.
var extensions = []string{newListExt, listExt, mediaExt}

const (
	fileMode = 0o640
	dirMode  = 0o750
)

// stampTime returns the time that the name of a file says, or zero.
func stampTime(stamp string) time.Time {
	at, err := time.Parse(stampFormat, stamp)
	if err != nil || at.Format(stampFormat) != stamp {
		return time.Time{}
	}
	return at
}

// ErrName is the error of Archive.Stream for a name that checkName refuses.
var ErrName = errors.New(
	"record: no name of a stream, or a part but the first begins like a file of a recording")

// checkName refuses names that streams cannot have, and names with a directory that could hold
// another stream's files.
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
