package hls_test

import (
	"testing"

	"github.com/millrace-io/millrace/media/hls"
)

// names are objects and their names.
var names = map[string]hls.Object{
	"0-i0.mp4":                       {Kind: hls.KindInit},
	"0-0.m4s":                        {Kind: hls.KindSegment},
	"0-0.0.m4s":                      {Kind: hls.KindPart},
	"1z-i12.mp4":                     {Kind: hls.KindInit, Epoch: 71, MSN: 12},
	"1z-70.m4s":                      {Kind: hls.KindSegment, Epoch: 71, MSN: 70},
	"1z-70.13.m4s":                   {Kind: hls.KindPart, Epoch: 71, MSN: 70, Part: 13},
	"3w5e11264sgsf-1.m4s":            {Kind: hls.KindSegment, Epoch: 1<<64 - 1, MSN: 1},
	"0-18446744073709551615.9.m4s":   {Kind: hls.KindPart, MSN: 1<<64 - 1, Part: 9},
	"i-i1.mp4":                       {Kind: hls.KindInit, Epoch: 18, MSN: 1},
	"0-0.2147483647.m4s":             {Kind: hls.KindPart, Part: 1<<31 - 1},
	"3w5e11264sgsf-i0.mp4":           {Kind: hls.KindInit, Epoch: 1<<64 - 1},
	"3w5e11264sgsf-9.1000000000.m4s": {Kind: hls.KindPart, Epoch: 1<<64 - 1, MSN: 9, Part: 1e9},
}

// others look like names, but are not.
var others = []string{
	"", "-", ".", "-.m4s", "0-.m4s", "-0.m4s", "0-i.mp4", "0-0", "0-0.mp4", "0-i0.m4s",
	"0-i0.0.mp4", "0-0..m4s", "0-0.m4s.m4s",
	"0-0.0.0.m4s", "00-0.m4s", "0-00.m4s", "0-0.00.m4s", "0-i00.mp4", "1Z-70.m4s", "+1-0.m4s",
	"0-+1.m4s", "0-0.+1.m4s",
	"0--1.m4s", "0-0.-1.m4s", "-1-0.m4s", "1_0-0.m4s", "0-1_0.m4s", " 0-0.m4s", "0-0.m4s ",
	"0-0.M4S", "0-0.m4s\n", "0-0.m4s/",
	"3w5e11264sgsg-1.m4s", "0-18446744073709551616.m4s", "0-0.9223372036854775808.m4s", "0-ii0.mp4",
	"../0-0.m4s",
}

func TestObjectNames(t *testing.T) {
	for name, o := range names {
		if got := o.String(); got != name {
			t.Errorf("%+v is %s, want %s", o, got, name)
		}
		if got, ok := hls.ParseObject(name); got != o || !ok {
			t.Errorf("%s is %+v, %v, want %+v", name, got, ok, o)
		}
	}
	for _, name := range others {
		if o, ok := hls.ParseObject(name); ok || o != (hls.Object{}) {
			t.Errorf("%q is accepted as %+v, %v", name, o, ok)
		}
	}
	if s := (hls.Object{}).String() + (hls.Object{Kind: 4}).String(); s != "" {
		t.Errorf("no object is %q", s)
	}
}

func FuzzParseObject(f *testing.F) {
	for name := range names {
		f.Add(name)
	}
	for _, name := range others {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if o, ok := hls.ParseObject(name); ok && o.String() != name || !ok && o != (hls.Object{}) {
			t.Fatalf("%q is %+v, %v, and written as %q", name, o, ok, o)
		}
	})
}
