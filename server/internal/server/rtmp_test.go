package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/demo"
	rtmpserver "github.com/millrace-io/millrace/server/internal/rtmp"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// An rtmpFixture is a fixture that also listens for RTMP, and for RTMPS if there is a certificate.
type rtmpFixture struct {
	*fixture
	rtmp, rtmps string // addresses
}

// serveRTMP is serve with listeners for RTMP.
func serveRTMP(t *testing.T, change func(*Config)) *rtmpFixture {
	t.Helper()
	return serveRTMPOn(t, func(_ net.Listener, c *Config) {
		if change != nil {
			change(c)
		}
	})
}

// serveRTMPOn is serveRTMP for a configuration that depends on the main listener.
func serveRTMPOn(t *testing.T, change func(net.Listener, *Config)) *rtmpFixture {
	t.Helper()
	book := &logBook{}
	cfg := Defaults()
	cfg.Latency, cfg.ViewerWait, cfg.PublisherReturn = 5*time.Millisecond, testTimeout, 0
	cfg.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	all := Listeners{Main: listen(t), RTMP: listen(t)}
	change(all.Main, &cfg)
	f := &rtmpFixture{rtmp: all.RTMP.Addr().String()}
	if cfg.TLSCert != "" {
		all.RTMPS = listen(t)
		f.rtmps = all.RTMPS.Addr().String()
	}
	f.fixture = serveOn(t, cfg, book, all)
	return f
}

// client connects to the application over RTMP.
func (f *rtmpFixture) client(app string) *livetest.RTMP {
	f.T.Helper()
	c := livetest.NewRTMP(f.T, dial(f.T, f.rtmp, 0))
	c.Connect(app)
	return c
}

// publisher publishes the sample as the stream name.
func (f *rtmpFixture) publisher(name string) *livetest.RTMP {
	f.T.Helper()
	c := f.client("live")
	if s := c.Publish(name); s.Level != "status" {
		f.T.Fatalf("%+v", s)
	}
	if err := c.SendTags(sampleTags()...); err != nil {
		f.T.Fatal(err)
	}
	return c
}

// sampleTags returns the tags of the sample.
func sampleTags() (tags [][]byte) {
	for p := demo.Sample[13:]; len(p) > 0; {
		n := 15 + int(p[1])<<16 + int(p[2])<<8 + int(p[3])
		tags, p = append(tags, p[:n]), p[n:]
	}
	return tags
}

