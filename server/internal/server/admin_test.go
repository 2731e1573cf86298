package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
	"github.com/millrace-io/millrace/server/internal/testkit/pagetest"
)

// serveAdmin is serve with listeners for RTMP and for the operator. admin is a client of the
// operator's listener.
func serveAdmin(t *testing.T, change func(*Config)) (f *rtmpFixture, admin livetest.Client) {
	t.Helper()
	book := &logBook{}
	cfg := Defaults()
	cfg.Latency, cfg.ViewerWait = 5*time.Millisecond, testTimeout
	cfg.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&cfg)
	}
	l := Listeners{Main: listen(t), RTMP: listen(t), Admin: listen(t)}
	f = &rtmpFixture{rtmp: l.RTMP.Addr().String()}
	f.fixture = serveOn(t, cfg, book, l)
	admin = f.Client
	admin.Addr = l.Admin.Addr().String()
	return f, admin
}

// inspect returns the operator's report about a stream.
func inspect(t *testing.T, admin livetest.Client, path string) (list []live.ViewerInfo) {
	t.Helper()
	var got struct {
		Stream  live.StreamInfo
		Viewers []live.ViewerInfo
	}
	res := admin.Get("/api/streams/" + path)
	if err := json.Unmarshal([]byte(res.Body), &got); err != nil || res.Status != 200 ||
		got.Stream.Publisher == "" {
		t.Fatalf("inspecting the stream: %d %s: %v, want 200 and a publisher", res.Status, res.Body,
			err)
	}
	return got.Viewers
}

// The operator sees the viewers of a stream, and ends one without affecting the others.
func TestEndViewers(t *testing.T) {
	f, admin := serveAdmin(t, nil)
	p := f.Publisher("tenant/cam")
	p.Send(demo.Sample)
	flv, mp4 := f.Watcher("/live/tenant/cam.flv", 0), f.Watcher("/live/tenant/cam.mp4", 0)
	rtmp := f.client("live")
	rtmp.Play("tenant/cam")
	rtmp.AwaitStatus()
	var viewers []live.ViewerInfo
	eventually(t, "three viewers that have got something", func() bool {
		viewers = inspect(t, admin, "tenant/cam")
		return len(viewers) == 3 && viewers[0].Bytes > 0 && viewers[1].Bytes > 0 &&
			viewers[2].Bytes > 0
	})
	forms := map[string]live.ViewerInfo{}
	for _, v := range viewers {
		forms[v.Form] = v
		if v.Stream != "tenant/cam" || v.Address == "" || v.Path != "writev" || v.Time <= 0 {
			t.Errorf("the viewer is %+v, want stream, address, the path writev and duration", v)
		}
	}
	if len(forms) != 3 || forms["mp4"].ID == 0 {
		t.Fatalf("viewers %+v, want one of each of three forms", viewers)
	}
	if rest := inspect(t, admin, fmt.Sprintf("tenant/cam?after=%d",
		viewers[0].ID)); len(rest) != 2 || rest[0].ID != viewers[1].ID {
		t.Errorf("after the first one: %+v", rest)
	}
	for _, form := range []string{"mp4", "rtmp"} {
		res := admin.Request("DELETE", fmt.Sprintf("/api/viewers/%d", forms[form].ID), "")
		if res.Status != 200 || !strings.Contains(res.Body, `"form":"`+form+`"`) {
			t.Errorf("ending the viewer of %s: %d %s, want 200 and its form", form, res.Status,
				res.Body)
		}
	}
	_, _ = io.Copy(io.Discard, mp4.R) // until the end of the connection
	rtmp.AwaitEnd()
	eventually(t, "one viewer to be left", func() bool {
		return len(inspect(t, admin, "tenant/cam")) == 1
	})
	f.Logged("viewer ended", "form=mp4", "ended by the operator")
	f.Logged("the operator ends a viewer", "stream=tenant/cam")
	if n := f.metric(`millrace_viewers_dropped_total{reason="operator"}`); n != "2" {
		t.Errorf("%s viewers were dropped", n)
	}
	flv.Next(1000)
	p.End()
	for path, want := range map[string]int{
		"/api/viewers/99999": 404, "/api/viewers/x": 400, "/api/viewers/-1": 400,
		"/api/streams/none": 404, "/api/streams/a//b": 404,
	} {
		if res := admin.Request("DELETE", path, ""); res.Status != want {
			t.Errorf("%s: %d %s, want %d", path, res.Status, res.Body, want)
		}
	}
	if res := admin.Get("/api/streams/none?after=x"); res.Status != 400 {
		t.Errorf("after=x: %d, want 400", res.Status)
	}
	if res := f.Request("DELETE", "/api/viewers/1", ""); res.Status != 404 {
		t.Errorf("on the main listener: %d", res.Status)
	}
}

