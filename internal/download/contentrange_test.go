package download

import (
	"fmt"
	"testing"
)

var contentRanges = []struct {
	text string
	want contentRange
	ok   bool
}{
	{"bytes 0-9/20", contentRange{0, 10, 20}, true},
	{"bytes 10-19/20", contentRange{10, 20, 20}, true},
	{"Bytes 10-19/*", contentRange{10, 20, unknown}, true},
	{"bytes */20", contentRange{0, 0, 20}, true},
	{"bytes */0", contentRange{0, 0, 0}, true},
	{"bytes  0-0/1", contentRange{0, 1, 1}, true},
	{text: ""},
	{text: "bytes"},
	{text: "bytes */*"},
	{text: "bytes 0-9"},
	{text: "bytes 0-/20"},
	{text: "bytes -9/20"},
	{text: "bytes 9-8/20"},
	{text: "bytes 10-20/20"},
	{text: "bytes +1-2/20"},
	{text: "bytes 0--1/20"},
	{text: "bytes 1-2/-20"},
	{text: "bytes 0-9/20/30"},
	{text: "lines 0-9/20"},
	{text: "bytes 0-9223372036854775807/*"},
	{text: "bytes 99999999999999999999-99999999999999999999/*"},
}

func TestParseContentRange(t *testing.T) {
	for _, tt := range contentRanges {
		got, err := parseContentRange(tt.text)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %+v, %v; want %+v", tt.text, got, err, tt.want)
		}
	}
}

func FuzzParseContentRange(f *testing.F) {
	for _, tt := range contentRanges {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseContentRange(text)
		if err != nil {
			return
		}
		if r.to == 0 {
			if r.from != 0 || r.all < 0 {
				t.Fatalf("%q: %+v", text, r)
			}
			return
		}
		if r.from < 0 || r.from >= r.to || r.all != unknown && r.to > r.all {
			t.Fatalf("%q: %+v", text, r)
		}
		all := "*"
		if r.all != unknown {
			all = fmt.Sprint(r.all)
		}
		if again, err := parseContentRange(fmt.Sprintf("bytes %d-%d/%s", r.from, r.to-1, all)); err != nil || again != r {
			t.Fatalf("%q: %+v, written and read again %+v, %v", text, r, again, err)
		}
	})
}
