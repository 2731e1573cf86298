package websocket_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/websocket"
)

// A client is the client's side of a connection, which a test writes frame by frame.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

// echo starts a server that sends each message back, and returns a client of it. The channel
// receives the error that ended the server's connection.
func echo(t *testing.T, opts *websocket.Options) (*client, <-chan error) {
	t.Helper()
	done := make(chan error, 1)
	c := serve(t, func(conn *websocket.Conn) { done <- echoAll(conn) }, opts)
	return c, done
}

func echoAll(conn *websocket.Conn) error {
	for {
		var c millrace.Chain
		typ, err := conn.Next(&c)
		if err != nil {
			if c.Len() != 0 {
				return fmt.Errorf("Next left %d bytes with %w", c.Len(), err)
			}
			if _, again := conn.Next(&c); again != err {
				return fmt.Errorf("Next returned %v after %w", again, err)
			}
			return err
		}
		if err := conn.Write(typ, &c); err != nil {
			return err
		}
	}
}

// serve starts a server that accepts a connection and passes it to handle.
func serve(t *testing.T, handle func(*websocket.Conn), opts *websocket.Options) *client {
	t.Helper()
	var handlers sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer handlers.Done()
		conn, err := websocket.Accept(w, r, opts)
		if err != nil {
			t.Errorf("Accept: %v", err)
			return
		}
		handle(conn)
	}))
	handlers.Add(1) // for the one request that the client sends
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		handlers.Wait()
		server.Close()
	})
	conn.SetDeadline(time.Now().Add(time.Minute))
	c := &client{t, conn, bufio.NewReader(conn)}
	c.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols ||
		resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" { // RFC 6455, 1.3
		t.Fatalf("the handshake failed: %v, %v", resp, err)
	}
	return c
}

func (c *client) send(bytes string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, bytes); err != nil {
		c.t.Error(err)
	}
}

// expect reads a frame and compares its first byte and payload.
func (c *client) expect(first byte, payload string) {
	c.t.Helper()
	got, p, err := readFrame(c.r)
	if err != nil || got != first || p != payload {
		c.t.Errorf("frame %#x with %d bytes %.40q, %v, want %#x with %d bytes %.40q", got, len(p), p,
			err, first, len(payload), payload)
	}
}

// expectClose reads a close frame with the given code, and the end of the connection.
func (c *client) expectClose(code websocket.Code) {
	c.t.Helper()
	first, p, err := readFrame(c.r)
	if err != nil || first != 0x88 || len(p) < 2 || binary.BigEndian.Uint16([]byte(p)) != uint16(code) {
		c.t.Errorf("frame %#x %q, %v, want a close frame with code %d", first, p, err, code)
	}
	if b, err := c.r.ReadByte(); err == nil {
		c.t.Errorf("the server sends %#x after its close frame", b)
	}
}

