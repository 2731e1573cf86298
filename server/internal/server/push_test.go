package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/push"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

const pushKey = "a-secret-key"

// pushTo makes a server send the stream cam to a URL. In the URL, {k} stands for pushKey.
func pushTo(t testing.TB, urls ...string) func(c *Config) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("# keys\n\nk = "+pushKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *Config) {
		for _, url := range urls {
			if err := c.Push.Set("live/cam=" + url); err != nil {
				t.Fatal(err)
			}
		}
		c.PushKeys = keys
	}
}

// pushes returns the server's pushes.
func (f *fixture) pushes() []push.Info { return f.push.Stats().Pushes }

// connected waits until all pushes are connected.
func (f *fixture) connected() {
	f.T.Helper()
	eventually(f.T, "connected pushes", func() bool {
		list := f.pushes()
		return len(list) > 0 && !slices.ContainsFunc(list, func(i push.Info) bool { return !i.Connected })
	})
}

// hidesKey checks that the key is in no line of the log, and in no answer.
func (f *fixture) hidesKey() {
	f.T.Helper()
	list, err := json.Marshal(f.pushes())
	if err != nil {
		f.T.Error(err)
	}
	for name, text := range map[string]string{
		"log": f.Log.String(), "/metrics": f.Get("/metrics").Body,
		"/api/streams": f.Get("/api/streams").Body, "list of pushes": string(list),
	} {
		if strings.Contains(text, pushKey) {
			f.T.Errorf("the %s has the key:\n%s", name, text)
		}
	}
}

// mediaTags returns the audio and video tags of an FLV stream, apart from the sequence headers.
func mediaTags(t testing.TB, stream []byte) (list reel) {
	t.Helper()
	for p := stream[13:]; len(p) > 0; {
		n := 11 + int(p[1])<<16 + int(p[2])<<8 + int(p[3]) + 4
		if len(p) < n {
			t.Fatalf("the stream ends within a tag")
		}
		if tag := p[:n]; !isConfigTag(tag) {
			list = append(list, tag)
		}
		p = p[n:]
	}
	return list
}

// A stream is sent on over RTMP, RTMPS and HTTP. The other server gets all frames from a keyframe
// on, and the end of the stream.
func TestPush(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	to := serveRTMP(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	plain := serveRTMP(t, nil)
	for name, url := range map[string]string{
		"rtmp":  "rtmp://" + plain.rtmp + "/live/{k}",
		"rtmps": "rtmps://" + to.rtmps + "/live/{k}",
		"http":  plain.URL("/live/{k}"),
		"https": "https://" + to.Addr + "/live/{k}",
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *Config) {
				pushTo(t, url)(c)
				c.PushCA = cert
			})
			other := plain
			if strings.HasSuffix(name, "s") {
				other = to
			}
			film := sampleReel(8)
			p := f.Publisher("cam")
			half, most := len(film)/2, len(film)*3/4 // two keyframes are in between
			p.Send(film[:half].bytes(5))
			f.connected()
			p.Send(bytes.Join(film[half:most], nil))
			w := other.watch(pushKey)
			p.Send(bytes.Join(film[most:], nil))
			p.End()
			got, want := mediaTags(t, w.Rest()), film.rest()
			if len(got) == 0 || len(got) > len(want) {
				t.Fatalf("%d frames, want at most %d", len(got), len(want))
			}
			for i, tag := range want[len(want)-len(got):] {
				if !bytes.Equal(tag[11:], got[i][11:]) || tagTime(tag) != tagTime(got[i]) {
					t.Fatalf("frame %d of %d differs", i, len(got))
				}
			}
			if !isKeyTag(got[0]) && !isKeyTag(got[1]) {
				t.Error("the stream does not begin with a keyframe")
			}
			eventually(t, "the end at the other server", func() bool {
				return other.hub.Stats().Streams == 0
			})
			eventually(t, "no pushes", func() bool { return len(f.pushes()) == 0 })
			f.hidesKey()
			path := map[bool]string{false: "path=writev", true: "path=write\n"}[strings.HasSuffix(name, "s")]
			if !strings.Contains(f.Log.String(), path) {
				t.Errorf("no viewer has %s:\n%s", path, f.Log)
			}
		})
	}
}

