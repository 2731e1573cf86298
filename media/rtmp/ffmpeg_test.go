package rtmp_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/media/rtmp"
)

// A recorder is a small server that keeps the first client's stream, and plays it to later clients.
type recorder struct {
	t        *testing.T
	ln       net.Listener
	wg       sync.WaitGroup
	requests chan *rtmp.Request
	ended    chan error // end of the publisher's session

	mu       sync.Mutex
	messages []rtmp.Message
	bodies   []millrace.Chain
	chunks   int // number of pieces of all bodies
}

func record(t *testing.T) *recorder {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &recorder{t: t, ln: ln, requests: make(chan *rtmp.Request, 10),
		ended: make(chan error, 10)}
	s.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		s.wg.Wait()
		for i := range s.bodies {
			s.bodies[i].Release()
		}
	})
	return s
}

func (s *recorder) serve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	r := millrace.NewReader(conn)
	defer r.Release()
	c := rtmp.NewServerConn(r, conn, 1<<22)
	defer c.Release()
	request, err := c.Accept()
	if err != nil {
		return // some programs connect once before they use the connection
	}
	s.requests <- request
	if err := c.Start(); err != nil {
		s.t.Error(err)
		return
	}
	if request.Publish {
		s.ended <- s.keep(c)
		return
	}
	if err := s.play(c, conn); err != nil {
		return // the player has closed the connection
	}
	for err == nil { // until the player closes the connection
		var body millrace.Chain
		_, err = c.Next(&body)
		body.Release()
	}
}

func (s *recorder) keep(c *rtmp.ServerConn) error {
	for {
		var body millrace.Chain
		m, err := c.Next(&body)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.messages, s.bodies = append(s.messages, m), append(s.bodies, body)
		s.chunks += body.Pieces()
		s.mu.Unlock()
	}
}

func (s *recorder) play(c *rtmp.ServerConn, w io.Writer) error {
	var enc rtmp.Encoder
	defer enc.Release()
	var out, announce millrace.Chain
	defer out.Release()
	enc.SetChunkSize(&announce, c.ChunkSize()) // c has sent it already
	announce.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.messages {
		var body millrace.Chain
		s.bodies[i].CloneTo(&body)
		m.Stream = rtmp.Stream
		m.ChunkStream = map[rtmp.Type]int{8: rtmp.AudioChunks, 9: rtmp.VideoChunks,
			18: rtmp.DataChunks}[m.Type]
		if m.Type == rtmp.TypeData { // players expect onMetaData alone
			body.Discard(min(body.Len(), len("\x02\x00\x0d@setDataFrame")))
		}
		if err := enc.Append(&out, m, &body); err != nil {
			return err
		}
	}
	c.AppendEnd(&out)
	_, err := out.WriteTo(w)
	return err
}

func (s *recorder) url(more string) string { return "rtmp://" + s.ln.Addr().String() + more }

// run runs a program that must succeed, and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s failed: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

// packets returns a line for each packet of a file or an address: the track and the digest of the
// bytes.
func packets(t *testing.T, args ...string) (list []string) {
	t.Helper()
	args = append([]string{"-v", "error"}, args...)
	for line := range strings.Lines(run(t, "ffmpeg",
		append(args, "-c", "copy", "-f", "framemd5", "-")...)) {
		if f := strings.Split(strings.TrimSpace(line), ","); len(f) == 6 && f[0] != "" &&
			f[0][0] != '#' {
			list = append(list, f[0]+strings.TrimSpace(f[4])+f[5])
		}
	}
	return list
}

// ffmpeg checks the server's digest, publishes in chunks of the announced size, and plays the
// stream.
func TestFFmpegAndRtmpdump(t *testing.T) {
	need.Program(t, "ffmpeg")
	source := filepath.Join(t.TempDir(), "source.flv")
	run(t, "ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-f",
		"lavfi", "-i", "sine", "-t", "2",
		"-c:v", "flv", "-q:v", "1", "-c:a", "adpcm_swf", "-ar", "22050", "-f", "flv", source)
	want := packets(t, "-i", source)
	if len(want) < 60 {
		t.Fatalf("the source has %d packets", len(want))
	}
	s := record(t)
	run(t, "ffmpeg", "-v", "error", "-i", source, "-c", "copy", "-f", "flv",
		s.url("/live/camera?token=secret"))
	request := <-s.requests
	if !request.Publish || request.Path != "live/camera" ||
		request.Query.Get("token") != "secret" || request.Client == "" {
		t.Errorf("ffmpeg wants %+v", request)
	}
	if err := <-s.ended; err != io.EOF {
		t.Errorf("the publisher ends with %v", err)
	}
	s.mu.Lock()
	messages, pieces := len(s.messages), s.chunks
	s.mu.Unlock()
	if messages < len(want) || pieces > 2*messages {
		t.Errorf("%d messages in %d pieces", messages, pieces)
	}

	t.Run("ffmpeg plays", func(t *testing.T) {
		played := packets(t, "-i", s.url("/live/camera"))
		if request := <-s.requests; request.Publish || request.Path != "live/camera" {
			t.Errorf("ffmpeg wants %+v", request)
		}
		samePackets(t, played, want)
	})
	t.Run("rtmpdump plays", func(t *testing.T) {
		program := need.Program(t, "rtmpdump")
		file := filepath.Join(t.TempDir(), "played.flv")
		run(t, program, "-q", "-r", s.url("/live"), "-y", "camera?token=other", "-o", file)
		if request := <-s.requests; request.Publish || request.Path != "live/camera" ||
			request.Query.Get("token") != "other" {
			t.Errorf("rtmpdump wants %+v", request)
		}
		samePackets(t, packets(t, "-i", file), want)
	})
}

func samePackets(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d packets, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("packet %d is %s, want %s", i, got[i], want[i])
		}
	}
}

// ffmpeg shows the reason of a refusal.
func TestFFmpegIsRefused(t *testing.T) {
	program := need.Program(t, "ffmpeg")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		r := millrace.NewReader(conn)
		defer r.Release()
		c := rtmp.NewServerConn(r, conn, 1<<20)
		defer c.Release()
		if _, err := c.Accept(); err != nil {
			t.Error(err)
			return
		}
		if err := c.Refuse("NetStream.Publish.BadName", "the token is wrong"); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "-v", "error", "-f", "lavfi", "-i",
		"testsrc2=size=64x64", "-t", "1", "-c:v", "flv",
		"-f", "flv", "rtmp://"+ln.Addr().String()+"/live/camera").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the token is wrong") {
		t.Errorf("%v, want the server's reason\n%s", err, out)
	}
	_ = ln.Close()
	wg.Wait()
}