func TestRTMPAddresses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"--rtmp is":                func(c *Config) { c.RTMP = "1935" },
		"--rtmps is":               func(c *Config) { c.RTMPS = "localhost" },
		"--rtmps needs --tls-cert": func(c *Config) { c.RTMPS = "127.0.0.1:0" },
	} {
		cfg := Defaults()
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// If another program uses the default RTMP address, the server starts without RTMP. If an explicit
// address is in use, the server does not start.
func TestAnAddressOfRTMPIsInUse(t *testing.T) {
	other := listen(t)
	defer other.Close()
	used := other.Addr().String()
	run := func(change func(*Config)) (*logBook, error) {
		book := &logBook{}
		cfg := Defaults()
		cfg.Listen, cfg.RTMP, cfg.Log = "127.0.0.1:0", "", slog.New(slog.NewTextHandler(book, nil))
		change(&cfg)
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return book, s.Run(ctx, nil)
	}
	if !Defaults().RTMPOptional {
		t.Error("the default address must be free")
	}
	book, err := run(func(c *Config) { c.RTMP = used })
	if log := book.String(); err != nil || !strings.Contains(log, "RTMP is off") ||
		!strings.Contains(log, "msg=listening") {
		t.Errorf("%v, want a server without RTMP; log:\n%s", err, log)
	}
	for want, change := range map[string]func(*Config){
		"--rtmp: ":   func(c *Config) { c.RTMP, c.RTMPOptional = used, false },
		"--listen: ": func(c *Config) { c.Listen = used },
		"--admin: ":  func(c *Config) { c.Admin = used },
	} {
		if _, err := run(change); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Publishers and viewers may add the token after the stream's name. The token is not in the log.
func TestRTMPTokens(t *testing.T) {
	const publish, read = "publish-s3cret", "read-s3cret"
	f := serveRTMP(t, func(c *Config) { c.PublishToken, c.ReadToken = publish, read })
	f.publisher("cam?token=" + publish)
	f.published("cam", 1)
	for _, tt := range []struct {
		publish        bool
		app, key, code string
	}{
		{true, "live", "a", "NetStream.Publish.Denied"},
		{true, "live", "a?token=", "NetStream.Publish.Denied"},
		{true, "live", "a?token=" + read, "NetStream.Publish.Denied"},
		{true, "live", "a?token=" + publish + "x", "NetStream.Publish.Denied"},
		{true, "live", "a?token=" + publish, "NetStream.Publish.Start"},
		{true, "live?token=" + publish, "b", "NetStream.Publish.Start"},
		{true, "other", "a?token=" + publish, "NetStream.Publish.Denied"},
		{true, "live", "a.mp4?token=" + publish, "NetStream.Publish.Denied"},
		{true, "live", "a/b?token=" + publish, "NetStream.Publish.Start"},
		{true, "live/c", "d?token=" + publish, "NetStream.Publish.Start"},
		{true, "live", "a/b/c/d/e?token=" + publish, "NetStream.Publish.Denied"},
		{true, "live", "a//b?token=" + publish, "NetStream.Publish.Denied"},
		{true, "live", "?token=" + publish, "NetStream.Publish.Denied"},
		{false, "live", "cam", "NetStream.Play.Failed"},
		{false, "live", "cam?token=wrong-" + read, "NetStream.Play.Failed"},
		{false, "live", "cam?token=" + read, "NetStream.Play.Reset"},
		{false, "live", "cam?token=" + publish, "NetStream.Play.Reset"},
		{false, "other", "cam?token=" + read, "NetStream.Play.StreamNotFound"},
		{false, "", "live/cam?token=" + read, "NetStream.Play.Reset"},
		{false, "live", "cam?bound=200ms&token=" + read, "NetStream.Play.Reset"},
		{false, "live", "cam?bound=2s&token=" + read, "NetStream.Play.Failed"},
	} {
		c := f.client(tt.app)
		var s livetest.Status
		if tt.publish {
			s = c.Publish(tt.key)
		} else {
			c.Play(tt.key)
			s = c.AwaitStatus()
		}
		if s.Code != tt.code || strings.Contains(s.Description, "s3cret") {
			t.Errorf("publish %t, %s/%s: %+v, want %s", tt.publish, tt.app, tt.key, s, tt.code)
		}
		if s.Level == "error" {
			c.AwaitEnd()
		}
		_ = c.Conn.Close()
	}
	f.Logged("publisher refused", "stream=a", "status=401", "NAME?token=TOKEN as the stream key",
		`program="a test"`)
	f.Logged("viewer refused", "stream=cam", "status=403", "wrong token")
	f.Logged("publisher refused", "status=404", "rtmp://HOST/live")
	if strings.Contains(f.Log.String(), "s3cret") {
		t.Error("a token is in the log")
	}
}

// A publicListener pretends that other machines can reach it.
type publicListener struct{ net.Listener }

func (publicListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 1935} }

// A listener that other machines can reach accepts publishers only with the token, even if the main
// listener accepts them without.
func TestPublishingThroughAPublicRTMPListener(t *testing.T) {
	f := serveRTMP(t, nil)
	want := &rtmp.Request{Publish: true, Path: "live/cam", Query: url.Values{}}
	f.Get("/healthz") // waits until it serves
	public := f.newRTMPService(publicListener{}.Addr(), nil)
	if _, err := public.Check(want); err == nil ||
		!strings.Contains(err.Error(), "publishing is off") {
		t.Errorf("%v, want an error that says that publishing is off", err)
	}
	want.Publish = false
	if name, err := public.Check(want); err != nil || name != "cam" {
		t.Errorf("%q, %v, want cam", name, err)
	}
	main := listen(t)
	defer main.Close()
	f.logStart(Listeners{Main: main, RTMP: publicListener{}})
	f.Logged("publishing over RTMP is off", "0.0.0.0:1935")
}

// noSessions is a client's session cache that must not receive session tickets.
type noSessions struct{ t *testing.T }

func (noSessions) Get(string) (*tls.ClientSessionState, bool) { return nil, false }

func (n noSessions) Put(_ string, session *tls.ClientSessionState) {
	if session != nil {
		n.t.Error("a client got a session ticket, which rtmpdump takes for an error")
	}
}

// RTMPS has the certificate of HTTPS, and sends no session tickets.
func TestRTMPS(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	f := serveRTMP(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	text, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	client := func() *livetest.RTMP {
		c := livetest.NewRTMP(t, tls.Client(dial(t, f.rtmps, 0), &tls.Config{
			RootCAs: roots, ServerName: "127.0.0.1", ClientSessionCache: noSessions{t},
		}))
		c.Connect("live")
		return c
	}
	p := client()
	if s := p.Publish("cam"); s.Level != "status" {
		t.Fatalf("publishing was refused: %+v", s)
	}
	// A viewer that joins after the second keyframe does not get the frames before that.
	tags := sampleTags()
	first := 1 + slices.IndexFunc(tags, func(tag []byte) bool {
		return tag[0] == 9 && tag[11]>>4 == 1 && tag[12] == 1 // a keyframe, not a sequence header
	})
	if err := p.SendTags(tags[:first]...); err != nil {
		t.Fatal(err)
	}
	w := client()
	w.Play("cam")
	w.AwaitCode("NetStream.Play.Start")
	if err := p.SendTags(tags[first:]...); err != nil {
		t.Fatal(err)
	}
	for i, want := range tags {
		if !bytes.Equal(w.NextTag(), want) {
			t.Fatalf("tag %d is another one", i)
		}
	}
	// A client that speaks plain RTMP to this address gets no response, and is logged.
	plain := dial(t, f.rtmps, 0)
	_, _ = plain.Write(make([]byte, 1537))
	_, _ = io.Copy(io.Discard, plain)
	f.Logged("RTMP client refused", "use rtmps instead of rtmp")
	f.Logged("RTMP listening", "tls=true")
	f.stop()
	if _, statuses := w.Rest(); statuses[len(statuses)-1].Code != "NetStream.Play.Stop" {
		t.Errorf("%+v, want NetStream.Play.Stop at last", statuses)
	}
}

// If a client sends invalid data, the connection is closed, the log has a clear line, and other
// clients are not affected.
//
// The test is not parallel, because it compares the memory in use by the process.
func TestHostileRTMPClients(t *testing.T) {
	// Silent connections are closed after the timeout, and no others.
	hasty := serveRTMP(t, func(c *Config) { c.HeaderTimeout = 200 * time.Millisecond })
	f := serveRTMP(t, func(c *Config) { c.HeaderTimeout, c.MaxTagBytes = testTimeout, 4<<20 })
	p := f.publisher("good")
	w := f.client("live")
	w.Play("good")
	w.AwaitCode("NetStream.Play.Start")
	// Until the viewer has the last tag, the server holds more and more memory for the publisher.
	for tags := sampleTags(); !bytes.Equal(w.NextTag(), tags[len(tags)-1]); {
	}
	hello := "\x03" + strings.Repeat("\x00", 2*1536)
	for name, tt := range map[string]struct{ sent, says string }{
		"RTMPE":           {"\x06" + strings.Repeat("x", 1536), "RTMPE"},
		"HTTP":            {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "speaks HTTP"},
		"TLS":             {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks TLS"},
		"another version": {"\x63hello", "version 99"},
		"silence":         {"", "i/o timeout"},
		"half of C1":      {"\x03" + strings.Repeat("x", 1000), "i/o timeout"},
		"no command":      {hello, "i/o timeout"},
		"a long command": {hello + "\x03\x00\x00\x00\xff\xff\xff\x14\x00\x00\x00\x00",
			"bytes of one message: 16777215, limit 16384"},
		"no chunk size": {hello + "\x02\x00\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\x00\x00", "set chunk size"},
	} {
		t.Run(name, func(t *testing.T) {
			f := f
			if tt.says == "i/o timeout" {
				f = hasty
			}
			conn := dial(t, f.rtmp, 0)
			_, _ = io.WriteString(conn, tt.sent)
			_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
			if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
				t.Error("the connection stays")
			}
			f.Logged("RTMP client refused", "client="+conn.LocalAddr().String(), tt.says)
		})
	}
	// A publisher that declares a long message and sends it byte by byte costs only the memory of
	// the received bytes.
	t.Run("a declared length", func(t *testing.T) {
		c := f.client("live")
		if s := c.Publish("bad"); s.Level != "status" {
			t.Fatalf("publishing was refused: %+v", s)
		}
		before := millrace.DefaultPool().Stats().InUse
		_, _ = io.WriteString(c.Conn, "\x06\x00\x00\x00\x40\x00\x00\x09\x01\x00\x00\x00")
		for range 200 {
			_, _ = c.Conn.Write([]byte{0x17})
		}
		if after := millrace.DefaultPool().Stats().InUse; after-before > 256<<10 {
			t.Errorf("%d bytes are held for 200", after-before)
		}
		_ = c.Conn.Close()
		f.Logged("publisher ended", "stream=bad", "unexpected EOF")
		c = f.client("live")
		c.Publish("bad")
		_, _ = io.WriteString(c.Conn, "\x06\x00\x00\x00\xff\xff\xff\x09\x01\x00\x00\x00")
		if s := c.AwaitStatus(); s.Level != "error" ||
			!strings.Contains(s.Description, "16777215, limit 4194304 (--max-tag-bytes)") {
			t.Errorf("%+v, want an error that names the size and --max-tag-bytes", s)
		}
	})
	tags := sampleTags()
	if err := p.SendTags(tags...); err != nil {
		t.Fatal(err)
	}
	for want := tags[len(tags)-1]; !bytes.Equal(w.NextTag(), want); {
	}
}

// However many connections are silent, publishers and viewers are not affected, and new ones are
// accepted at once: the oldest silent connection is closed for them.
func TestSilentRTMPClients(t *testing.T) {
	f := serveRTMP(t, func(c *Config) { c.HeaderTimeout = time.Hour })
	p := f.publisher("cam")
	w := f.client("live")
	w.Play("cam")
	w.AwaitCode("NetStream.Play.Start")
	const more = 88
	var silent []net.Conn
	for range rtmpserver.MaxHandshakes + more {
		conn, err := net.Dial("tcp", f.rtmp)
		if err != nil {
			t.Skipf("no connection more: %v", err) // the limit of open files
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	tags := sampleTags()
	if err := p.SendTags(tags...); err != nil {
		t.Fatal(err)
	}
	for range tags {
		w.NextTag()
	}
	f.publisher("other")
	f.published("other", 1)
	for i, conn := range silent[:more] {
		_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
		if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
			t.Fatalf("silent connection %d stays", i)
		}
	}
	f.Logged("level=DEBUG", "RTMP client refused", "closed while silent")
	if strings.Contains(f.Log.String(), "level=WARN") {
		t.Error("silent connections fill the log with warnings")
	}
}
