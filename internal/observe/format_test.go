package observe

import (
	"maps"
	"strings"
	"testing"
)

const wakeupFormat = `name: sched_wakeup
ID: 374
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t pid;	offset:24;	size:4;	signed:1;
	field:const void * skbaddr;	offset:32;	size:8;	signed:0;

print fmt: "comm=%s pid=%d", REC->comm, REC->pid
`

func TestParseFormat(t *testing.T) {
	for _, test := range []struct {
		name, file string
		want       format // nil: an error
	}{
		{"a kernel's", wakeupFormat, format{
			"common_type": {0, 2}, "common_pid": {4, 4}, "comm": {8, 16}, "pid": {24, 4}, "skbaddr": {32, 8},
		}},
		{"a variable array", "field:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n", format{"name": {8, 4}}},
		{"a pointer without a space", "field:void *p;\toffset:8;\tsize:8;\tsigned:0;", format{"p": {8, 8}}},
		{"a flexible array beside another", "field:int a;\toffset:8;\tsize:4;\nfield:char b[];\toffset:12;\tsize:0;\n",
			format{"a": {8, 4}}},
		{"twice", "field:int a;\toffset:8;\tsize:4;\nfield:int a;\toffset:12;\tsize:8;\n", format{"a": {8, 4}}},
		{"the end of a record", "field:int a;\toffset:8188;\tsize:4;\n", format{"a": {8188, 4}}},
		{"beyond it", "field:int a;\toffset:8189;\tsize:4;\n", nil},
		{"far beyond it", "field:int a;\toffset:65535;\tsize:65535;\n", nil},
		{"too large", "field:int a;\toffset:99999999999;\tsize:4;\n", nil},
		{"a negative offset", "field:int a;\toffset:-8;\tsize:4;\n", nil},
		{"no offset", "field:int a;\tsize:4;\n", nil},
		{"no size", "field:int a;\toffset:4;\n", nil},
		{"no name", "field:;\toffset:4;\tsize:4;\n", nil},
		{"no field", "name: x\nID: 1\n", nil},
		{"empty", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseFormat([]byte(test.file))
			if (err != nil) != (test.want == nil) || !maps.Equal(got, test.want) {
				t.Errorf("got %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add([]byte(wakeupFormat))
	f.Add([]byte("field:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:1;\n"))
	f.Add([]byte("field:int a[;\toffset:8;\tsize:4;"))
	f.Add([]byte("field: ;offset:1;size:1;"))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := parseFormat(file)
		if err != nil {
			return
		}
		if len(got) == 0 {
			t.Error("no field and no error")
		}
		for name, at := range got {
			if name == "" || strings.ContainsAny(name, " *\t;") {
				t.Errorf("a field with the name %q", name)
			}
			if at.offset < 0 || at.size <= 0 || at.offset+at.size > maxRecord {
				t.Errorf("%s: %+v", name, at)
			}
		}
	})
}
