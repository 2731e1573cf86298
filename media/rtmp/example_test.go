package rtmp_test

import (
	"bytes"
	"fmt"
	"io"
	"net"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
)

// A server accepts one publisher and prints its messages.
func ExampleServerConn() {
	client, conn := net.Pipe()
	go publish(client) // a client like OBS or ffmpeg

	r := millrace.NewReader(conn)
	defer r.Release()
	defer conn.Close()
	c := rtmp.NewServerConn(r, conn, 8<<20)
	defer c.Release()

	request, err := c.Accept()
	if err != nil {
		fmt.Println(err)
		return
	}
	if !request.Publish || request.Query.Get("token") != "secret" {
		_ = c.Refuse("NetStream.Publish.BadName", "the token is wrong")
		return
	}
	fmt.Println("publishes", request.Path)
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return
	}
	for {
		var body millrace.Chain
		m, err := c.Next(&body)
		if err == io.EOF {
			fmt.Println("ended")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v at %d ms, %d bytes in %d piece\n", m.Type, m.Timestamp, body.Len(),
			body.Pieces())
		body.Release()
	}
	// Output:
	// publishes live/camera
	// data at 0 ms, 22 bytes in 1 piece
	// video at 40 ms, 12 bytes in 1 piece
	// audio at 41 ms, 7 bytes in 1 piece
	// ended
}

// A client publishes a picture at a server.
func ExampleClientConn() {
	conn, server := net.Pipe()
	published := make(chan struct{})
	go func() { // the other server
		defer close(published)
		r := millrace.NewReader(server)
		defer r.Release()
		c := rtmp.NewServerConn(r, server, 1<<20)
		defer c.Release()
		if request, err := c.Accept(); err == nil {
			fmt.Println("the server gets", request.Path)
			_ = c.Start()
		}
		var body millrace.Chain
		m, err := c.Next(&body)
		fmt.Printf("%v at %d ms, %d bytes, %v\n", m.Type, m.Timestamp, body.Len(), err)
		body.Release()
		_, _ = c.Next(&body) // answers the end of the stream
	}()

	to, err := rtmp.ParseAddress("rtmp://example.com/live/key")
	if err != nil {
		fmt.Println(err)
		return
	}
	r := millrace.NewReader(conn) // a connection to to.Host
	defer r.Release()
	c := rtmp.NewClientConn(r, conn, 4096)
	defer c.Release()
	if err := c.Publish(to, "example"); err != nil {
		fmt.Println(err)
		return
	}
	var end, out, body, announced millrace.Chain
	c.AppendEnd(&end)
	ended := make(chan error)
	go func() { ended <- c.Wait() }()

	var enc rtmp.Encoder
	defer enc.Release()
	enc.SetChunkSize(&announced, 4096) // c has announced it
	announced.Release()
	body.AppendCopy([]byte("\x17\x01\x00\x00\x00picture"))
	m := rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: rtmp.VideoChunks, Stream: rtmp.Stream,
		Timestamp: 40}
	_ = enc.Append(&out, m, &body)
	out.Merge(&end)
	_, _ = out.WriteTo(conn)
	fmt.Println(<-ended)
	<-published
	conn.Close()
	// Output:
	// the server gets live/key
	// video at 40 ms, 12 bytes, <nil>
	// rtmp: the server answers NetStream.Unpublish.Success: live/key is not published any more
}

// publish is a client that sends its whole session, and reads until the server closes the
// connection.
func publish(conn net.Conn) {
	defer conn.Close()
	closed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(closed)
	}()
	var enc rtmp.Encoder
	defer enc.Release()
	var out millrace.Chain
	defer out.Release()
	send := func(kind rtmp.Type, ms uint32, body []byte) {
		var c millrace.Chain
		c.AppendCopy(body)
		_ = enc.Append(&out, rtmp.Message{Type: kind, ChunkStream: 8, Stream: 1, Timestamp: ms}, &c)
	}
	call := func(values ...any) { send(rtmp.TypeCommand, 0, rtmp.AppendAMF(nil, values...)) }

	out.AppendCopy(append([]byte{3}, make([]byte, 2*1536)...)) // C0, C1 and C2
	call("connect", 1, rtmp.Object{{Name: "app", Value: "live"}})
	call("createStream", 2, nil)
	call("publish", 3, nil, "camera?token=secret", "live")
	send(rtmp.TypeData, 0, rtmp.AppendAMF(nil, "onMetaData", 25))
	send(rtmp.TypeVideo, 40, []byte("\x17\x01\x00\x00\x00picture"))
	send(rtmp.TypeAudio, 41, []byte("\xaf\x01sound"))
	call("deleteStream", 4, nil, 1)
	_, _ = out.WriteTo(conn)
	<-closed
}

// A Decoder returns the body of a message without the chunk headers in between.
func ExampleDecoder() {
	// Chunk stream 6, 40 ms, 144 bytes of video.
	session := "\x06\x00\x00\x28\x00\x00\x90\x09\x01\x00\x00\x00" +
		string(bytes.Repeat([]byte("x"), 128)) +
		// A message of audio between its chunks.
		"\x04\x00\x00\x29\x00\x00\x07\x08\x01\x00\x00\x00\xaf\x01sound" +
		"\xc6" + string(bytes.Repeat([]byte("x"), 16))

	r := millrace.NewReader(bytes.NewReader([]byte(session)))
	defer r.Release()
	d := rtmp.NewDecoder(r, 1<<20)
	defer d.Release()
	for {
		var body millrace.Chain
		m, err := d.Next(&body)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v at %d ms on chunk stream %d, %d bytes\n", m.Type, m.Timestamp, m.ChunkStream,
			body.Len())
		body.Release()
	}
	// Output:
	// audio at 41 ms on chunk stream 4, 7 bytes
	// video at 40 ms on chunk stream 6, 144 bytes
	// EOF
}

// A message is divided into chunks once. All players are sent the same chain.
func ExampleEncoder() {
	var enc rtmp.Encoder
	defer enc.Release()
	var body, chunks millrace.Chain
	defer chunks.Release()

	enc.SetChunkSize(&chunks, 4096) // sent to each player once, at the start
	chunks.Release()

	body.AppendCopy(make([]byte, 6000))
	m := rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: rtmp.VideoChunks, Stream: 1, Timestamp: 40}
	if err := enc.Append(&chunks, m, &body); err != nil {
		fmt.Println(err)
		return
	}
	for player := range 3 {
		var send millrace.Chain
		chunks.CloneTo(&send) // shares; nothing is copied
		n, _ := send.WriteTo(io.Discard)
		fmt.Printf("player %d: %d bytes in %d pieces\n", player, n, chunks.Pieces())
	}
	// Output:
	// player 0: 6013 bytes in 4 pieces
	// player 1: 6013 bytes in 4 pieces
	// player 2: 6013 bytes in 4 pieces
}

func ExampleParseAMF() {
	body := rtmp.AppendAMF(nil, "onMetaData", rtmp.Object{
		{Name: "width", Value: 1280}, {Name: "encoder", Value: "obs"},
		{Name: "stereo", Value: true},
	})
	values, err := rtmp.ParseAMF(body)
	if err != nil {
		fmt.Println(err)
		return
	}
	metadata, _ := values[1].(rtmp.Object)
	fmt.Println(values[0], len(metadata), metadata.Get("width"), metadata.Get("encoder"),
		metadata.Get("height"))
	// Output:
	// onMetaData 3 1280 obs <nil>
}