// watch watches a stream as FLV.
func (f *rtmpFixture) watch(name string) *livetest.Watcher {
	f.T.Helper()
	if f.cfg.TLSCert == "" {
		return f.Watcher("/live/"+name+".flv", 0)
	}
	conn := tls.Client(dial(f.T, f.Addr, 0), &tls.Config{InsecureSkipVerify: true})
	w := f.AskOn(conn, "/live/"+name+".flv")
	w.Begin()
	return w
}

// A stream is sent to the URLs in the hook's answer to its publisher.
func TestPushByHook(t *testing.T) {
	to := serveRTMP(t, nil)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"allow": true, "push": ["rtmp://%s/live/{k}", "ftp://x/`+pushKey+`"]}`,
			to.rtmp)
	}))
	defer program.Close()
	f := serve(t, func(c *Config) {
		pushTo(t)(c)
		c.Hook = program.URL
	})
	p := f.Publisher("cam")
	p.Send(sampleReel(2).bytes(5))
	f.connected()
	f.Logged("cannot be pushed", "want a URL with rtmp")
	p.End()
	eventually(t, "no pushes", func() bool { return len(f.pushes()) == 0 })
	f.hidesKey()
}

// The operator sends a stream on, and ends that.
func TestPushByOperator(t *testing.T) {
	to := serveRTMP(t, nil)
	f, admin := serveAdmin(t, pushTo(t))
	body := `{"stream": "cam", "to": "rtmp://` + to.rtmp + `/live/` + pushKey + `"}`
	if res := admin.Request("POST", "/api/pushes", body); res.Status != http.StatusNotFound {
		t.Errorf("without a stream: %d %s, want 404", res.Status, res.Body)
	}
	p := f.Publisher("cam")
	p.Send(sampleReel(2).bytes(5))
	f.published("cam", 1000)
	for _, bad := range []string{"", "{}", "[" + pushKey, `{"stream": "cam", "to": "x/` + pushKey + `"}`,
		`{"stream": "cam", "to": "` + strings.Repeat("x", 5000) + `"}`} {
		res := admin.Request("POST", "/api/pushes", bad)
		if res.Status != http.StatusBadRequest || strings.Contains(res.Body, pushKey) {
			t.Errorf("%.80q: %d %s, want 400 without the key", bad, res.Status, res.Body)
		}
	}
	if res := admin.Request("POST", "/api/pushes", body); res.Status != http.StatusOK {
		t.Fatalf("%d %s, want 200", res.Status, res.Body)
	}
	f.connected()
	f.hidesKey()
	if text := admin.Get("/api/pushes").Body; !strings.Contains(text, `"connected":true`) ||
		strings.Contains(text, pushKey) {
		t.Errorf("the list is %s", text)
	}
	p.Send(bytes.Join(sampleReel(2).rest().later(2000), nil))
	eventually(t, "the stream at the other server", func() bool { return to.hub.Stats().Streams == 1 })
	id := fmt.Sprint("/api/pushes/", f.pushes()[0].ID)
	if res := admin.Request("DELETE", id, ""); res.Status != http.StatusOK {
		t.Errorf("%d %s, want 200", res.Status, res.Body)
	}
	eventually(t, "no pushes", func() bool { return len(f.pushes()) == 0 })
	eventually(t, "the end at the other server", func() bool { return to.hub.Stats().Streams == 0 })
	if res := admin.Request("DELETE", id, ""); res.Status != http.StatusNotFound {
		t.Errorf("again: %d %s, want 404", res.Status, res.Body)
	}
	p.End()
}

// The operator's page lists where a stream is sent, adds a server, and ends the push.
func TestPushOnTheOperatorsPage(t *testing.T) {
	ctx, _ := pagetest.Browser(t)
	to := serveRTMP(t, nil)
	f, admin := serveAdmin(t, pushTo(t))
	p := f.Publisher("cam")
	p.Send(sampleReel(2).bytes(5))
	f.published("cam", 1000)
	if err := chromedp.Do(ctx, chromedp.Navigate(admin.URL("/"))); err != nil {
		t.Fatal(err)
	}
	const pick = `document.querySelector('#streams .pick')`
	pagetest.Await(t, ctx, pick+` && (`+pick+`.click(), true)`)
	pagetest.Await(t, ctx, `document.querySelector('#pushes-section').checkVisibility()`)
	send := func(url string) {
		pagetest.Await(t, ctx, `(document.querySelector('#push-to').value = '`+url+`',
			document.querySelector('#push').requestSubmit(), true)`)
	}
	send("nonsense")
	pagetest.Await(t, ctx, `document.querySelector('#banner').textContent.includes('want a URL')`)
	send("rtmp://" + to.rtmp + "/live/" + pushKey)
	const row = `document.querySelector('#pushes tr')`
	pagetest.Await(t, ctx, row+`?.textContent.includes('connected')`)
	pagetest.Await(t, ctx, `!document.body.textContent.includes('`+pushKey+`')`)
	const end = row + `.querySelector('button')`
	pagetest.Await(t, ctx, `(`+end+`.click(), `+end+`.click(), true)`)
	pagetest.Await(t, ctx, `!`+row)
	eventually(t, "no pushes", func() bool { return len(f.pushes()) == 0 })
	p.End()
}

// After a connection has ended, the next one begins at a keyframe that the other server has not got
// yet.
func TestPushReconnects(t *testing.T) {
	to := serveRTMP(t, func(c *Config) { c.PublisherReturn = testTimeout })
	f := serve(t, pushTo(t, "rtmp://"+to.rtmp+"/live/{k}"))
	film := sampleReel(8)
	tags := func(i int) reel { return film[i*len(film)/8 : (i+1)*len(film)/8] }
	part := func(i int) []byte { return bytes.Join(tags(i), nil) }
	p := f.Publisher("cam")
	p.Send(append(film[:0].bytes(5), part(0)...))
	f.connected()
	p.Send(part(1))
	w := to.watch(pushKey)
	var mu sync.Mutex
	var stream []byte
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var buf [4096]byte
		for {
			n, err := w.Res.Body.Read(buf[:])
			mu.Lock()
			stream = append(stream, buf[:n]...)
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	for i := int64(1); i <= 2; i++ {
		p.Send(part(int(3*i) - 1))
		last := tags(int(3*i) - 1)[len(tags(int(3*i)-1))-1]
		eventually(t, "the frames at the other server", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return bytes.Contains(stream, last[11:len(last)-4])
		})
		viewers := live.NewOperator(f.hub)
		list, _ := viewers.Viewers("cam", 0, 10)
		if len(list) != 1 {
			t.Fatalf("viewers %+v, want the push", list)
		}
		viewers.EndViewer(list[0].ID)
		eventually(t, "another connection", func() bool {
			list := f.pushes()
			return len(list) == 1 && list[0].Failures == i && list[0].Connected
		})
		p.Send(part(int(3 * i)))
		p.Send(part(int(3*i) + 1))
	}
	p.End()
	eventually(t, "no pushes", func() bool { return len(f.pushes()) == 0 })
	// The other server continues the clock, so that the times differ.
	<-ended
	got, at := mediaTags(t, stream), -1
	video := got.only(videoTag)
	sent := film.rest().only(videoTag)
	for i, tag := range video {
		next := slices.IndexFunc(sent[at+1:], func(s []byte) bool { return bytes.Equal(s[11:], tag[11:]) })
		if next < 0 {
			t.Fatalf("video frame %d of %d comes again, or was not sent", i, len(video))
		}
		at += next + 1
	}
	if at < len(sent)-1 {
		t.Errorf("the last frame is %d of %d", at, len(sent))
	}
}

// A push tries again after the other server has refused it. The server's answer is shown without
// the key.
func TestPushIsRefused(t *testing.T) {
	for _, scheme := range []string{"rtmp", "http"} {
		t.Run(scheme, func(t *testing.T) {
			to := serveRTMP(t, func(c *Config) { c.PublishToken = "x" })
			url := map[string]string{"rtmp": "rtmp://" + to.rtmp + "/live/cam?token={k}",
				"http": to.URL("/live/cam?token={k}")}[scheme]
			f := serve(t, pushTo(t, url))
			p := f.Publisher("cam")
			p.Send(sampleReel(2).bytes(5))
			eventually(t, "two failures", func() bool {
				list := f.pushes()
				return len(list) == 1 && list[0].Failures >= 2 && list[0].Reason != ""
			})
			f.hidesKey()
			if res := p.End(); res.Status != http.StatusOK {
				t.Errorf("the publisher gets %d, want 200", res.Status)
			}
		})
	}
}

// With a limit of one retry, a push gives up after its second failure.
func TestPushGivesUp(t *testing.T) {
	to := serve(t, func(c *Config) { c.PublishToken = "x" })
	route := pushTo(t, to.URL("/live/cam"))
	f := serve(t, func(c *Config) { route(c); c.PushRetries = 1 })
	p := f.Publisher("cam")
	p.Send(sampleReel(2).bytes(5))
	eventually(t, "a push that gave up", func() bool {
		list := f.pushes()
		return len(list) == 1 && list[0].GaveUp
	})
	if got := f.pushes()[0]; got.Failures != 2 || got.Reason == "" || got.Connected {
		t.Errorf("the push is %+v, want two failures and a reason", got)
	}
	p.End()
	eventually(t, "no push after the stream", func() bool { return len(f.pushes()) == 0 })
}

// A server that accepts a connection and never answers does not affect the stream, and does not
// delay the shutdown.
func TestPushToASilentServer(t *testing.T) {
	ln := listen(t)
	f := serve(t, pushTo(t, "rtmp://"+ln.Addr().String()+"/live/{k}"))
	conns := make(chan net.Conn, 1)
	go func() {
		if conn, err := ln.Accept(); err == nil {
			conns <- conn
		}
	}()
	film := sampleReel(8)
	p := f.Publisher("cam")
	p.Send(film.config().bytes(5))
	conn := <-conns
	defer conn.Close()
	w := f.Watcher("/live/cam.flv", 0)
	p.Send(bytes.Join(film.rest(), nil))
	if got := w.Next(100_000); len(got) != 100_000 {
		t.Errorf("a viewer gets %d bytes", len(got))
	}
	began := time.Now()
	f.stop()
	if took := time.Since(began); took > f.cfg.DrainTimeout {
		t.Errorf("the shutdown took %v", took)
	}
}

// A server that answers late gets the stream from a keyframe that is newer than the first one.
func TestPushToALateServer(t *testing.T) {
	to := serveRTMP(t, nil)
	ln := listen(t)
	answer := make(chan struct{})
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		<-answer
		over, err := net.Dial("tcp", to.rtmp)
		if err != nil {
			_ = conn.Close()
			return
		}
		go func() {
			_, _ = io.Copy(conn, over)
			_ = conn.Close()
		}()
		_, _ = io.Copy(over, conn)
		_ = over.(*net.TCPConn).CloseWrite()
	}()
	f := serve(t, pushTo(t, "rtmp://"+ln.Addr().String()+"/live/{k}"))
	film := sampleReel(8)
	p := f.Publisher("cam")
	p.Send(film[:len(film)/2].bytes(5))
	eventually(t, "all frames", func() bool { return f.hub.Stats().FramesIn >= int64(len(film)/2) })
	close(answer)
	f.connected()
	p.Send(bytes.Join(film[len(film)/2:len(film)*3/4], nil))
	w := to.watch(pushKey)
	p.Send(bytes.Join(film[len(film)*3/4:], nil))
	p.End()
	got := mediaTags(t, w.Rest())
	if len(got) == 0 || tagTime(got[0]) < 4000 {
		t.Errorf("the other server gets %d frames, want them from the next keyframe", len(got))
	}
}

// ffmpeg, as an RTMP server, gets the stream.
func TestPushToFFmpeg(t *testing.T) {
	ffmpeg := need.Program(t, "ffmpeg")
	port := nettest.FreePort(t)
	url := fmt.Sprintf("rtmp://127.0.0.1:%d/live/", port)
	cmd := exec.CommandContext(t.Context(), ffmpeg, "-v", "error", "-listen", "1", "-i",
		url+pushKey, "-c", "copy", "-f", "flv", "-")
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := serve(t, pushTo(t, url+"{k}"))
	film := sampleReel(8)
	p := f.Publisher("cam")
	p.Send(film[:len(film)/2].bytes(5))
	f.connected() // after a second attempt, if ffmpeg has started late
	p.Send(bytes.Join(film[len(film)/2:], nil))
	p.End()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &errors)
	}
	got := mediaTags(t, out.Bytes())
	want := film.rest()
	has := func(tag []byte) bool {
		return slices.ContainsFunc(got, func(g []byte) bool { return bytes.Equal(g[11:], tag[11:]) })
	}
	first := slices.IndexFunc(want, has)
	for _, tag := range want[max(0, first):] {
		if !has(tag) {
			t.Errorf("ffmpeg has %d frames, and lacks that of type %d at %d ms\n%s", len(got), tag[0],
				tagTime(tag), &errors)
			break
		}
	}
}

// In a cluster, only the owner sends a stream on, and the next owner continues.
func TestPushInACluster(t *testing.T) {
	to := serveRTMP(t, nil)
	nodes := serveCluster(t, 2, func(c *Config) {
		pushTo(t, "rtmp://"+to.rtmp+"/live/{k}")(c)
		c.PublisherReturn = testTimeout
	})
	film := sampleReel(8)
	for i, f := range nodes {
		p := f.Publisher("cam")
		defer p.Cut()
		p.Send(film.bytes(5))
		nodes[1-i].Watcher("/live/cam.flv", 0) // then the other node has the stream, too
		f.connected()
		p.Send(bytes.Join(film.rest().later(8000), nil))
		eventually(t, "the stream at the other server", func() bool {
			return to.hub.Stats().Streams == 1
		})
		eventually(t, "only the owner sends", func() bool { return len(nodes[1-i].pushes()) == 0 })
	}
}

// nginx with its RTMP module accepts what we send, and knows the metadata.
func TestPushToNginx(t *testing.T) {
	nginx := need.Program(t, "nginx")
	line := need.NginxModule(t, nginx, "rtmp")
	dir := t.TempDir()
	port := nettest.FreePorts(t, 2)
	config := fmt.Sprintf(`%s
daemon off; master_process off; pid %[2]s/pid; error_log stderr info;
events {}
rtmp { server { listen 127.0.0.1:%[3]d; application live { live on; } } }
http { access_log off; server { listen 127.0.0.1:%[4]d; location / { rtmp_stat all; } } }
`, line, dir, port, port+1)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, nginx, "-c", file, "-p", dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	}()
	f := serve(t, pushTo(t, fmt.Sprintf("rtmp://127.0.0.1:%d/live/{k}", port)))
	film := sampleReel(8)
	p := f.Publisher("cam")
	p.Send(film.bytes(5))
	f.connected()
	p.Send(bytes.Join(film.rest().later(8000), nil))
	stat := func() string {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port+1))
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(res.Body)
		return b.String()
	}
	eventually(t, "the stream at nginx", func() bool {
		text := stat()
		return strings.Contains(text, "<publishing/>") && strings.Contains(text, "<width>")
	})
	p.End()
	eventually(t, "its end at nginx", func() bool { return !strings.Contains(stat(), "<publishing/>") })
	f.hidesKey()
}
