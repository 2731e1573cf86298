package hook

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
)

func TestParseAnswer(t *testing.T) {
	for _, c := range []struct {
		event  Event
		status int
		body   string
		want   Answer
		err    string // "" for none; a refusal begins with its status
	}{
		{Publish, 200, ``, Answer{Keep: keepDefault}, ""},
		{Publish, 204, " \n", Answer{Keep: keepDefault}, ""},
		{Publish, 200, `{"allow":true}`, Answer{Keep: keepDefault}, ""},
		{Publish, 201, `{"allow":true,"name":"show","max_viewers":3,"max_seconds":1.5}` + "\n",
			Answer{Name: "show", MaxViewers: 3, MaxTime: 1500 * time.Millisecond,
				Keep: keepDefault}, ""},
		{Publish, 200, `{"allow":true,"push":["rtmp://h/app/key","http://h/x"]}`,
			Answer{Keep: keepDefault, Push: []string{"rtmp://h/app/key", "http://h/x"}}, ""},
		{Publish, 200, `{"allow":true,"push":[` + strings.Repeat(`"x",`, 16) + `"x"]}`, Answer{},
			"push has 17 URLs"},
		{PlayBegin, 200, `{"allow":true,"push":["x"]}`, Answer{}, `answer to play has "push"`},
		{PlayBegin, 200, `{"allow":true,"name":"show","max_seconds":60,"cache_seconds":0}`,
			Answer{Name: "show", MaxTime: time.Minute}, ""},
		{Publish, 200, `{"allow":false}`, Answer{Keep: keepDefault},
			"403 the hook of this server refuses it"},
		{PlayBegin, 200, `{"allow":false,"reason":"pay\r\nfirst","cache_seconds":2}`,
			Answer{Keep: 2 * time.Second}, "403 pay  first"},
		{Publish, 401, `{"reason":"no key"}`, Answer{Keep: keepDefault}, "401 no key"},
		{Publish, 403, `<html>Forbidden`, Answer{Keep: keepDefault},
			"403 the hook of this server refuses it"},
		{Publish, 404, ``, Answer{Keep: keepDefault}, "404 the hook of this server refuses it"},
		{Publish, 302, ``, Answer{}, "it answers 302"},
		{Publish, 400, `{"allow":true}`, Answer{}, "it answers 400"},
		{Publish, 503, ``, Answer{}, "it answers 503"},
		{Publish, 200, `ok`, Answer{}, "is invalid"},
		{Publish, 200, `null`, Answer{}, `no "allow"`},
		{Publish, 200, `{}`, Answer{}, `no "allow"`},
		{Publish, 200, `[]`, Answer{}, "is invalid"},
		{Publish, 200, `{"allow":"yes"}`, Answer{}, "is invalid"},
		{Publish, 200, `{"allow":true} {"allow":false}`, Answer{}, "behind the JSON"},
		{Publish, 200, `{"allow":true,"max_viewer":3}`, Answer{}, "max_viewer"},
		{Publish, 200, `{"allow":true,"max_viewers":0}`, Answer{}, "max_viewers is 0"},
		{Publish, 200, `{"allow":true,"max_seconds":-1}`, Answer{}, "max_seconds is -1"},
		{Publish, 200, `{"allow":true,"max_seconds":0}`, Answer{}, "max_seconds is 0"},
		// The value is too small for a Duration.
		{Publish, 200, `{"allow":true,"max_seconds":1e-10}`, Answer{}, "max_seconds is 1e-10"},
		{Publish, 200, `{"allow":true,"max_seconds":1e-9}`, Answer{MaxTime: 1, Keep: keepDefault},
			""},
		{Publish, 200, `{"allow":true,"max_seconds":1e300}`, Answer{}, "max_seconds is 1e+300"},
		{Publish, 200, `{"allow":true,"cache_seconds":1}`, Answer{},
			`answer to publish has "cache_seconds"`},
		{PlayBegin, 200, `{"allow":true,"cache_seconds":7200}`, Answer{}, "cache_seconds is 7200"},
		{PlayBegin, 200, `{"allow":true,"max_viewers":7}`, Answer{},
			`answer to play has "max_viewers"`},
		{Record, 200, `{"allow":true,"name":"x"}`, Answer{}, `answer to record has "name"`},
		{Publish, 200, strings.Repeat(" ", maxAnswer+1), Answer{}, "longer than 16384"},
	} {
		a, err := parseAnswer(c.event, c.status, []byte(c.body))
		text := ""
		if err != nil {
			text = err.Error()
		}
		if refused := refuse.Of(err); refused != nil {
			text = map[int]string{401: "401 ", 403: "403 ", 404: "404 "}[refused.Status] + text
		} else if err != nil {
			a = c.want // it does not matter
		}
		if !reflect.DeepEqual(a, c.want) || (c.err == "") != (err == nil) || !strings.Contains(text, c.err) {
			t.Errorf("%s, %d %.80q: %+v, %v, want %+v, %q", c.event, c.status, c.body, a, err,
				c.want, c.err)
		}
	}
}

// Every answer of a hook results in values within the limits.
func FuzzParseAnswer(f *testing.F) {
	f.Add(200, []byte(`{"allow":true,"name":"show","max_viewers":3,"max_seconds":1.5}`))
	f.Add(403, []byte(`{"reason":"no"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		for _, e := range []Event{Publish, PlayBegin, Record} {
			a, err := parseAnswer(e, status, body)
			if a.MaxTime < 0 || a.Keep < 0 || a.Keep > maxKeep || a.MaxViewers < 0 {
				t.Errorf("an answer out of range was accepted: %+v", a)
			}
			if err == nil && (status < 200 || status > 299) {
				t.Errorf("status %d allows", status)
			}
			if r := refuse.Of(err); r != nil &&
				(len(r.Reason) > 4*maxReason || strings.ContainsAny(r.Reason, "\r\n\x00")) {
				t.Errorf("the reason %q is too long, or has control characters", r.Reason)
			}
		}
	})
}
