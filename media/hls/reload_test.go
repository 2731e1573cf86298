package hls_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/millrace-io/millrace/media/hls"
)

func TestParseReload(t *testing.T) {
	for query, want := range map[string]string{
		"":                                   "{0 -1 false} false",
		"_HLS_msn=7":                         "{7 -1 false} true",
		"_HLS_msn=7&_HLS_part=0":             "{7 0 false} true",
		"_HLS_msn=7&_HLS_part=3":             "{7 3 false} true",
		"_HLS_skip=YES":                      "{0 -1 true} false",
		"_HLS_skip=v2&_HLS_msn=0":            "{0 -1 true} true",
		"_HLS_skip=NO":                       "{0 -1 false} false",
		"_HLS_skip=":                         "{0 -1 false} false",
		"token=x&_HLS_x=y":                   "{0 -1 false} false",
		"_HLS_part=3":                        "400",
		"_HLS_msn=":                          "400",
		"_HLS_msn=-1":                        "400",
		"_HLS_msn=+1":                        "400", // a space and 1
		"_HLS_msn=%2B1":                      "400",
		"_HLS_msn=1.0":                       "400",
		"_HLS_msn=0x1":                       "400",
		"_HLS_msn=1_0":                       "400",
		"_HLS_msn=7&_HLS_msn=7":              "400",
		"_HLS_msn=7&_HLS_part=":              "400",
		"_HLS_msn=7&_HLS_part=1&_HLS_part=1": "400",
		"&_HLS%5Fmsn=%37&&_HLS_part=%3":      "{7 -1 false} true", // as url.ParseQuery
		"_HLS_skip=YES&_HLS_skip=NO":         "{0 -1 true} false",
		"_HLS_skip=YES;_HLS_msn=7":           "{0 -1 false} false",
		"_HLS_msn=7&_HLS_part=-1":            "400",
		"_HLS_msn=99999999999999999999":      "{4503599627370496 -1 false} true",
		"_HLS_msn=7&_HLS_part=9999999999":    "{7 1073741824 false} true",
	} {
		r, blocking, err := hls.ParseReload(query)
		got := fmt.Sprint(r, blocking)
		if err != nil {
			got = "400"
			if r != (hls.Reload{}) || blocking {
				t.Errorf("%s: %v, %v with the error %v, want none of them", query, r, blocking, err)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	const middle = "init K200 P200x4 K200 P200x2" // 10 with five parts, three parts of 11
	const start = "init K200 P200x4!"             // 10 with five parts, 11 without parts
	for _, test := range []struct {
		in   string
		msn  uint64
		part int
		want hls.Status
	}{
		{middle, 9, -1, hls.Ready},
		{middle, 9, 99, hls.Ready},
		{middle, 10, -1, hls.Ready},
		{middle, 10, 4, hls.Ready},
		{middle, 10, 5, hls.Ready}, // the first part of 11
		{middle, 11, -1, hls.Wait},
		{middle, 11, 2, hls.Ready},
		{middle, 11, 3, hls.Wait},
		{middle, 11, 17, hls.Wait}, // 15 parts are 3 s
		{middle, 11, 18, hls.TooFar},
		{middle, 12, -1, hls.Wait},
		{middle, 12, 0, hls.Wait},
		{middle, 12, 14, hls.Wait},
		{middle, 12, 15, hls.TooFar},
		{middle, 13, -1, hls.TooFar},
		{middle, 13, 0, hls.TooFar},
		{middle, 1<<64 - 1, 0, hls.TooFar},
		{start, 10, -1, hls.Ready},
		{start, 10, 4, hls.Ready},
		{start, 10, 5, hls.Wait},
		{start, 10, 99, hls.Wait},
		{start, 11, 0, hls.Wait},
		{start, 9, 99, hls.Ready},
		{"init", 9, 3, hls.Ready},
		{"init", 0, 0, hls.Ready},
		{"init", 10, 0, hls.Wait},
		{"init", 12, 0, hls.TooFar},
		{"init K300", 10, 0, hls.Wait},
		{"init K300 flush", 10, 0, hls.Ready}, // the segment has no parts
		{"init K300 flush", 11, 0, hls.Wait},
		{middle + " end", 12, 0, hls.Ready},
		{middle + " end", 1 << 60, 0, hls.Ready},
	} {
		w := newRig(t, config).play(test.in).w
		if got := w.Status(hls.Reload{MSN: test.msn, Part: test.part}); got != test.want {
			t.Errorf("%s: %d.%d is %d, want %d", test.in, test.msn, test.part, got, test.want)
		}
	}
	c := config
	c.Part = 1500 * time.Millisecond
	for part, want := range []hls.Status{hls.Wait, hls.Wait, hls.Wait, hls.TooFar} {
		if got := newRig(t, c).w.Status(hls.Reload{MSN: 10, Part: part}); got != want {
			t.Errorf("long parts: %d is %d, want %d", part, got, want)
		}
	}
}

func FuzzParseReload(f *testing.F) {
	f.Add("_HLS_msn=7&_HLS_part=3&_HLS_skip=YES")
	f.Add("_HLS_msn=99999999999999999999&_HLS_part=99999999999")
	f.Add("_HLS_part=3")
	f.Fuzz(func(t *testing.T, query string) {
		q, _ := url.ParseQuery(query) // without the malformed parameters
		r, blocking, err := hls.ParseReload(query)
		if err != nil {
			if r != (hls.Reload{}) || blocking {
				t.Fatalf("%v, %v with the error %v, want none of them", r, blocking, err)
			}
			return
		}
		if blocking != q.Has("_HLS_msn") || r.Part >= 0 != q.Has("_HLS_part") || r.Skip &&
			!q.Has("_HLS_skip") {
			t.Fatalf("%s: %v, %v, want what the query says", query, r, blocking)
		}
		newRig(t, config).w.Status(r)
	})
}
