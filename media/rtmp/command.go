package rtmp

import "io"

// A client calls the server with commands. A command has a name, a transaction number, an object or
// nil, and arguments. The answer is a command _result with the same transaction number. onStatus
// reports the state of a stream.

// obey executes the command in c.body. It returns io.EOF if the command ends the client's stream.
func (c *ServerConn) obey(stream uint32) error {
	if c.body.Len() == 0 {
		return nil
	}
	values, _ := ParseAMF(c.body.Bytes()) // after an error, use the values before the error
	c.body.Release()
	name, _ := at(values, 0).(string)
	transaction, _ := at(values, 1).(float64)
	object, _ := at(values, 2).(Object)
	switch name {
	case "connect":
		c.connect = object
		c.answerConnect(transaction)
	case "createStream":
		c.result(transaction, nil, Stream)
	case "FCPublish":
		c.fcPublish = true
		c.result(transaction, nil, nil)
	case "getStreamLength":
		c.result(transaction, nil, 0)
	case "publish", "play":
		key, _ := at(values, 3).(string)
		if c.request != nil {
			c.call(Stream, "onStatus", 0, nil,
				status("error", "NetStream.Failed", "a connection carries one stream here"))
			break
		}
		c.request = newRequest(name == "publish", c.connect, key)
		c.streamName, c.stream = streamName(key), stream
	case "pause":
		if paused, ok := at(values, 3).(bool); ok {
			c.setPaused(paused)
		}
	case "seek":
		c.status("NetStream.Seek.Notify", "a live stream has one place to be at")
	case "FCUnpublish", "deleteStream", "closeStream":
		if c.request != nil && c.isOther(name, stream, at(values, 3)) {
			if transaction != 0 {
				c.result(transaction, nil, nil)
			}
			return c.flush()
		}
		return c.endStream(name, transaction)
	default:
		// Other commands, such as releaseStream and _checkbw, have no effect. If the command has a
		// transaction number, the client waits for an answer.
		if transaction != 0 && name != "_result" && name != "_error" && name != "" {
			c.result(transaction, nil, nil)
		}
	}
	return c.flush()
}

func at(values []any, i int) any {
	if i < len(values) {
		return values[i]
	}
	return nil
}

func (c *ServerConn) answerConnect(transaction float64) {
	const dynamic = 2 // type of a bandwidth limit
	c.enc.appendNumber(&c.out, TypeWindowSize, windowSize)
	c.enc.appendControl(&c.out, TypeSetPeerBandwidth,
		[]byte{windowSize >> 24, windowSize >> 16 & 0xff, windowSize >> 8 & 0xff, windowSize & 0xff,
			dynamic})
	c.enc.SetChunkSize(&c.out, c.ChunkSize())
	server := Object{{"fmsVer", "FMS/3,5,7,7009"}, {"capabilities", 31}, {"mode", 1}}
	info := status("status", "NetConnection.Connect.Success", "connected")
	info = append(info, Property{"objectEncoding", 0})
	if c.connect.Get("fourCcList") != nil || c.connect.Get("capsEx") != nil {
		const multitrack, modEx = 2, 4 // bits of capsEx in addition to capsReconnect
		const forward = 4              // a server with this bit passes on frames of all codecs
		anything := Object{{"*", forward}}
		server = append(server, Property{"capsEx", capsReconnect | multitrack | modEx},
			Property{"fourCcList", []any{"*"}},
			Property{"videoFourCcInfoMap", anything}, Property{"audioFourCcInfoMap", anything})
	}
	c.call(0, "_result", transaction, server, info)
}

func (c *ServerConn) setPaused(paused bool) {
	if c.paused = paused; paused {
		c.status("NetStream.Pause.Notify", "paused")
		return
	}
	c.status("NetStream.Unpause.Notify", "continuing with the newest video")
}

// isOther reports whether a command refers to a stream that the client neither publishes nor plays.
// Each command identifies its stream in a different way:
//
//   - The argument of FCUnpublish is the name of the stream.
//   - The argument of deleteStream is the number of the message stream.
//   - closeStream arrives on the message stream that it ends.
func (c *ServerConn) isOther(command string, stream uint32, arg any) bool {
	switch arg := arg.(type) {
	case string:
		return command == "FCUnpublish" && streamName(arg) != c.streamName && arg != ""
	case float64:
		return command == "deleteStream" && arg != Stream && arg != float64(c.stream)
	}
	return command == "closeStream" && stream != 0 && stream != Stream && stream != c.stream
}

// endStream answers a command that ends the client's stream. If c.request is not nil, endStream
// returns io.EOF.
func (c *ServerConn) endStream(name string, transaction float64) error {
	if c.request == nil {
		if transaction != 0 {
			c.result(transaction, nil, nil)
		}
		return c.flush()
	}
	if c.request.Publish {
		if name == "FCUnpublish" {
			c.call(0, "onFCUnpublish", 0, nil,
				status("status", "NetStream.Unpublish.Success", c.request.Path))
		}
		c.status("NetStream.Unpublish.Success", c.request.Path+" is not published any more")
	}
	_ = c.flush() // the client may already have disconnected
	return io.EOF
}

func status(level, code, description string) Object {
	return Object{{"level", level}, {"code", code}, {"description", description}}
}

func (c *ServerConn) status(code, description string) {
	c.call(Stream, "onStatus", 0, nil, status("status", code, description))
}

func (c *ServerConn) result(transaction float64, values ...any) {
	c.call(0, "_result", transaction, values...)
}

func (c *ServerConn) data(values ...any) {
	m := Message{Type: TypeData, ChunkStream: statusChunks, Stream: Stream}
	c.enc.appendBytes(&c.out, m, AppendAMF(nil, values...))
}
