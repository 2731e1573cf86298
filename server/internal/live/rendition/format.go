package rendition

// A Format is a format in which viewers can receive a stream.
type Format uint8

const (
	FLV Format = iota
	MP4
	RTMP
	Raw // any bytes, unchanged

	formats // the number of formats
)

// formatNames has the name and the media type of each format. RTMP has no media type, because it is
// sent only over RTMP connections.
var formatNames = [formats]struct{ name, contentType string }{
	FLV:  {name: "flv", contentType: "video/x-flv"},
	MP4:  {name: "mp4", contentType: "video/mp4"},
	RTMP: {name: "rtmp"},
	Raw:  {name: "raw", contentType: "application/octet-stream"},
}

func (f Format) String() string { return formatNames[f].name }

// ContentType returns the media type for an HTTP response.
func (f Format) ContentType() string { return formatNames[f].contentType }