// When the operator ends a stream, it ends for its publisher and its viewers, over each protocol.
// It cannot be published again for some time.
func TestEndStream(t *testing.T) {
	f, admin := serveAdmin(t, nil)
	byRTMP := f.publisher("rtmp")
	byHTTP := f.Publisher("http")
	byHTTP.Send(demo.Sample)
	for _, name := range []string{"rtmp", "http"} {
		w := f.Watcher("/live/"+name+".flv", 0)
		player := f.follow(name, nil)
		player.got(1)
		res := admin.Request("DELETE", "/api/streams/"+name+"?for=1h", "")
		if res.Status != 200 || !strings.Contains(res.Body, `"ended":true,"refused_seconds":3600`) {
			t.Errorf("ending %s: %d %s, want 200 and a refusal of 3600 s", name, res.Status,
				res.Body)
		}
		w.Rest()
		player.end()
	}
	if s := byRTMP.AwaitCode("NetStream.Publish.Denied"); !strings.Contains(s.Description,
		"operator") {
		t.Errorf("over RTMP: %+v", s)
	}
	if res := byHTTP.End(); res.Status != 403 || !strings.Contains(res.Body, "operator") {
		t.Errorf("over HTTP: %d %s", res.Status, res.Body)
	}
	eventually(t, "no streams", func() bool { return len(f.hub.Streams()) == 0 })
	if res := f.Request("POST", "/live/http", string(demo.Sample)); res.Status != 403 ||
		!strings.Contains(res.Body, "again in 1h0m0s") &&
			!strings.Contains(res.Body, "again in 59m") {
		t.Errorf("publishing again: %d %s, want 403 with the time that is left", res.Status,
			res.Body)
	}
	f.Logged("publisher refused", "status=403", "the operator has ended")
	if n := f.metric(`millrace_refused_total{client="publisher",reason="operator"}`); n == "0" {
		t.Error("no refusal is counted")
	}
	// A name is refused in advance, and another one is allowed again.
	if res := admin.Request("DELETE", "/api/streams/later?for=1h", ""); res.Status != 200 ||
		!strings.Contains(res.Body, `"ended":false`) {
		t.Errorf("in advance: %d %s", res.Status, res.Body)
	}
	if res := f.Request("POST", "/live/later", string(demo.Sample)); res.Status != 403 {
		t.Errorf("a name that is refused: %d", res.Status)
	}
	if res := admin.Request("DELETE", "/api/streams/later?for=0s", ""); res.Status != 200 {
		t.Errorf("ending a stream that is not live: %d %s, want 200", res.Status, res.Body)
	}
	if res := f.Request("POST", "/live/later", string(demo.Sample)); res.Status != 200 {
		t.Errorf("a name that is free again: %d %s", res.Status, res.Body)
	}
	for _, bad := range []string{"later?for=soon", "later?for=-1s", "later?for=9000h",
		"a.flv?for=1s"} {
		if res := admin.Request("DELETE", "/api/streams/"+bad, ""); res.Status != 400 {
			t.Errorf("DELETE of %s: %d %s, want 400", bad, res.Status, res.Body)
		}
	}
}

// A stream that waits for its publisher ends at once. So does a stream with a publisher and a
// successor that waits.
func TestEndAWaitingStream(t *testing.T) {
	f, admin := serveAdmin(t, nil)
	p := f.Publisher("cam")
	p.Send(demo.Sample)
	w := f.Watcher("/live/cam.flv", 0)
	p.Cut()
	eventually(t, "the stream to wait", func() bool {
		return f.metric("millrace_streams_waiting") == "1"
	})
	if res := admin.Request("DELETE", "/api/streams/cam?for=0s", ""); res.Status != 200 {
		t.Errorf("ending a stream that waits: %d %s, want 200", res.Status, res.Body)
	}
	w.Rest()

	// Publishers that connect while the stream is ended.
	for range 30 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { f.Request("POST", "/live/cam", string(demo.Sample)) })
		}
		all.Go(func() { admin.Request("DELETE", "/api/streams/cam?for=0s", "") })
		all.Wait()
	}
	admin.Request("DELETE", "/api/streams/cam?for=0s", "")
	if res := f.Request("POST", "/live/cam", string(demo.Sample)); res.Status != 200 {
		t.Errorf("publishing afterwards: %d %s, want 200", res.Status, res.Body)
	}
}

