package streamname

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("n", 128)
	for name, says := range map[string]string{
		"a": "", "a.b-c_D9": "", long: "", "a/b": "", "a/b/c/d": "", "a.mp4/b": "", "a.m3u8/b": "",
		"5-i0": "", ".a/..b": "",
		"":          "with a slash between",
		"/":         "with a slash between",
		"a/":        "with a slash between",
		"/a":        "with a slash between",
		"a//b":      "with a slash between",
		"a b":       "with a slash between",
		"a/b\x00":   "with a slash between",
		"a/b/c/d/e": "in up to 4 parts",
		long + "n":  "128 bytes at most",
		"..":        "dots alone",
		"a/../b":    "dots alone",
		"a/.":       "dots alone",
		"a.flv":     "asks for a format",
		"a/b.mp4":   "asks for a format",
		"a.m3u8":    "asks for HLS",
		"a/b.m4s":   "asks for HLS",
		"a/5-i0":    "of a stream has such a name",
		"a/poster":  "of a stream has such a name",
		"poster":    "",
	} {
		if err := Check(name); (err == nil) != (says == "") || err != nil &&
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", name, err, says)
		}
	}
	for path, want := range map[string][3]string{ // the name, the object, the stream's name
		"a":              {"a", "", "a"},
		"a.flv":          {"a.flv", "", "a"},
		"a/b.mp4":        {"a/b.mp4", "", "a/b"},
		"a/index.m3u8":   {"a", "index.m3u8", "a"},
		"a/b/media.m3u8": {"a/b", "media.m3u8", "a/b"},
		"a/5-i0.mp4":     {"a", "5-i0.mp4", "a"},
		"a/b/5-1.2.m4s":  {"a/b", "5-1.2.m4s", "a/b"},
		"a/other.m4s":    {"a", "other.m4s", "a"},
		"a/poster.mp4":   {"a", "poster.mp4", "a"},
		"poster.mp4":     {"poster.mp4", "", "poster"},
		"a.m3u8":         {"a.m3u8", "", "a.m3u8"},
		"5-i0.mp4":       {"5-i0.mp4", "", "5-i0"},
		"a/":             {"a", "/", "a"},
		"a/b/":           {"a/b", "/", "a/b"},
		"":               {"", "", ""},
	} {
		name, object := Split(path)
		if got := [3]string{name, object, Of(path)}; got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}

// A stream that can be published can be watched at each of its addresses, and no address belongs to
// two streams.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a", "a/b", "a/5-i0", "a/index.m3u8", "a.flv/b.mp4", "5-i0",
		"a/5-1.m4s/x", "a//b", "a/./b", "a.flv.mp4"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, path string) {
		name, err := Published(path)
		if err != nil {
			return
		}
		if strings.ContainsAny(name, " ?#%\\+:{}") || strings.Contains("/"+name+"/", "//") ||
			strings.Contains("/"+name+"/", "/../") {
			t.Fatalf("%q is a name", name)
		}
		for _, ext := range []string{"", ".flv", ".mp4"} {
			n, object := Split(name + ext)
			if object != "" || n != name+ext || Of(name+ext) != name {
				t.Errorf("%q asks for %q of %q", name+ext, object, n)
			}
		}
		for _, object := range []string{"index.m3u8", "media.m3u8", "5-i0.mp4", "5-1.m4s",
			"5-1.2.m4s"} {
			n, o := Split(name + "/" + object)
			if n != name || o != object || Of(name+"/"+object) != name {
				t.Errorf("%q asks for %q of %q", name+"/"+object, o, n)
			}
			if Check(name+"/"+object) == nil || strings.HasSuffix(object, ".mp4") &&
				Check(name+"/"+strings.TrimSuffix(object, ".mp4")) == nil {
				t.Errorf("%q is a name", name+"/"+object)
			}
		}
	})
}

func TestInPath(t *testing.T) {
	for path, want := range map[string]string{
		"/live/a": "a", "/live/a/b.flv": "a/b", "/live/a/index.m3u8": "a", "/live/": "",
		"/live": "", "/": "", "/files/live/a": "",
	} {
		if got := InPath(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
