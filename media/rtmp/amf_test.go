package rtmp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/media/rtmp"
)

// values is short, to keep the tables below readable.
type values = []any

func TestAMFRoundTrip(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	for _, list := range []values{
		{nil}, {true, false}, {0.0, -1.5, math.Inf(1), 1e300}, {"", "text", "\x00\xff"}, {long},
		{rtmp.Object{{"a", nil}, {"a", true}, {"", "x"}, {"o", rtmp.Object{{"list", values{}}}}}},
		{values{1.0, values{2.0, "three"}, rtmp.Object{{"four", 5.0}}}},
		{"connect", 1.0, rtmp.Object{{"app", "live"}}, nil},
	} {
		got, err := rtmp.ParseAMF(rtmp.AppendAMF(nil, list...))
		if err != nil || !reflect.DeepEqual(got, list) {
			t.Errorf("%v became %v, %v, want it unchanged", list, got, err)
		}
	}
	if got := rtmp.AppendAMF([]byte("x"), 3, "ab", true, nil,
		rtmp.Object{{"k", 0.0}}); string(got) !=
		"x\x00\x40\x08\x00\x00\x00\x00\x00\x00\x02\x00\x02ab\x01\x01\x05\x03\x00\x01k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09" {
		t.Errorf("AppendAMF = %q", got)
	}
	for _, bad := range []any{int64(1), []string{}, map[string]any{}, rtmp.Object{{long, nil}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("AppendAMF(%T) does not panic", bad)
				}
			}()
			rtmp.AppendAMF(nil, bad)
		}()
	}
}

func TestParseAMF(t *testing.T) {
	const one = "\x00\x3f\xf0\x00\x00\x00\x00\x00\x00"
	for _, tt := range []struct {
		name string
		in   string
		want values
	}{
		{"nothing", "", nil},
		{"null, undefined, unsupported", "\x05\x06\x0d", values{nil, nil, nil}},
		{"a reference", "\x07\x00\x01" + one, values{nil, 1.0}},
		{"a boolean of 2", "\x01\x02", values{true}},
		{"a date", "\x0b\x3f\xf0\x00\x00\x00\x00\x00\x00\x00\x00" + one, values{1.0, 1.0}},
		{"XML", "\x0f\x00\x00\x00\x02<>", values{"<>"}},
		{"a long string", "\x0c\x00\x00\x00\x02ab", values{"ab"}},
		{"an ECMA array", "\x08\x00\x00\x00\x01\x00\x01a" + one + "\x00\x00\x09",
			values{rtmp.Object{{"a", 1.0}}}},
		{"an ECMA array that counts wrongly", "\x08\xff\xff\xff\xff\x00\x01a" + one +
			"\x00\x00\x09" + one,
			values{rtmp.Object{{"a", 1.0}}, 1.0}},
		{"a typed object", "\x10\x00\x03cls\x00\x01a\x05\x00\x00\x09",
			values{rtmp.Object{{"a", nil}}}},
		{"an object that ends with the message", "\x03\x00\x01a" + one,
			values{rtmp.Object{{"a", 1.0}}}},
		{"a strict array", "\x0a\x00\x00\x00\x02" + one + "\x02\x00\x01x",
			values{values{1.0, "x"}}},
		{"an empty strict array", "\x0a\x00\x00\x00\x00", values{values{}}},
		{"an empty object", "\x03\x00\x00\x09", values{rtmp.Object(nil)}},
	} {
		if got, err := rtmp.ParseAMF([]byte(tt.in)); err != nil ||
			!reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %#v, %v, want %#v", tt.name, got, err, tt.want)
		}
	}
}

