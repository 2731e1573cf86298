package token

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

const testKey = "0123456789abcdef0123456789abcdef"

var testKeys = Keys{testKey}

func Example() {
	keys := Keys{"0123456789abcdef0123456789abcdef"}
	text, _ := keys.Sign(Token{Right: Read, Name: "tenant/*", Expires: time.Unix(1_900_000_000, 0)})
	fmt.Println(text)
	t, err := keys.Verify(text)
	fmt.Println(t.Name, err)
	fmt.Println(t.Allow(Read, "tenant/cam", time.Unix(1_899_999_999, 0)))
	fmt.Println(t.Allow(Publish, "tenant/cam", time.Unix(1_899_999_999, 0)))
	// Output:
	// m1.read.1900000000.tenant/*.N3Ao19FBYFMTWTY9rvRO8IYEdJdF39stAKvZo3frms4
	// tenant/* <nil>
	// <nil>
	// the token is for reading, not for publishing
}

func TestAllow(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	for _, tt := range []struct {
		name    string
		right   Right
		expires time.Duration
		want    Right
		stream  string
		says    string
	}{
		{"cam", Publish, time.Second, Publish, "cam", ""},
		{"cam", Publish, time.Second, Read, "cam", ""},
		{"cam", Read, time.Second, Read, "cam", ""},
		{"cam", Read, time.Second, Publish, "cam", "for reading"},
		{"cam", Read, 0, Read, "cam", "expired at 2030-03-17T17:46:40Z"},
		{"cam", Read, -time.Hour, Read, "cam", "expired"},
		{"cam", Read, time.Second, Read, "cam2", "for cam, not"},
		{"cam", Read, time.Second, Read, "cam/2", "for cam, not"},
		{"cam", Read, time.Second, Read, "ca", "for cam, not"},
		{"cam.1", Read, time.Second, Read, "cam.1", ""},
		{"t/*", Read, time.Second, Read, "t/cam", ""},
		{"t/*", Read, time.Second, Read, "t/a/b", ""},
		{"t/*", Read, time.Second, Read, "t", "for t/*, not"},
		{"t/*", Read, time.Second, Read, "t2/cam", "for t/*, not"},
		{"*", Read, time.Second, Read, "any/thing", ""},
	} {
		text, err := testKeys.Sign(Token{tt.right, tt.name, now.Add(tt.expires)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := testKeys.Verify(text)
		if err != nil || !Is(text) {
			t.Fatal(text, err)
		}
		switch err := got.Allow(tt.want, tt.stream, now); {
		case err == nil && tt.says != "", err != nil && (tt.says == "" || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %s of %s: %v, want %q", text, tt.want, tt.stream, err, tt.says)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	for _, tt := range []struct {
		token Token
		says  string
	}{
		{Token{"write", "cam", time.Now()}, "want publish or read"},
		{Token{Read, "", time.Now()}, "want a stream's"},
		{Token{Read, "a b", time.Now()}, "want a stream's"},
		{Token{Read, "a*", time.Now()}, "* stands alone"},
		{Token{Read, "*/a", time.Now()}, "* stands alone"},
		{Token{Read, "a/**", time.Now()}, "* stands alone"},
		{Token{Read, "cam", time.Time{}}, "before 1970"},
		{Token{Read, strings.Repeat("x", 250), time.Now()}, "256 at most"},
	} {
		if text, err := testKeys.Sign(tt.token); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %s, %v, want %q", tt.token, text, err, tt.says)
		}
	}
	if _, err := (Keys{}).Sign(Token{Read, "cam", time.Now()}); err == nil {
		t.Error("signed without a key")
	}
}

// A token of which one byte is another one is refused, as is one with a byte more or less.
func TestVerifyRefuses(t *testing.T) {
	text, err := testKeys.Sign(Token{Read, "a.b/cam", time.Unix(1_900_000_000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		for _, c := range []byte("0aZ.-_*/+ \x00\xff") {
			if c == text[i] {
				continue
			}
			for _, other := range []string{text[:i] + string([]byte{c}) + text[i+1:], text[:i] + string([]byte{c}) + text[i:], text[:i] + text[i+1:]} {
				if got, err := testKeys.Verify(other); err == nil {
					t.Errorf("%q means %v", other, got)
				}
			}
		}
	}
	for _, other := range []string{"", "m1", "m1.", "m1.read", "m1....", text + "=", strings.ToUpper(text), " " + text,
		strings.Replace(text, ".19", ".+19", 1), strings.Replace(text, ".19", ".019", 1), strings.Repeat(text, 9)} {
		if got, err := testKeys.Verify(other); err == nil {
			t.Errorf("%q means %v", other, got)
		}
	}
	if _, err := (Keys{testKey + "x", testKey + "y"}).Verify(text); err != errSign {
		t.Errorf("by other keys: %v", err)
	}
	if _, err := (Keys{testKey + "x", testKey}).Verify(text); err != nil {
		t.Errorf("by the second key: %v", err)
	}
}

func TestKeys(t *testing.T) {
	if k := NewKey(); len(k) < minKey || k == NewKey() {
		t.Errorf("a key is %q", k)
	}
	for text, says := range map[string]string{
		"":                               "no key",
		"# " + testKey + "\n\n":          "no key",
		"short\n":                        "line 1 has a key of 5 bytes",
		"\n" + strings.Repeat("x", 300):  "line 2 has a key of 300 bytes",
		strings.Repeat(testKey+"\n", 17): "17 keys",
		"# a\r\n" + testKey + "\r\n\n  " + testKey: "",
	} {
		keys, err := parseKeys(text)
		if says == "" && (err != nil || len(keys) != 2 || keys[1] != testKey) || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%.20q: %d keys, %v, want %q", text, len(keys), err, says)
		}
		if err != nil && strings.Contains(err.Error(), testKey) {
			t.Errorf("the error has the key: %v", err)
		}
	}
	file := filepath.Join(t.TempDir(), "keys")
	if _, err := ReadKeys(file); err == nil {
		t.Error("there is no such file")
	}
	if err := os.WriteFile(file, []byte(testKey), 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := ReadKeys(file); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for mode, ok := range map[os.FileMode]bool{0o444: true, 0o664: true, 0o602: false, 0o666: false} {
		if err := os.Chmod(file, mode); err != nil { // the process's mask does not count here
			t.Fatal(err)
		}
		if _, err := ReadKeys(file); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "all users may write it") {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
}

// The lines of docs/access.md make a token with openssl.
func TestOtherPrograms(t *testing.T) {
	need.Program(t, "openssl")
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "keys"), []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(script, "/etc/millrace/keys", "keys"))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := testKeys.Verify(strings.TrimSpace(string(out)))
	if err != nil || got.Right != Publish || got.Name != "cam" || time.Until(got.Expires) < time.Hour-time.Minute {
		t.Errorf("%s means %v: %v", out, got, err)
	}
}

// What is verified says what it was signed as, and is signed again as the same text.
func FuzzVerify(f *testing.F) {
	for _, name := range []string{"cam", "t/*", "*", "a.b.c/d"} {
		text, err := testKeys.Sign(Token{Publish, name, time.Unix(1_900_000_000, 0)})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, false)
		f.Add(text[:strings.LastIndexByte(text, '.')], true)
	}
	f.Fuzz(func(t *testing.T, text string, sign bool) {
		if sign { // or no text would get past the signature
			text += "." + testKeys[0].sign(text)
		}
		got, err := testKeys.Verify(text)
		if err != nil {
			return
		}
		again, err := testKeys.Sign(got)
		if err != nil || again != text {
			t.Errorf("%q, signed again: %q, %v", text, again, err)
		}
	})
}
