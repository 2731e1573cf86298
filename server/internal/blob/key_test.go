package blob

import (
	"net/http"
	"path"
	"strings"
	"testing"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "a/b", "...", ".a", "a..", "ä€", " ", "%2e%2e", `\..\`, "CON",
		strings.Repeat("a", maxKey)} {
		if err := CheckKey(key); err != nil {
			t.Errorf("CheckKey(%q) = %v, want nil", key, err)
		}
	}
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "../a", "a\x00", "a\n", "\x7F",
		"\u0085", "\u009F", "\xFF", strings.Repeat("a", maxKey+1),
	} {
		if CheckKey(key) == nil {
			t.Errorf("%q was taken", key)
		}
	}
}

// No two keys have the same file, even if case is ignored, and no file is outside its directory.
func FuzzFileOf(f *testing.F) {
	long := strings.Repeat("x", 240)
	for _, keys := range [][2]string{
		{"a", "A"}, {"a/b", "a%2fb"}, {"a", "a.blob"}, {".a", "%2ea"}, {long, long + "y"},
		{strings.Repeat("/", 300), "%h"},
		{"index.html", "../index.html"}, {"ä", "Ä"},
	} {
		f.Add(keys[0], keys[1])
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		for _, key := range []string{one, two} {
			p := fileOf(key)
			dir, name := path.Split(p.path)
			if dir != shardName(p.shard)+"/" || len(name) > 255 || strings.ToLower(name) != name ||
				path.Clean(p.path) != p.path ||
				strings.ContainsAny(name, `/\:*?"<>|`) || name == suffix && key != "" {
				t.Errorf("the file of %q is %q, which is not a valid name", key, p.path)
			}
		}
		if one != two && fileOf(one).path == fileOf(two).path {
			t.Errorf("%q and %q are both in %s", one, two, fileOf(one).path)
		}
	})
}

func TestConditionOf(t *testing.T) {
	const tag = `"t"`
	for _, tt := range []struct {
		match, noneMatch string
		there, absent    bool // whether a write is allowed
	}{
		{"", "", true, true},
		{"*", "", true, false},
		{"", "*", false, true},
		{tag, "", true, false},
		{"W/" + tag, "", false, false},
		{`"a", ` + tag, "", true, false},
		{`"a",,"b" , ` + tag, "", true, false},
		{"\"a\"\n" + tag, "", true, false}, // in two header lines
		{"", "\"a\"\n" + tag, false, true},
		{`"a"`, "", false, false},
		{"nonsense", "", false, false},
		{`"unfinished`, "", false, false},
		{"", tag, false, true},
		{"", "W/" + tag, false, true},
		{"", `"a"`, true, true},
		{"", "nonsense", true, true},
		{tag, `"a"`, true, false},
		{tag, tag, false, false},
	} {
		h := make(http.Header)
		if tt.match != "" {
			h["If-Match"] = strings.Split(tt.match, "\n")
		}
		if tt.noneMatch != "" {
			h["If-None-Match"] = strings.Split(tt.noneMatch, "\n")
		}
		c := ConditionOf(h)
		if c.allows(tag) != tt.there || c.allows("") != tt.absent {
			t.Errorf("If-Match: %s, If-None-Match: %s: %v with a value, %v without", tt.match,
				tt.noneMatch, c.allows(tag), c.allows(""))
		}
	}
}

func FuzzConditionOf(f *testing.F) {
	f.Add(`"a", W/"b",*`)
	f.Add(`,,, "`)
	f.Fuzz(func(t *testing.T, list string) {
		h := http.Header{"If-Match": {list}}
		if ConditionOf(h).allows("") {
			t.Errorf("%q matches nothing", list)
		}
		if ConditionOf(h).allows(`"t"`) && !strings.Contains(list, `"t"`) &&
			!strings.Contains(list, "*") {
			t.Errorf("%q has no such tag", list)
		}
	})
}