// The commands of docs/admin.md work as documented, in their order.
func TestTheOperatorsCommands(t *testing.T) {
	f, admin := serveAdmin(t, func(c *Config) { c.Demo = true })
	p := f.Publisher("cam")
	p.Send(demo.Sample)
	f.Watcher("/live/cam.flv", 0)
	f.published("demo", 1)
	var viewer string
	eventually(t, "a viewer", func() bool {
		list := inspect(t, admin, "cam")
		if len(list) == 1 {
			viewer = fmt.Sprint("/", list[0].ID)
		}
		return len(list) == 1
	})
	command := regexp.MustCompile(`(?m)^curl (?:-X (\w+) )?"?http://127\.0\.0\.1:8081(/[^"\s]+)"?$`)
	var done []string
	for _, c := range command.FindAllStringSubmatch(userPage(t, "admin.md"), -1) {
		method, path := cmp.Or(c[1], "GET"), c[2]
		want := 200
		if method == "POST" {
			want = 202
		}
		if res := admin.Request(method, strings.Replace(path, "/17", viewer, 1),
			""); res.Status != want {
			t.Errorf("%s: %d %s, want %d", c[0], res.Status, res.Body, want)
		}
		done = append(done, method+" "+path)
	}
	want := "GET /api/streams/demo, DELETE /api/streams/demo?for=10m, DELETE /api/viewers/17, POST /api/drain"
	if got := strings.Join(done, ", "); got != want {
		t.Errorf("the page has the commands %s, want %s", got, want)
	}
	f.Logged("msg=stopped")
}

// The link to the main listener uses the host name under which the browser has reached the
// operator's address, if that is allowed.
func TestTheLinkToTheMainPage(t *testing.T) {
	f := serve(t, nil)
	for _, tt := range []struct {
		main       net.Addr
		host, want string
	}{
		{&net.TCPAddr{IP: net.IPv4zero, Port: 8080}, "cam.example:8081",
			"http://cam.example:8080/"},
		{&net.TCPAddr{IP: net.IPv6unspecified, Port: 8080}, "[::1]:8081", "http://[::1]:8080/"},
		{&net.TCPAddr{IP: net.IPv4zero, Port: 8080}, "cam.example", "http://cam.example:8080/"},
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, "cam.example:8081",
			"http://127.0.0.1:8080/"},
		{&net.UnixAddr{Name: "/run/m"}, "localhost", ""},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/main", nil)
		r.Host = tt.host
		(&adminService{tls: f.cert != nil, refusals: f.refusals}).mainPage(tt.main)(w, r)
		if got := w.Header().Get("Location"); got != tt.want {
			t.Errorf("%v asked by %s: %d %q, want %q", tt.main, tt.host, w.Code, got, tt.want)
		}
	}
}

// Invalid requests of the operator are counted, and logged with the address of the client.
func TestInvalidDecisionsAreRefused(t *testing.T) {
	f, admin := serveAdmin(t, nil)
	for path, reason := range map[string]string{
		"/api/viewers/99999": "not_found", "/api/streams/none?for=soon": "bad_request",
		"/api/streams/a.flv?for=1s": "bad_name",
	} {
		if res := admin.Request("DELETE", path, ""); res.Status/100 != 4 {
			t.Errorf("DELETE %s: %d %s, want 4xx", path, res.Status, res.Body)
		}
		if n := f.metric(`millrace_refused_total{client="reader",reason="` + reason +
			`"}`); n != "1" {
			t.Errorf("%s: %s refusals are counted", path, n)
		}
	}
	f.Logged("reader refused", "no viewer 99999", "client=127.0.0.1")
}

// POST /api/drain ends the server as SIGTERM does.
func TestDrainByTheOperator(t *testing.T) {
	f, admin := serveAdmin(t, func(c *Config) { c.Demo = true })
	f.Watcher("/live/demo.flv", 0)
	if res := admin.Request("POST", "/api/drain", ""); res.Status != 202 {
		t.Errorf("POST /api/drain: %d %s, want 202", res.Status, res.Body)
	}
	f.Logged("msg=stopped")
}

