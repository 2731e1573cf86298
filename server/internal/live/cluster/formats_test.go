package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live"
)

// Nodes of two versions form a cluster during an update. The golden files have the data that a
// version stores in Redis and sends over HTTP, all for one ownership. This version understands each
// of them, also with fields that only a later version knows, and writes the same data as the newest
// of them.
//
// A version with other messages adds golden files with the next number, such as owner-2.json,
// copied from its Redis and its connections. The old files are not changed. The tests read all of
// them, and compare the current output with the newest one.
var formatOwner = Owner{Node: "http://10.0.0.5:8080", Epoch: 1767323045678901}

// formatName is the name of that stream.
const formatName = "tenant/cam"

// goldenFiles returns the contents of the golden files whose names match pattern, newest last.
func goldenFiles(t *testing.T, pattern string) (texts []string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("testdata", pattern)) // sorted by name
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts == nil {
		t.Fatalf("no golden file is called %s", pattern)
	}
	return texts
}

// The hash of a stream's owner, in the form that HGETALL returns. Its lease ends in the year 2255.
func TestOwnerFormat(t *testing.T) {
	d := openServer(t, redistest.Shared(t))
	key := d.prefix + "{tenant/cam}owner"
	var newest map[string]string
	for _, text := range goldenFiles(t, "owner-*.json") {
		newest = make(map[string]string)
		if err := json.Unmarshal([]byte(text), &newest); err != nil {
			t.Fatal(err)
		}
		later := maps.Clone(newest)
		later["later"] = "a field that this version does not know"
		for _, fields := range []map[string]string{newest, later} {
			d.rdb.Del(t.Context(), key)
			if err := d.rdb.HSet(t.Context(), key, fields).Err(); err != nil {
				t.Fatal(err)
			}
			if o, err := d.Lookup(t.Context(), formatName); err != nil || o != formatOwner {
				t.Errorf("%v: looked up: %v, %v", fields, o, err)
			}
			claim := Claim{Stream: formatName, Node: nodeB, Takeover: never}
			var taken *TakenError
			if _, err := d.Claim(t.Context(), claim); !errors.As(err, &taken) ||
				taken.Owner != formatOwner {
				t.Errorf("%v: claiming a stream of another node: %v, want ErrTaken with its owner",
					fields, err)
			}
			owned := Ownership{Stream: formatName, Epoch: formatOwner.Epoch, Away: true}
			if errs, err := d.Renew(t.Context(), formatOwner.Node, owned); err != nil ||
				errs[0] != nil {
				t.Errorf("%v: renewing: %v, %v, want success", fields, errs, err)
			}
			if epoch, err := d.Claim(t.Context(), claim); err != nil || epoch <= formatOwner.Epoch {
				t.Errorf("%v: claimed while the publisher is away: %d, %v", fields, epoch, err)
			}
		}
	}

	number := regexp.MustCompile(`^[0-9]{13}$`)
	written := func(want ...string) map[string]string {
		t.Helper()
		got := d.rdb.HGetAll(t.Context(), key).Val()
		if fields := slices.Sorted(maps.Keys(got)); !slices.Equal(fields,
			slices.Sorted(slices.Values(want))) {
			t.Errorf("it is written as %v", got)
		}
		if !number.MatchString(got["until"]) || !number.MatchString(got["heard"]) {
			t.Errorf("its times are written as %v", got)
		}
		return got
	}
	all := slices.Collect(maps.Keys(newest))
	d.rdb.Del(t.Context(), key)
	epoch, err := d.Claim(t.Context(), Claim{Stream: formatName, Node: nodeA, ID: "an ID",
		Takeover: never})
	if err != nil {
		t.Fatal(err)
	}
	if got := written(all...); got["epoch"] != strconv.FormatUint(epoch, 10) ||
		got["node"] != nodeA || got["away"] != "0" || got["claim"] != "an ID" {
		t.Errorf("a claim is written as %v", got)
	}
	owned := Ownership{Stream: formatName, Epoch: epoch, Silent: time.Second, Away: true}
	for _, tt := range []struct {
		giveUp bool
		fields []string
	}{
		{false, all},
		{true, slices.DeleteFunc(slices.Clone(all),
			func(field string) bool { return field == "node" })},
	} {
		owned.GiveUp = tt.giveUp
		if errs, err := d.Renew(t.Context(), nodeA, owned); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		got := written(tt.fields...)
		until, _ := strconv.Atoi(got["until"])
		heard, _ := strconv.Atoi(got["heard"])
		if got["epoch"] != strconv.FormatUint(epoch, 10) || got["away"] != "1" ||
			int64(until-heard) != (d.lease+time.Second).Milliseconds() {
			t.Errorf("a renewal, or the end, is written as %v", got)
		}
	}
}