// readFrame reads an unmasked frame.
func readFrame(r io.Reader) (first byte, payload string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, "", err
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		_, err = io.ReadFull(r, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, err = io.ReadFull(r, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if err != nil {
		return 0, "", err
	}
	p := make([]byte, n)
	_, err = io.ReadFull(r, p)
	return head[0], string(p), err
}

var mask = []byte{0x37, 0xfa, 0x21, 0x3d}

// masked returns a frame of a client.
func masked(first byte, payload string) string {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	b = append(b, mask...)
	for i := range len(payload) {
		b = append(b, payload[i]^mask[i%4])
	}
	return string(b)
}

func closeFrame(code int, reason string) string {
	return masked(0x88, string(binary.BigEndian.AppendUint16(nil, uint16(code)))+reason)
}

// The first bytes of frames.
const (
	text, binaryData, ping, pong = 0x81, 0x82, 0x89, 0x8a
	textStart, binaryStart       = 0x01, 0x02
	continuation, last           = 0x00, 0x80
)

// TestMessages is modelled on the cases of the Autobahn test suite in sections 1 (lengths), 2
// (pings), 5 (fragments) and 9 (long messages).
func TestMessages(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 33, 125, 126, 127, 128, 4095, 4096, 4097, 65535, 65536,
		1 << 20} {
		for _, first := range []byte{text, binaryData} {
			c, _ := echo(t, nil)
			payload := strings.Repeat("*~", n/2+1)[:n]
			go c.send(masked(first, payload)) // the server cannot send more than the buffers hold
			c.expect(first, payload)
			if n < 70_000 {
				for _, b := range []byte(masked(first, payload)) { // 1.1.6: octet by octet
					c.send(string([]byte{b}))
					if n > 300 {
						break
					}
				}
				if n > 300 {
					c.send(masked(first, payload)[1:])
				}
				c.expect(first, payload)
			}
			c.send(closeFrame(1000, ""))
			c.expectClose(websocket.NormalClosure)
		}
	}
}

func TestPings(t *testing.T) {
	c, _ := echo(t, nil)
	long := strings.Repeat("\xfe", 125)
	c.send(masked(ping, "") + masked(ping, "Hello") + masked(pong, "unasked") + masked(ping, long))
	c.expect(pong, "")
	c.expect(pong, "Hello")
	c.expect(pong, long)
	for i := range 10 { // 2.11
		c.send(masked(ping, fmt.Sprint(i)))
	}
	for i := range 10 {
		c.expect(pong, fmt.Sprint(i))
	}
}

func TestFragments(t *testing.T) {
	c, _ := echo(t, nil)
	c.send(masked(textStart, "fra") + masked(continuation, "") + masked(ping, "in between") +
		masked(continuation, "gmen") + masked(last, "t1"))
	c.expect(pong, "in between")
	c.expect(text, "fragment1")
	c.send(masked(textStart, "") + masked(continuation, "") + masked(last, ""))
	c.expect(text, "")
	want := ""
	for i := range 500 {
		first := byte(continuation)
		if i == 0 {
			first = binaryStart
		}
		c.send(masked(first, strings.Repeat(fmt.Sprint(i%10), i)))
		want += strings.Repeat(fmt.Sprint(i%10), i)
	}
	c.send(masked(last, ""))
	c.expect(binaryData, want)
}

// TestSmallFragmentsShareMemory checks that a message of many small fragments takes little more
// memory than its length.
func TestSmallFragmentsShareMemory(t *testing.T) {
	pool := millrace.NewPool()
	used := make(chan int64, 1)
	c := serve(t, func(conn *websocket.Conn) {
		var m millrace.Chain
		conn.Next(&m)
		used <- pool.Stats().HighWater
		m.Release()
		conn.Close(websocket.NormalClosure, "")
		conn.Next(&m)
	}, &websocket.Options{Pool: pool})
	var b strings.Builder
	b.WriteString(masked(textStart, "a"))
	for range 50_000 {
		b.WriteString(masked(continuation, "a"))
	}
	b.WriteString(masked(last, ""))
	c.send(b.String())
	if got := <-used; got > 400_000 {
		t.Errorf("%d bytes of memory for a message of 50,000", got)
	}
	c.expect(0x88, "\x03\xe8")
}

// TestFaults sends faulty frames. Each of them closes the connection with a code. The cases are
// modelled on sections 3 to 7 of the Autobahn test suite.
func TestFaults(t *testing.T) {
	invalid := "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited" // 6.3.1
	for name, test := range map[string]struct {
		send string
		want websocket.Code
	}{
		"RSV1":                      {masked(text|0x40, "a"), websocket.ProtocolError},
		"RSV2":                      {masked(text|0x20, "a"), websocket.ProtocolError},
		"RSV3 of a ping":            {masked(ping|0x10, "a"), websocket.ProtocolError},
		"opcode 3":                  {masked(0x83, "a"), websocket.ProtocolError},
		"opcode 7":                  {masked(0x87, ""), websocket.ProtocolError},
		"opcode 11":                 {masked(0x8b, ""), websocket.ProtocolError},
		"opcode 15":                 {masked(0x8f, "a"), websocket.ProtocolError},
		"no mask":                   {"\x81\x01a......", websocket.ProtocolError},
		"long ping":                 {masked(ping, strings.Repeat("a", 126)), websocket.ProtocolError},
		"fragmented ping":           {masked(ping&^last, "a"), websocket.ProtocolError},
		"fragmented close":          {masked(0x08, ""), websocket.ProtocolError},
		"continuation only":         {masked(last, "a"), websocket.ProtocolError},
		"continuation only, open":   {masked(continuation, "a"), websocket.ProtocolError},
		"text within a message":     {masked(textStart, "a") + masked(text, "b"), websocket.ProtocolError},
		"binary within a message":   {masked(textStart, "a") + masked(binaryStart, "b"), websocket.ProtocolError},
		"invalid text":              {masked(text, invalid), websocket.InvalidPayload},
		"invalid text, fragments":   {masked(textStart, invalid[:12]) + masked(last, invalid[12:]), websocket.InvalidPayload},
		"text with half a rune":     {masked(text, "abc\xf0\x9f\x98"), websocket.InvalidPayload},
		"half a rune, fragments":    {masked(textStart, "abc\xf0") + masked(last, "\x9f"), websocket.InvalidPayload},
		"overlong":                  {masked(text, "\xc0\xaf"), websocket.InvalidPayload},
		"above U+10FFFF":            {masked(text, "\xf4\x90\x80\x80"), websocket.InvalidPayload},
		"close of 1 byte":           {masked(0x88, "\x03"), websocket.ProtocolError},
		"close reason not UTF-8":    {closeFrame(1000, invalid), websocket.InvalidPayload},
		"close with code 0":         {closeFrame(0, ""), websocket.ProtocolError},
		"close with code 999":       {closeFrame(999, ""), websocket.ProtocolError},
		"close with code 1004":      {closeFrame(1004, ""), websocket.ProtocolError},
		"close with code 1005":      {closeFrame(1005, ""), websocket.ProtocolError},
		"close with code 1006":      {closeFrame(1006, ""), websocket.ProtocolError},
		"close with code 1015":      {closeFrame(1015, ""), websocket.ProtocolError},
		"close with code 2999":      {closeFrame(2999, ""), websocket.ProtocolError},
		"close with code 5000":      {closeFrame(5000, ""), websocket.ProtocolError},
		"close":                     {closeFrame(1000, "bye"), websocket.NormalClosure},
		"close, no code":            {masked(0x88, ""), websocket.NormalClosure},
		"close with code 1001":      {closeFrame(1001, ""), websocket.GoingAway},
		"close with code 1011":      {closeFrame(1011, ""), websocket.InternalError},
		"close with code 3000":      {closeFrame(3000, strings.Repeat("a", 123)), 3000},
		"close with code 4999":      {closeFrame(4999, ""), 4999},
		"a message above the limit": {masked(text, strings.Repeat("a", 1001)), websocket.MessageTooBig},
		"fragments above the limit": {masked(textStart, strings.Repeat("a", 600)) +
			masked(last, strings.Repeat("a", 600)), websocket.MessageTooBig},
		"a length of 2^63": {"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00....", websocket.MessageTooBig},
		"a length of 2^64": {"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff....", websocket.MessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			c, done := echo(t, &websocket.Options{MaxMessage: 1000})
			c.send(test.send + masked(text, "ignored"))
			c.expectClose(test.want)
			c.conn.Close()
			var closing *websocket.CloseError
			var limit *websocket.LimitError
			switch err := <-done; {
			case test.want == websocket.MessageTooBig:
				if !errors.As(err, &limit) || limit.Limit != 1000 {
					t.Errorf("Next = %v, want a LimitError", err)
				}
			case !errors.As(err, &closing):
				t.Errorf("Next = %v, want a CloseError", err)
			case closing.Code != test.want && closing.Code != websocket.NoStatus:
				t.Errorf("Next = %v, want code %d", err, test.want)
			}
		})
	}
}

