package record

import (
	"errors"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/streamname"
)

// The name of a file is the time at which the recording's first fragment arrived (in the format
// stampFormat), followed by one of these extensions.
const (
	mediaExt    = ".mp4"
	listExt     = ".m3u8"
	newListExt  = ".m3u8.new" // a new playlist before it is renamed
	stampFormat = "2006-01-02T15-04-05.000Z"
)

// extensions has the file extensions in the order of deletion: the playlist before its media file.
var extensions = []string{newListExt, listExt, mediaExt}

const (
	fileMode = 0o640
	dirMode  = 0o750
)

// stampTime parses the time in a file name. It returns the zero time for other names.
func stampTime(stamp string) time.Time {
	at, err := time.Parse(stampFormat, stamp)
	if err != nil || at.Format(stampFormat) != stamp {
		return time.Time{}
	}
	return at
}

// ErrName means that a name is not valid for a stream, or that a component after the first begins
// like the file name of a recording. A directory with such a name could be confused with a
// recording.
var ErrName = errors.New(
	"record: no name of a stream, or a part but the first begins like a file of a recording")

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