// Decisions are refused to a page of another site, and to clients without a token on a listener
// that other machines can reach.
func TestDecisionsNeedTheToken(t *testing.T) {
	f, admin := serveAdmin(t, nil)
	_, tokened := serveAdmin(t, func(c *Config) { c.AdminToken = "s3cret" })
	for _, tt := range []struct {
		to           livetest.Client
		path, header string
		want         int
	}{
		{admin, "", "X-None: x", 404},
		{admin, "", "Host: evil.example", 403},
		{admin, "", "Origin: https://evil.example", 403},
		{admin, "", "Sec-Fetch-Site: cross-site", 403},
		{tokened, "", "X-None: x", 401},
		{tokened, "?token=wrong", "X-None: x", 403},
		{tokened, "?token=s3cret", "X-None: x", 404},
		{tokened, "?token=s3cret", "Origin: https://evil.example", 403},
		{tokened, "", "Authorization: Bearer s3cret", 404},
	} {
		if res := tt.to.Request("DELETE", "/api/streams/none"+tt.path, "",
			tt.header); res.Status != tt.want {
			t.Errorf("%s %s: %d %s, want %d", tt.path, tt.header, res.Status, res.Body, tt.want)
		}
	}
	if res := tokened.Get("/metrics"); res.Status != 401 {
		t.Errorf("metrics without the token: %d", res.Status)
	}
	f.operator.SetPolicy(&access.Policy{})
	if res := admin.Request("POST", "/api/drain", ""); res.Status != 403 ||
		!strings.Contains(res.Body, "--admin-token") {
		t.Errorf("a listener that other machines reach: %d %s", res.Status, res.Body)
	}
	if res := admin.Get("/metrics"); res.Status != 200 {
		t.Errorf("metrics there: %d", res.Status)
	}
	cfg := f.cfg
	cfg.AdminToken = "other"
	f.Reload(&cfg)
	if res := admin.Request("DELETE", "/api/streams/none?token=other", ""); res.Status != 404 {
		t.Errorf("after a reload: %d", res.Status)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodGet} {
		if res := tokened.Request(method, "/api/viewers/1?token=s3cret", ""); res.Status != 405 {
			t.Errorf("%s with the token in the address: %d, want 405", method, res.Status)
		}
	}
}

// The operator's page in a browser: it ends a viewer and then the stream.
func TestTheOperatorsPage(t *testing.T) {
	ctx, console := pagetest.Browser(t)
	f, admin := serveAdmin(t, func(c *Config) { c.AdminToken = "s3cret" })
	p := f.Publisher("tenant/cam")
	p.Send(demo.Sample)
	f.Watcher("/live/tenant/cam.flv", 0)
	if err := chromedp.Do(ctx, chromedp.Navigate(admin.URL("/?token=s3cret"))); err != nil {
		t.Fatal(err)
	}
	press := func(selector string) {
		t.Helper()
		pagetest.Await(t, ctx, `document.querySelector('`+selector+`') !== null`)
		pagetest.Await(t, ctx, // the first click asks for confirmation
			`((b) => { b.click(); b.click(); return true; })(document.querySelector('`+selector+
				`'))`)
	}
	pagetest.Await(t, ctx,
		`(document.querySelector('#streams .pick')?.click(), document.querySelector('#viewers tr') !== null)`)
	// A refusal stays visible, and the button can be pressed again.
	before := f.operator.Policy()
	f.operator.SetPolicy(&access.Policy{})
	press(`#viewers button`)
	pagetest.Await(t, ctx,
		`document.querySelector('#banner:not([hidden]) p')?.textContent.includes('--admin-token')`)
	if n := f.hub.Viewers(); n != 1 {
		t.Errorf("%d viewers after a refusal", n)
	}
	f.operator.SetPolicy(before)
	press(`#viewers button`)
	eventually(t, "the viewer to be ended", func() bool { return f.hub.Viewers() == 0 })
	pagetest.Await(t, ctx, `document.querySelector('#viewers tr') === null`)
	press(`#streams button[aria-label]`)
	eventually(t, "the stream to be ended", func() bool { return len(f.hub.Streams()) == 0 })
	pagetest.Await(t, ctx, `document.querySelector('#streams tr') === null`)
	pagetest.Await(t, ctx, `document.querySelector('#banner').hidden`)
	for _, line := range console.Lines() {
		if !strings.Contains(line, "status of 403") { // caused by the refusal
			t.Errorf("the console shows %s", line)
		}
	}
}