// TestValidText sends text with characters that are divided between fragments and writes.
func TestValidText(t *testing.T) {
	c, _ := echo(t, nil)
	const all = "κόσμε \U0010ffff \ud7ff \ue000 日本語 ascii"
	c.send(masked(text, all))
	c.expect(text, all)
	for cut := range len(all) {
		c.send(masked(textStart, all[:cut]) + masked(last, all[cut:]))
		c.expect(text, all)
	}
	first := byte(textStart)
	for i := range len(all) {
		c.send(masked(first, all[i:i+1]))
		first = continuation
	}
	c.send(masked(last, ""))
	c.expect(text, all)
	if strings.ToValidUTF8(all, "") != all {
		t.Error("the test's own text is invalid")
	}
}

func TestBrokenConnections(t *testing.T) {
	for name, test := range map[string]struct {
		send string
		want error
	}{
		"no frame":        {"", io.EOF},
		"half a header":   {masked(text, "Hello")[:3], io.ErrUnexpectedEOF},
		"half a payload":  {masked(text, "Hello")[:8], io.ErrUnexpectedEOF},
		"half a message":  {masked(textStart, "Hello"), io.EOF},
		"half a ping":     {masked(ping, "Hello")[:8], io.ErrUnexpectedEOF},
		"half an unknown": {"\xff", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			c, done := echo(t, nil)
			c.send(test.send)
			c.conn.(*net.TCPConn).CloseWrite()
			if err := <-done; err != test.want {
				t.Errorf("Next = %v, want %v", err, test.want)
			}
			if p, err := io.ReadAll(c.r); len(p) > 0 || err != nil {
				t.Errorf("the server sent %q, %v", p, err)
			}
		})
	}
}