// The published messages, one per line: a node is alive, it owns a stream, and it has released it.
func TestEventFormat(t *testing.T) {
	want := []Event{
		{Owner: Owner{Node: formatOwner.Node}},
		{Stream: formatName, Owner: formatOwner},
		{Stream: formatName, Owner: Owner{Node: formatOwner.Node}},
	}
	var newest []string
	for _, text := range goldenFiles(t, "events-*.txt") {
		newest = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(newest) != len(want) {
			t.Fatalf("%d messages, want as many as formats: %q", len(newest), newest)
		}
		for i, line := range newest {
			if e, ok := parseEvent(line); !ok || e != want[i] {
				t.Errorf("%q is understood as %v, %v", line, e, ok)
			}
			if e, ok := parseEvent(line + " later words"); want[i].Stream != "" &&
				(!ok || e != want[i]) {
				t.Errorf("%q, with words of a later version, is understood as %v, %v", line, e, ok)
			}
		}
	}
	for i, e := range want {
		if e.String() != newest[i] {
			t.Errorf("%v is published as %q", e, e)
		}
	}
	// The scripts write events themselves.
	d := openServer(t, redistest.Shared(t))
	sub := d.rdb.Subscribe(t.Context(), d.prefix+"events")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, giveUp := range []bool{false, true} {
		owned := Ownership{Stream: formatName, Epoch: formatOwner.Epoch, GiveUp: giveUp}
		if errs, err := d.Renew(t.Context(), formatOwner.Node, owned); err != nil ||
			errs[0] != nil {
			t.Fatal(errs, err)
		}
		var got []string // in any order
		for range 2 {
			m, err := sub.ReceiveMessage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Payload)
		}
		about := newest[1]
		if giveUp {
			about = newest[2]
		}
		if !slices.Contains(got, newest[0]) || !slices.Contains(got, about) {
			t.Errorf("published %q, want the newest format of both events", got)
		}
	}
}

// An exchange between two nodes as sent, except for line ends: a request without a challenge, the
// challenge, the request with the challenge, and the response with the epoch.
func TestProofFormat(t *testing.T) {
	for _, text := range goldenFiles(t, "exchange-*.http") {
		text = strings.ReplaceAll(text, "\n", "\r\n")
		testExchange(t, text)
		testExchange(t, strings.ReplaceAll(text, "\r\n"+HeaderProof,
			"\r\nMillrace-Later: x\r\n"+HeaderProof))
	}
}

func testExchange(t *testing.T, text string) {
	const token, asking = "secret", "http://10.0.0.6:8080"
	// The challenge was made with a key of zeros at the start of the node.
	asked, asks := NewSecret(token, formatOwner.Node), NewSecret(token, asking)
	asked.key = [32]byte{}
	r := bufio.NewReader(strings.NewReader(text))
	request := func(want Verdict) (req *http.Request, answer http.Header) {
		t.Helper()
		req, err := http.ReadRequest(r)
		if err != nil {
			t.Fatal(err)
		}
		answer = http.Header{}
		if got := asked.Admit(answer, req); got != want || req.Header.Get(HeaderNode) != asking {
			t.Errorf("a request of %q is found to be %d, want %d", req.Header.Get(HeaderNode), got,
				want)
		}
		req.URL.Scheme, req.URL.Host = "http", req.Host // as the requesting node has it
		return req, answer
	}
	answer := func(req *http.Request) *http.Response {
		t.Helper()
		res, err := http.ReadResponse(r, req)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}

	req, made := request(Challenged)
	res := answer(req)
	challenge := res.Header.Get(HeaderProof)
	if again, err := asks.Check(res); !again || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a challenge is not answered: %v", err)
	}
	if len(made) != 1 || len(made.Get(HeaderProof)) != len(challenge) {
		t.Errorf("a challenge is written as %q", made)
	}

	signed, _ := http.NewRequest(http.MethodGet, req.URL.String(), nil)
	asks.Sign(signed, formatOwner.Epoch)

	req, made = request(Proved)
	res = answer(req)
	if _, err := asks.Check(res); err != nil || !asks.Proven(formatOwner.Node) {
		t.Errorf("an answer is not believed: %v", err)
	}
	epoch, err := strconv.ParseUint(res.Header.Get(live.EpochHeader), 10, 64)
	if err != nil || epoch != formatOwner.Epoch {
		t.Errorf("the answer's epoch is %d, %v", epoch, err)
	}
	if len(made) != 1 || made.Get(HeaderProof) != res.Header.Get(HeaderProof) {
		t.Errorf("a proof is written as %q", made)
	}

	signed.RequestURI = signed.URL.RequestURI() // as the serving node has it
	if got := asked.Admit(http.Header{}, signed); got != Proved {
		t.Errorf("a request that is signed now is found to be %d", got)
	}
	// A new nonce is chosen for each request, and the MAC depends on it.
	was, is := strings.Split(req.Header.Get(HeaderProof), " "),
		strings.Split(signed.Header.Get(HeaderProof), " ")
	if len(signed.Header) != 2 || signed.Header.Get(HeaderNode) != asking || len(is) != 4 ||
		is[0] != was[0] ||
		len(is[1]) != len(was[1]) || is[2] != was[2] || len(is[3]) != len(was[3]) {
		t.Errorf("a request is written as %q", signed.Header)
	}
}

// The key of an object has the same name as the object's address.
func TestObjectFormat(t *testing.T) {
	k := redisSegments(t, redistest.Shared(t), time.Minute)
	s := k.store.(*redisStore)
	for name, o := range map[string]hls.Object{
		"hegozygv1x-i3.mp4": {Kind: hls.KindInit, Epoch: formatOwner.Epoch, MSN: 3},
		"hegozygv1x-40.m4s": {Kind: hls.KindSegment, Epoch: formatOwner.Epoch, MSN: 40},
	} {
		key := s.prefix + "{tenant/cam}" + name
		if err := s.rdb.Set(t.Context(), key, "earlier", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got := load(t, k, formatName, o); got != "earlier" {
			t.Errorf("%s is loaded as %q", name, got)
		}
		save(k, formatName, o, "later")
		eventually(t, "the object", func() bool {
			return s.rdb.Get(t.Context(), key).Val() == "later"
		})
	}
}
