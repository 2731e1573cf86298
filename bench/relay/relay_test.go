package relay

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
	"github.com/millrace-io/millrace/internal/load"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

func TestParse(t *testing.T) {
	if c, err := parseCase("50x4"); err != nil || c != (testCase{50, 4}) || c.String() != "50x4" {
		t.Errorf("parseCase = %+v, %v", c, err)
	}
	for _, s := range []string{"", "50", "x", "1x", "x1", "0x1", "1x0", "-1x1", "ax1", "1x1x1"} {
		if c, err := parseCase(s); err == nil {
			t.Errorf("%q is accepted as %+v", s, c)
		}
	}
	all, err := parseContenders(
		"nginx,nginx@65536,node,xiu,share,millrace,millrace@0,millrace-rtmp,millrace-rtmp-flv@0,bare,bare@50ms", "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	want := "nginx-rtmp, chunk_size 4096; nginx-rtmp, chunk_size 65536; node-media-server 4.4.3; xiu 0.14.0; " +
		"Go: shared slices, hijack, net.Buffers; millrace serve, 50ms; millrace serve, 0s; millrace serve, RTMP, 50ms; " +
		"millrace serve, RTMP to HTTP-FLV, 0s; bare reads and writes, 0s; bare reads and writes, 50ms"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for list := range namedLists {
		if _, err := parseContenders(list, ""); err != nil {
			t.Errorf("%s is not accepted: %v", list, err)
		}
	}
	for _, s := range []string{"", "apache", "nginx@1s", "node@1s", "xiu-x", "copy-x", "millrace-x",
		"rtmp,nginx", "bare-x", "millrace@soon"} {
		if _, err := parseContenders(s, ""); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

// TestContendersDeliver starts each relay that needs no registry, and compares a viewer's stream
// with the published one.
func TestContendersDeliver(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs servers")
	}
	all, err := parseContenders(
		"nginx,nginx@65536,copy,share,bare@0,bare@20ms,millrace,millrace@0,millrace-rtmp,millrace-rtmp@0,"+
			"millrace-rtmp-flv,millrace-rtmp-flv@0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			benchtest.Need(t, c.prepare(t.Context()))
			if err := c.check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOtherTagsAreSeen(t *testing.T) {
	sums := func(kinds string) *sums {
		s := new(sums)
		for i := range kinds {
			s.add('a'+kinds[i]%2, []byte{kinds[i]})
		}
		return s
	}
	sent := sums("abcdefghij")
	// In the second, audio and video come in another order.
	for _, got := range []string{"defg", "edgf"} {
		if err := sent.checkPart(sums(got)); err != nil {
			t.Errorf("%v: %v, want the tags that were sent", got, err)
		}
	}
	for _, got := range []string{"ace g i", "aceig", "x", "aa", "ijab"} {
		if sent.checkPart(sums(got)) == nil {
			t.Errorf("%q is taken for a part", got)
		}
	}
}

// TestProgram puts a small load on two relays.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	var out strings.Builder
	args := []string{"-rounds", "1", "-seconds", "2", "-case", "2x3", "-contenders",
		"share,millrace"}
	if err := Program.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n| "); n != 4 ||
		!strings.Contains(out.String(), "CPU, x millrace serve, 50ms") {
		t.Errorf("%d lines, want a head and three rows:\n%s", n, &out)
	}
}

// TestStart lets a viewer of each protocol wait for streams.
func TestStart(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs servers")
	}
	var out strings.Builder
	args := []string{"-rounds", "2", "-contenders", "millrace-rtmp@0,millrace-rtmp-flv@0"}
	if err := Start.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n| "); n != 4 || strings.Contains(out.String(), "| - ") {
		t.Errorf("%d lines, want a head and three rows with figures:\n%s", n, &out)
	}
}

// TestPush sends two streams on, to a server that reads and to one that does not.
func TestPush(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs servers")
	}
	var out strings.Builder
	args := []string{"-rounds", "1", "-seconds", "2", "-case", "2x2"}
	if err := Push.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n| "); n != 6 {
		t.Errorf("%d lines, want a head and five rows:\n%s", n, &out)
	}
}

// A late stream disconnects its first viewers. The next ones get its tags.
type late struct {
	absent int
	tags   []load.Tag
}

func (l *late) String() string { return "late" }

func (l *late) Publish(context.Context, string) (load.Publication, error) {
	return nil, errors.ErrUnsupported
}

func (l *late) Watch(context.Context, string) (load.Subscription, error) {
	if l.absent--; l.absent >= 0 {
		return &lateSubscription{}, nil
	}
	return &lateSubscription{l.tags}, nil
}

type lateSubscription struct{ tags []load.Tag }

func (s *lateSubscription) Next(a *load.Arrival) error {
	if len(s.tags) == 0 {
		return io.EOF
	}
	*a = load.Arrival{Kind: s.tags[0].Kind, Head: s.tags[0].Payload}
	s.tags = s.tags[1:]
	return nil
}

func (s *lateSubscription) Close() error { return nil }

func TestPatientViewersComeAgain(t *testing.T) {
	from := &late{2, []load.Tag{{Kind: load.Video}, {Kind: load.Audio}}}
	s, err := retryProtocol{from}.Watch(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var a load.Arrival
	if err := s.Next(&a); err != nil || a.Kind != load.Video || from.absent != -1 {
		t.Errorf("%+v, %v, after %d attempts", a, err, 2-from.absent)
	}
	if err := s.Next(&a); err != nil || a.Kind != load.Audio {
		t.Errorf("%+v, %v after the first tag", a, err)
	}
	if err := s.Next(&a); err != io.EOF { // only the end of a stream that has begun is regular
		t.Errorf("error %v, want EOF", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (retryProtocol{&late{absent: 1 << 30}}).Watch(ctx, "x"); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestCrossedWatchesElsewhere(t *testing.T) {
	in, out := &late{}, &late{}
	if _, err := (crossProtocol{in, out}).Watch(t.Context(), "x"); err != nil || in.absent != 0 ||
		out.absent != -1 {
		t.Errorf("%v; watched where it publishes %d times, and elsewhere %d times", err, -in.absent,
			-out.absent)
	}
}

// TestHeadersAreNoPicture skips everything before the first video frame.
func TestHeadersAreNoPicture(t *testing.T) {
	synth := load.NewSynth(0, startBitRate, startKeyInterval)
	tags := append(synth.Headers(startBitRate),
		load.Tag{Kind: load.Audio, Payload: []byte{0xaf, 1, 0}})
	if _, err := watchPictures(t.Context(), &late{tags: tags}, "x").next(); err != io.EOF {
		t.Errorf("headers and sound: error %v, want EOF", err)
	}
	for range 3 { // one of them is a video frame
		tags = append(tags, synth.Next(time.Now()))
	}
	if at, err := watchPictures(t.Context(), &late{tags: tags}, "x").next(); err != nil ||
		at.IsZero() {
		t.Errorf("%v, %v, want the time of the first video frame", at, err)
	}
}