// TestTimeouts checks that a silent client, a slow message and a client that does not read end the
// connection.
func TestTimeouts(t *testing.T) {
	const short = 50 * time.Millisecond
	for name, test := range map[string]struct {
		opts websocket.Options
		send string
	}{
		"idle":           {websocket.Options{IdleTimeout: short}, ""},
		"half a header":  {websocket.Options{MessageTimeout: short}, masked(text, "Hello")[:3]},
		"half a payload": {websocket.Options{MessageTimeout: short}, masked(text, "Hello")[:8]},
		"half a message": {websocket.Options{MessageTimeout: short}, masked(textStart, "Hello") + masked(ping, "")},
	} {
		t.Run(name, func(t *testing.T) {
			c, done := echo(t, &test.opts)
			c.send(test.send)
			var timeout net.Error
			if err := <-done; !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Errorf("Next = %v, want a timeout", err)
			}
		})
	}
	t.Run("slow reader", func(t *testing.T) {
		done := make(chan error, 1)
		serve(t, func(conn *websocket.Conn) {
			var err error
			for err == nil {
				var c millrace.Chain
				c.AppendCopy(make([]byte, 1<<20))
				err = conn.Write(websocket.Binary, &c)
			}
			done <- err
			if err := conn.Ping(); err != net.ErrClosed {
				t.Errorf("a write after a failed one = %v", err)
			}
			conn.NetConn().Close()
			conn.Next(new(millrace.Chain))
		}, &websocket.Options{WriteTimeout: short})
		var timeout net.Error
		if err := <-done; !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("Write = %v, want a timeout", err)
		}
	})
}

// TestServerCloses checks that Close sends a frame, ends writes, and ends Next when the client has
// answered or does not answer.
func TestServerCloses(t *testing.T) {
	for _, answers := range []bool{true, false} {
		done := make(chan error, 1)
		c := serve(t, func(conn *websocket.Conn) {
			go func() {
				if err := conn.Close(websocket.GoingAway, strings.Repeat("é", 100)); err != nil {
					t.Error(err)
				}
				if err := conn.Close(websocket.GoingAway, ""); err != net.ErrClosed {
					t.Errorf("a second Close = %v", err)
				}
				var m millrace.Chain
				m.AppendCopy([]byte("late"))
				if err := conn.Write(websocket.Text, &m); err != net.ErrClosed || m.Len() != 0 {
					t.Errorf("Write after Close = %v, %d bytes are left", err, m.Len())
				}
			}()
			_, err := conn.Next(new(millrace.Chain))
			done <- err
		}, &websocket.Options{MessageTimeout: 200 * time.Millisecond})
		c.expect(0x88, "\x03\xe9"+strings.Repeat("é", 61))
		if answers {
			c.send(masked(ping, "ignored") + closeFrame(1001, ""))
		}
		var closing *websocket.CloseError
		err := <-done
		if errors.As(err, &closing) != answers {
			t.Errorf("answers %t: Next = %v", answers, err)
		}
		if p, err := io.ReadAll(c.r); len(p) > 0 || err != nil {
			t.Errorf("the server sent %q, %v", p, err)
		}
	}
}

