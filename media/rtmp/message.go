package rtmp

import "strconv"

// Type is the type of a message.
type Type uint8

// The message types that this package knows. A Decoder or a ServerConn also returns messages of
// other types.
const (
	TypeSetChunkSize     Type = 1
	TypeAbort            Type = 2
	TypeAcknowledgement  Type = 3
	TypeUserControl      Type = 4
	TypeWindowSize       Type = 5 // size of the acknowledgement window
	TypeSetPeerBandwidth Type = 6
	TypeAudio            Type = 8
	TypeVideo            Type = 9
	TypeDataAMF3         Type = 15 // like TypeData, after a zero byte
	TypeCommandAMF3      Type = 17 // like TypeCommand, after a zero byte
	TypeData             Type = 18 // AMF0 values, such as "onMetaData" and an object
	TypeCommand          Type = 20 // AMF0 values
	TypeAggregate        Type = 22 // several messages, which a Decoder splits
)

var typeNames = map[Type]string{
	TypeSetChunkSize: "set chunk size", TypeAbort: "abort", TypeAcknowledgement: "acknowledgement",
	TypeUserControl: "user control", TypeWindowSize: "window size",
	TypeSetPeerBandwidth: "set peer bandwidth",
	TypeAudio:            "audio", TypeVideo: "video", TypeDataAMF3: "data (AMF3)",
	TypeCommandAMF3: "command (AMF3)",
	TypeData:        "data", TypeCommand: "command", TypeAggregate: "aggregate",
}

func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return "message type " + strconv.Itoa(int(t))
}

// A Message describes an RTMP message without its body.
type Message struct {
	Type        Type
	ChunkStream int    // 2 to 65599
	Stream      uint32 // id of the message stream, little-endian on the wire; 0: the connection
	Timestamp   uint32 // ms; wraps around after 49.7 days
	Size        int    // length of the body, in bytes
}

// Stream is the id of the message stream that is published or played. A connection has only one
// such stream.
const Stream = 1

const (
	// maxBody is the maximum size of a body in bytes. The size field has 24 bits.
	maxBody = 1<<24 - 1

	firstChunkStream = 2     // the values 0 and 1 mean that one or two more bytes have the number
	maxChunkStream   = 65599 // 64 + 65535

	// extended is the largest value of a 24-bit timestamp or timestamp difference. It means that
	// the chunk header contains a 32-bit extended timestamp.
	extended = 1<<24 - 1
)