func TestParseAMFRefuses(t *testing.T) {
	const one = "\x00\x3f\xf0\x00\x00\x00\x00\x00\x00"
	const early = "rtmp: AMF0 ends early, or has a marker that is not known"
	deep := func(n int, begin string) string { return one + strings.Repeat(begin, n) }
	for _, tt := range []struct {
		name  string
		in    string
		error string
	}{
		{"half a number", one + "\x00\x3f", early},
		{"a boolean without a value", one + "\x01", early},
		{"half a length", one + "\x02\x00", early},
		{"a string that declares more than there is", one + "\x02\xff\xffabc", early},
		{"a string that declares one byte more", one + "\x02\x00\x04abc", early},
		{"a string of one byte that does not come", one + "\x02\x00\x01", early},
		{"a long string of 4 GiB", one + "\x0c\xff\xff\xff\xffabc", early},
		{"XML of 2 GiB", one + "\x0f\x80\x00\x00\x00abc", early},
		{"half a date", one + "\x0b\x3f\xf0\x00\x00\x00\x00\x00\x00\x00", early},
		{"half a reference", one + "\x07\x00", early},
		{"a property name that declares more", one + "\x03\xff\xffa", early},
		{"a property without a value", one + "\x03\x00\x01a", early},
		{"a typed object without a class", one + "\x10\x00", early},
		{"half the count of an ECMA array", one + "\x08\x00\x00", early},
		{"half the count of a strict array", one + "\x0a\x00", early},
		{"a strict array of 4294967295 elements", one + "\x0a\xff\xff\xff\xff" + one, early},
		{"a strict array of 4294967295 that come", one +
			"\x0a\xff\xff\xff\xff" + strings.Repeat("\x05", 100_000),
			"rtmp: AMF values of one message: 1025, limit 1024"},
		{"many values", one + strings.Repeat("\x05", 1024),
			"rtmp: AMF values of one message: 1025, limit 1024"},
		{"objects 10,000 deep", deep(10_000, "\x03\x00\x01a"),
			"rtmp: depth of AMF objects: 17, limit 16"},
		{"strict arrays 10,000 deep", deep(10_000, "\x0a\x00\x00\x00\x01"),
			"rtmp: depth of AMF objects: 17, limit 16"},
		{"ECMA arrays 10,000 deep", deep(10_000, "\x08\x00\x00\x00\x01\x00\x01a"),
			"rtmp: depth of AMF objects: 17, limit 16"},
		{"the end of no object", one + "\x09", early},
		{"a movie clip", one + "\x04", early},
		{"AMF3", one + "\x11\x0a", early},
	} {
		got, err := rtmp.ParseAMF([]byte(tt.in))
		if err == nil || err.Error() != tt.error {
			t.Errorf("%s: error %v, want %s", tt.name, err, tt.error)
		}
		if len(got) == 0 || got[0] != 1.0 {
			t.Errorf("%s: the value in front of the fault is lost: %v", tt.name, got)
		}
		var limit *rtmp.LimitError
		if errors.As(err, &limit) != strings.Contains(tt.error, "limit") {
			t.Errorf("%s: %T, want a LimitError only for a limit", tt.name, err)
		}
	}
}

// The allocations of ParseAMF depend on the input's actual bytes, not on declared sizes.
func TestParseAMFAllocatesLittle(t *testing.T) {
	in := append([]byte("\x0a\xff\xff\xff\xff"),
		bytes.Repeat([]byte("\x0c\xff\xff\xff\xff"), 100)...)
	if n := testing.AllocsPerRun(10, func() { _, _ = rtmp.ParseAMF(in) }); n > 10 {
		t.Errorf("%v allocations, want 10 at most", n)
	}
	nested := binary.BigEndian.AppendUint32([]byte{10}, 1<<31)
	if n := testing.AllocsPerRun(10, func() {
		_, _ = rtmp.ParseAMF(bytes.Repeat(nested, 16))
	}); n > 40 {
		t.Errorf("%v allocations, want 40 at most", n)
	}
}

func TestObjectGet(t *testing.T) {
	o := rtmp.Object{{"a", 1.0}, {"a", 2.0}}
	if o.Get("a") != 1.0 || o.Get("b") != nil || rtmp.Object(nil).Get("a") != nil {
		t.Error("Get does not return the first value of that name")
	}
}