// TestWriteFrames sends the same encoded messages to several clients.
func TestWriteFrames(t *testing.T) {
	var frames, payload millrace.Chain
	defer frames.Release()
	for _, m := range []string{"one", strings.Repeat("x", 200), strings.Repeat("y", 70_000)} {
		payload.AppendCopy([]byte(m))
		websocket.AppendMessage(&frames, websocket.Binary, &payload)
	}
	for range 3 {
		var share millrace.Chain
		frames.CloneTo(&share)
		c := serve(t, func(conn *websocket.Conn) {
			if err := conn.WriteFrames(&share); err != nil {
				t.Error(err)
			}
			conn.Next(new(millrace.Chain))
		}, nil)
		c.expect(binaryData, "one")
		c.expect(binaryData, strings.Repeat("x", 200))
		c.expect(binaryData, strings.Repeat("y", 70_000))
		c.send(closeFrame(1000, ""))
		c.expectClose(websocket.NormalClosure)
	}
}

// A fakeConn is a connection that reads from a source and stores what is written.
type fakeConn struct {
	net.Conn
	src io.Reader
	out bytes.Buffer
}

func (c *fakeConn) Read(p []byte) (int, error)         { return c.src.Read(p) }
func (c *fakeConn) Write(p []byte) (int, error)        { return c.out.Write(p) }
func (c *fakeConn) Close() error                       { return nil }
func (c *fakeConn) SetReadDeadline(time.Time) error    { return nil }
func (c *fakeConn) SetWriteDeadline(t time.Time) error { return nil }

// FuzzNext checks that any bytes have the same messages, answers and error, whether they arrive at
// once or one by one.
func FuzzNext(f *testing.F) {
	f.Add([]byte(masked(text, "Hello") + masked(textStart, "a") + masked(ping, "b") + masked(last, "c")))
	f.Add([]byte(closeFrame(1000, "bye")))
	f.Add([]byte(masked(binaryData, strings.Repeat("x", 300))))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<12 {
			return
		}
		read := func(src io.Reader) string {
			fake := &fakeConn{src: src}
			conn := websocket.NewTestConn(fake, &websocket.Options{MaxMessage: 400})
			result := ""
			for {
				var c millrace.Chain
				typ, err := conn.Next(&c)
				result += fmt.Sprintf("%v %q %v\n", typ, c.Bytes(), err)
				c.Release()
				if err != nil {
					return result + fmt.Sprintf("%q", fake.out.Bytes())
				}
			}
		}
		one, two := read(bytes.NewReader(in)), read(iotest.OneByteReader(bytes.NewReader(in)))
		if one != two {
			t.Errorf("at once:\n%s\none by one:\n%s", one, two)
		}
	})
}

func TestAppendMessagePanics(t *testing.T) {
	for name, f := range map[string]func(c *millrace.Chain){
		"a Chain to itself":    func(c *millrace.Chain) { websocket.AppendMessage(c, websocket.Text, c) },
		"the type of a close":  func(c *millrace.Chain) { websocket.AppendMessage(new(millrace.Chain), 8, c) },
		"a type from the wire": func(c *millrace.Chain) { websocket.AppendMessage(new(millrace.Chain), 0, c) },
	} {
		for _, size := range []int{5, 5000} {
			var c millrace.Chain
			c.AppendCopy(make([]byte, size))
			if !panics(func() { f(&c) }) || c.Len() != size {
				t.Errorf("%s, %d bytes: no panic, or %d bytes are left", name, size, c.Len())
			}
			c.Release()
		}
	}
}

func panics(f func()) (p bool) {
	defer func() { p = recover() != nil }()
	f()
	return false
}
