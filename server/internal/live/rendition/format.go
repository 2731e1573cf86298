package rendition

// A Format is how the bytes of a rendition are made.
type Format uint8

const (
	FLV Format = iota
	MP4
	RTMP
	Raw // any bytes, as they come

	formats // the number of formats
)

// formatNames has the name and the content type of each format. Only clients that speak RTMP get
// RTMP.
var formatNames = [formats]struct{ name, contentType string }{
	FLV:  {name: "flv", contentType: "video/x-flv"},
	MP4:  {name: "mp4", contentType: "video/mp4"},
	RTMP: {name: "rtmp"},
	Raw:  {name: "raw", contentType: "application/octet-stream"},
}

func (f Format) String() string { return formatNames[f].name }

// ContentType returns the media type for an HTTP response.
func (f Format) ContentType() string { return formatNames[f].contentType }
