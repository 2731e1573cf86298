package token

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/millrace-io/millrace/internal/testkit/need"
)

const secret = "0123456789abcdef0123456789abcdef"

// now is the time of the tests.
var now = time.Unix(1_900_000_000, 0)

// edKey returns an Ed25519 key in the format of the key file.
func edKey(tb testing.TB) (private, public string) {
	tb.Helper()
	key := ed25519.NewKeyFromSeed([]byte(secret))
	p, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	q, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		tb.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(p), base64.StdEncoding.EncodeToString(q)
}

// parsed returns the keys of lines.
func parsed(tb testing.TB, lines ...string) Keys {
	tb.Helper()
	keys, err := parseKeys(strings.Join(lines, "\n"))
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func Example() {
	keys, _ := parseKeys("2030-03 HS256 0123456789abcdef0123456789abcdef")
	text, _ := keys.Sign(Token{Right: Read, Stream: "tenant/*",
		Expires: time.Unix(1_900_000_000, 0)})
	fmt.Println(strings.ReplaceAll(text, ".", "\n."))
	t, err := keys.Verify(text, time.Unix(1_899_999_999, 0))
	fmt.Println(t.Stream, err)
	fmt.Println(t.Allow(Read, "tenant/cam"))
	fmt.Println(t.Allow(Publish, "tenant/cam"))
	// Output:
	// eyJhbGciOiJIUzI1NiIsImtpZCI6IjIwMzAtMDMiLCJ0eXAiOiJKV1QifQ
	// .eyJleHAiOjE5MDAwMDAwMDAsInJpZ2h0IjoicmVhZCIsInN0cmVhbSI6InRlbmFudC8qIn0
	// .zcYsWk9o8ppCK9yGyRra46ozUBa5cObEdsIKE9B_8z8
	// tenant/* <nil>
	// <nil>
	// the token is for reading, not for publishing
}

func TestAllow(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		right   Right
		want    Right
		stream  string
		says    string
	}{
		{"cam", Publish, Publish, "cam", ""},
		{"cam", Publish, Read, "cam", ""},
		{"cam", Read, Read, "cam", ""},
		{"cam", Read, Publish, "cam", "for reading"},
		{"cam", Read, Read, "cam2", "for another stream: cam"},
		{"cam", Read, Read, "cam/2", "for another stream: cam"},
		{"cam", Read, Read, "ca", "for another stream: cam"},
		{"cam.1", Read, Read, "cam.1", ""},
		{"t/*", Read, Read, "t/cam", ""},
		{"t/*", Read, Read, "t/a/b", ""},
		{"t/*", Read, Read, "t", "for another stream: t/*"},
		{"t/*", Read, Read, "t2/cam", "for another stream: t/*"},
		{"*", Read, Read, "any/thing", ""},
	} {
		err := Token{Right: tt.right, Stream: tt.pattern}.Allow(tt.want, tt.stream)
		if err == nil && tt.says != "" || err != nil &&
			(tt.says == "" || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s of %s: %s of %s: %v, want %q", tt.right, tt.pattern, tt.want, tt.stream,
				err, tt.says)
		}
	}
}

// Each kind of key signs tokens that it verifies, and the public key suffices to verify them.
func TestSign(t *testing.T) {
	private, public := edKey(t)
	for signs, verifies := range map[string]string{
		"a HS256 " + secret:  "a HS256 " + secret,
		"a EdDSA " + private: "a EdDSA " + public,
		"b EdDSA " + private: "b EdDSA " + private,
	} {
		want := Token{Publish, "a.b/*", now.UTC()}
		text, err := parsed(t, signs, "other HS256 "+secret).Sign(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parsed(t, "other HS256 "+secret, verifies).Verify(text, now)
		if err != nil || got != want || !Is(text) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	keys := parsed(t, "a HS256 "+secret)
	for _, tt := range []struct {
		keys  Keys
		token Token
		says  string
	}{
		{keys, Token{"write", "cam", now}, `want "publish" or "read"`},
		{keys, Token{Read, "", now}, "want a stream's name"},
		{keys, Token{Read, "a b", now}, "of A-Z"},
		{keys, Token{Read, "a*", now}, "* may only stand alone"},
		{keys, Token{Read, "*/a", now}, "* may only stand alone"},
		{keys, Token{Read, "a/**", now}, "* may only stand alone"},
		{keys, Token{Read, "cam", time.Time{}}, "between 1970 and"},
		{keys, Token{Read, strings.Repeat("x", 800), now}, "1024 at most"},
		{nil, Token{Read, "cam", now}, "no key"},
		{parsed(t, "a EdDSA "+public), Token{Read, "cam", now},
			"the first key, a, is a public key"},
	} {
		if text, err := tt.keys.Sign(tt.token); err == nil ||
			!strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %s, %v, want %q", tt.token, text, err, tt.says)
		}
	}
}

// issue returns a token with any header and claims, as another program might sign it.
func issue(tb testing.TB, method jwt.SigningMethod, key any, header, claims string) string {
	tb.Helper()
	text := encode(header) + "." + encode(claims)
	signature, err := method.Sign(text, key)
	if err != nil {
		tb.Fatal(err)
	}
	return text + "." + encode(string(signature))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// The header of a token names its key, and cannot choose how the token is verified.
func TestHeaders(t *testing.T) {
	private, public := edKey(t)
	ed := ed25519.NewKeyFromSeed([]byte(secret))
	der, err := base64.StdEncoding.DecodeString(public)
	if err != nil {
		t.Fatal(err)
	}
	rawPublic := []byte(ed.Public().(ed25519.PublicKey))
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	hs, none, unsafe := jwt.SigningMethodHS256, jwt.SigningMethodNone,
		jwt.UnsafeAllowNoneSignatureType
	one, onePublic := parsed(t, "a HS256 "+secret), parsed(t, "e EdDSA "+public)
	two := parsed(t, "a HS256 "+secret, "e EdDSA "+private)
	const claims = `{"stream":"cam","right":"publish","exp":1900000000}`
	for _, tt := range []struct {
		what   string
		keys   Keys
		method jwt.SigningMethod
		key    any
		header string
		says   string
	}{
		{"the key's alg", one, hs, []byte(secret), `{"alg":"HS256","kid":"a"}`, ""},
		{"the key's alg", onePublic, jwt.SigningMethodEdDSA, ed,
			`{"alg":"EdDSA","kid":"e","typ":"JWT"}`, ""},
		{"the second key", two, jwt.SigningMethodEdDSA, ed, `{"alg":"EdDSA","kid":"e"}`, ""},
		{"no kid, one key", one, hs, []byte(secret), `{"alg":"HS256"}`, ""},
		{"no kid, one key", onePublic, jwt.SigningMethodEdDSA, ed, `{"alg":"EdDSA"}`, ""},
		{"no kid, two keys", two, hs, []byte(secret), `{"alg":"HS256"}`,
			"has no kid, and this server has 2 keys"},
		{"no key", nil, hs, []byte(secret), `{"alg":"HS256"}`,
			"has no kid, and this server has 0 keys"},
		{"unknown kid", one, hs, []byte(secret), `{"alg":"HS256","kid":"b"}`,
			`no key with the token's kid "b"`},
		{"unknown kid", two, hs, []byte(secret), `{"alg":"HS256","kid":""}`,
			`no key with the token's kid ""`},
		{"a kid of another type", one, hs, []byte(secret), `{"alg":"HS256","kid":["a"]}`,
			"no key with the token's kid"},
		{"a kid of null", one, hs, []byte(secret), `{"alg":"HS256","kid":null}`,
			"no key with the token's kid"},
		{"another secret", one, hs, []byte(secret + "x"), `{"alg":"HS256","kid":"a"}`,
			"not signed with"},
		{"another key's secret", two, hs, []byte(secret), `{"alg":"HS256","kid":"e"}`,
			`its key "e" is for EdDSA`},

		// alg none in all spellings, with and without a kid.
		{"none", one, none, unsafe, `{"alg":"none","kid":"a"}`,
			`is "none", and its key "a" is for HS256`},
		{"none", one, none, unsafe, `{"alg":"none"}`, `is "none"`},
		{"none", onePublic, none, unsafe, `{"alg":"none"}`, `is "none"`},
		{"None", one, none, unsafe, `{"alg":"None","kid":"a"}`, "alg"},
		{"no alg", one, hs, []byte(secret), `{"kid":"a"}`, "alg"},
		{"an alg of another type", one, hs, []byte(secret), `{"alg":["HS256"],"kid":"a"}`, "alg"},
		{"no signature", one, none, unsafe, `{"alg":"HS256","kid":"a"}`, "not signed with"},

		// The public key is not a secret: its holders must not be able to sign with it.
		{"HS256 by the public key", onePublic, hs, rawPublic, `{"alg":"HS256","kid":"e"}`,
			"is for EdDSA"},
		{"HS256 by the public key", onePublic, hs, []byte(public), `{"alg":"HS256","kid":"e"}`,
			"is for EdDSA"},
		{"HS256 by the public key", onePublic, hs, der, `{"alg":"HS256"}`, "is for EdDSA"},
		{"HS256 by the public key", onePublic, hs, asPEM, `{"alg":"HS256"}`, "is for EdDSA"},
		{"HS256 by the public key, said to be EdDSA", onePublic, hs, []byte(public),
			`{"alg":"EdDSA"}`, "not signed with"},
		{"EdDSA, said to be HS256", one, jwt.SigningMethodEdDSA, ed, `{"alg":"HS256","kid":"a"}`,
			"not signed with"},
		{"EdDSA for a secret", one, jwt.SigningMethodEdDSA, ed, `{"alg":"EdDSA","kid":"a"}`,
			"is for HS256"},

		{"HS512", one, jwt.SigningMethodHS512, []byte(secret), `{"alg":"HS512","kid":"a"}`,
			"is for HS256"},
		{"RS256", one, hs, []byte(secret), `{"alg":"RS256","kid":"a"}`, "is for HS256"},
		{"an extension", one, hs, []byte(secret),
			`{"alg":"HS256","kid":"a","crit":["b64"],"b64":false}`, "has crit"},
		{"a header of no object", one, hs, []byte(secret), `["HS256"]`, "not a JWT"},
		{"a header of two values", one, hs, []byte(secret), `{"alg":"HS256"}{}`, "malformed"},
		{"a header with spaces", one, hs, []byte(secret), "{\n  \"alg\": \"HS256\"\n}", ""},
		{"a header of null", one, hs, []byte(secret), `null`, "not a JWT"},
	} {
		text := issue(t, tt.method, tt.key, tt.header, claims)
		got, err := tt.keys.Verify(text, now)
		if tt.says == "" {
			if want := (Token{Publish, "cam", now.UTC()}); err != nil || got != want {
				t.Errorf("%s: %s: %v, %v, want %v", tt.what, tt.header, got, err, want)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %s: %v, want %q", tt.what, tt.header, err, tt.says)
		}
	}
}

// Claims of wrong types, of other services, and of other times are refused, even with a valid
// signature.
func TestClaims(t *testing.T) {
	keys := parsed(t, "a HS256 "+secret)
	for _, tt := range []struct {
		change, says string // null removes the claim
	}{
		{`{}`, ""},
		{`{"iss":5,"iat":"x","sub":{},"other":[1]}`, ""},
		{`{"exp":1900000000.5}`, ""},
		{`{"exp":1899999971}`, ""},
		{`{"exp":1899999970}`, "has expired at 2030-03-17T17:46:10Z"},
		{`{"exp":1}`, "has expired"},
		{`{"exp":null}`, "needs exp as a number"},
		{`{"exp":"1900000000"}`, "needs exp as a number"},
		{`{"exp":[1900000000]}`, "needs exp as a number"},
		{`{"exp":0}`, "needs exp as a number"},
		{`{"exp":-1900000000}`, "needs exp as a number"},
		{`{"exp":1900000000000}`, "not milliseconds"},
		{`{"exp":1e300}`, "not milliseconds"},
		{`{"exp":null,"Exp":1900000000}`, "needs exp as a number"},
		{`{"nbf":1900000030}`, ""},
		{`{"nbf":1900000031}`, "not valid before 2030-03-17T17:47:11Z"},
		{`{"nbf":"soon"}`, "needs nbf as a number"},
		{`{"nbf":1e300}`, "needs nbf as a number"},
		{`{"aud":"millrace"}`, ""},
		{`{"aud":["https://example.org","millrace"]}`, ""},
		{`{"aud":"https://example.org"}`, "aud does not name this server"},
		{`{"aud":""}`, "aud does not name this server"},
		{`{"aud":[]}`, "aud does not name this server"},
		{`{"aud":["millrace",5]}`, "aud does not name this server"},
		{`{"aud":5}`, "aud does not name this server"},
		{`{"right":null}`, `want "publish" or "read"`},
		{`{"right":"write"}`, `want "publish" or "read"`},
		{`{"right":"Publish"}`, `want "publish" or "read"`},
		{`{"right":["publish"]}`, `want "publish" or "read"`},
		{`{"stream":null}`, "want a stream's name"},
		{`{"stream":""}`, "want a stream's name"},
		{`{"stream":5}`, "want a stream's name"},
		{`{"stream":["cam"]}`, "want a stream's name"},
		{`{"stream":"cam cam"}`, "of A-Z"},
		{`{"stream":"ca*"}`, "* may only stand alone"},
		{`{"stream":"*/cam"}`, "* may only stand alone"},
		{`{"stream":"t/**"}`, "* may only stand alone"},
		{`{"other":"` + strings.Repeat("x", 800) + `"}`, "want 1024 at most"},
	} {
		claims, change := map[string]any{"stream": "cam", "right": "read", "exp": now.Unix()},
			map[string]any{}
		if err := json.Unmarshal([]byte(tt.change), &change); err != nil {
			t.Fatal(err)
		}
		maps.Copy(claims, change)
		maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
		list, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		text := issue(t, jwt.SigningMethodHS256, []byte(secret), `{"alg":"HS256"}`, string(list))
		got, err := keys.Verify(text, now)
		switch {
		case tt.says == "" && (err != nil || got.Right != Read || got.Stream != "cam"),
			tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, %v, want %q", tt.change, got, err, tt.says)
		}
	}
	for _, list := range []string{"", "null", "[]", "5", `{"stream":"cam"`,
		`{"stream":"cam","right":"read","exp":1900000000}{}`} {
		text := issue(t, jwt.SigningMethodHS256, []byte(secret), `{"alg":"HS256"}`, list)
		if got, err := keys.Verify(text, now); err == nil {
			t.Errorf("%s is accepted as %v", list, got)
		}
	}
}

// A token with one changed, added or missing byte is refused.
func TestVerifyRefuses(t *testing.T) {
	keys := parsed(t, "a HS256 "+secret)
	text, err := keys.Sign(Token{Read, "a.b/cam", now})
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		for _, c := range []byte("0aZ.-_*/+= \n\r\x00\xff") {
			if c == text[i] {
				continue
			}
			for _, other := range []string{
				text[:i] + string([]byte{c}) + text[i+1:], text[:i] + string([]byte{c}) + text[i:],
				text[:i] + text[i+1:],
			} {
				if got, err := keys.Verify(other, now); err == nil {
					t.Errorf("%q is accepted as %v", other, got)
				}
			}
		}
	}
	for _, c := range []byte(streamBytes) { // some differ only in bits that base64 does not use
		if other := text[:len(text)-1] + string([]byte{c}); other != text {
			if got, err := keys.Verify(other, now); err == nil {
				t.Errorf("%q is accepted as %v", other, got)
			}
		}
	}
	for _, other := range []string{"", ".", "..", "ey..", "ey.ey.ey", text + "=", text + "\n",
		text + ".", " " + text,
		strings.Repeat(text, 9)} {
		if got, err := keys.Verify(other, now); err == nil {
			t.Errorf("%q is accepted as %v", other, got)
		}
	}
}

func TestKeys(t *testing.T) {
	private, public := edKey(t)
	if parsed(t, NewKey(), NewKey())[0].method != jwt.SigningMethodHS256 {
		t.Error("a new key is not for HS256")
	}
	otherKind, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(otherKind.Public())
	if err != nil {
		t.Fatal(err)
	}
	many := ""
	for range 17 {
		many += NewKey() + "\n"
	}
	for text, says := range map[string]string{
		"":                             "no key",
		"# a HS256 " + secret + "\n\n": "no key",
		secret:                         "line 1 is not KID ALG KEY",
		"a HS256 " + secret + " x":     "line 1 is not KID ALG KEY",
		"a HS256 " + secret[1:]:        "line 1: the secret of HS256 has 31 bytes, want 32 to 256",
		"\na HS256 " + strings.Repeat(
			"x", 257): "line 2: the secret of HS256 has 257 bytes, want 32 to 256",
		"a HS512 " + secret:     "not HS256 or EdDSA",
		"a none " + secret:      "not HS256 or EdDSA",
		"a EdDSA " + secret:     "not one of Ed25519",
		"a EdDSA " + public[1:]: "not one of Ed25519",
		"a EdDSA " + base64.StdEncoding.EncodeToString(der): "not one of Ed25519",
		"a HS256 " + secret + "\na EdDSA " + public:         "line 2 has the kid of a line before it",
		many: "17 keys, want 16 at most",
		"# a\r\na HS256 " + secret + "\r\n\n  b\tEdDSA  " + private: "",
	} {
		keys, err := parseKeys(text)
		if says == "" && (err != nil || len(keys) != 2 || keys[1].id != "b") ||
			says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%.20q: %d keys, %v, want %q", text, len(keys), err, says)
		}
		if err != nil && (strings.Contains(err.Error(), secret) ||
			strings.Contains(err.Error(), private)) {
			t.Errorf("the error has the key: %v", err)
		}
	}
	file := filepath.Join(t.TempDir(), "keys")
	if _, err := ReadKeys(file); err == nil {
		t.Error("there is no such file")
	}
	if err := os.WriteFile(file, []byte(NewKey()), 0o600); err != nil {
		t.Fatal(err)
	}
	if keys, err := ReadKeys(file); err != nil || len(keys) != 1 {
		t.Errorf("%d keys, %v, want 1", len(keys), err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for mode, ok := range map[os.FileMode]bool{0o444: true, 0o664: true, 0o602: false,
		0o666: false} {
		if err := os.Chmod(file, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
		_, err := ReadKeys(file)
		if (err == nil) != ok || err != nil &&
			!strings.Contains(err.Error(), "all users may write it") {
			t.Errorf("mode %#o: %v, want a refusal only if all users may write", mode, err)
		}
	}
}

// The lines of docs/access.md make keys with openssl and a token with PyJWT, with either kind of
// key.
func TestOtherPrograms(t *testing.T) {
	need.Program(t, "openssl")
	page, err := os.ReadFile("../../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string) string {
		_, text, _ := strings.Cut(string(page), "```"+language+"\n")
		text, _, _ = strings.Cut(text, "```")
		return text
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	run := func(program, option, script string) string {
		cmd := exec.Command(program, option, script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("the other program failed: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("sh", "-c", strings.ReplaceAll(block("sh"), "/etc/millrace/keys", "keys")+
		"\necho 'a HS256 "+secret+"' >> keys")
	keys, err := ReadKeys(file)
	if err != nil || len(keys) != 2 {
		t.Fatalf("%d keys, %v, want 2", len(keys), err)
	}
	signing, err := ReadKeys(filepath.Join(dir, "signing-keys"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := signing.Sign(Token{Read, "cam", now}); err != nil {
		t.Error(err)
	} else if _, err := keys.Verify(text, now); err != nil {
		t.Error(err)
	}

	python := need.Python(t, "import jwt, cryptography", "python3-jwt python3-cryptography")
	eddsa := block("python")
	hs256 := strings.NewReplacer(
		`open("private.pem").read()`, `"`+secret+`"`, "EdDSA", "HS256", "2026-11",
		"a").Replace(eddsa)
	for _, script := range []string{eddsa, hs256} {
		text := run(python, "-c", script)
		got, err := keys.Verify(text, time.Now())
		if err != nil || got.Right != Publish || got.Stream != "cam" ||
			time.Until(got.Expires) < time.Hour-time.Minute {
			t.Errorf("%s prints %s, which means %v: %v", script, text, got, err)
		}
	}
}

// A token that is verified has the alg of its key, is not expired, and means the same when it is
// signed again.
func FuzzVerify(f *testing.F) {
	private, public := edKey(f)
	keys := parsed(f, "a HS256 "+secret, "e EdDSA "+public)
	signers := []Keys{parsed(f, "a HS256 "+secret), parsed(f, "e EdDSA "+private)}
	for _, stream := range []string{"cam", "t/*", "*", "a.b.c/d"} {
		for i, k := range signers {
			text, err := k.Sign(Token{Publish, stream, now})
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text, "", byte(2))
			header, claims, err := Decode(text)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(header), string(claims), byte(i))
		}
	}
	f.Add(`{"alg":"none","kid":"a"}`, `{"stream":"cam","right":"read","exp":2e9,"nbf":1.8e9,"aud":["millrace"]}`, byte(0))
	f.Fuzz(func(t *testing.T, text, claims string, signer byte) {
		if signer %= 3; signer < 2 { // otherwise no fuzzed text would pass the signature check
			k := signers[signer][0]
			text = issue(t, k.method, k.private, text, claims)
		}
		got, err := keys.Verify(text, now)
		if err != nil {
			return
		}
		header := struct{ Alg, Kid string }{}
		list, _, err := Decode(text)
		if err == nil {
			err = json.Unmarshal(list, &header)
		}
		want := map[string]string{"a": "HS256", "e": "EdDSA"}[header.Kid]
		if err != nil || header.Alg != want || signer < 2 && keys[signer].id != header.Kid {
			t.Errorf("%q is verified with %s as %q, %v", text, header.Alg, header.Kid, err)
		}
		if !now.Before(got.Expires.Add(Leeway)) || len(text) > maxToken {
			t.Errorf("%q, of %d bytes, expires at %s", text, len(text), got.Expires)
		}
		again, err := signers[0].Sign(got)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := keys.Verify(again, now); err != nil || twice != got {
			t.Errorf("%q means %v, signed again %v, %v", text, got, twice, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	private, public := edKey(b)
	for _, key := range []struct{ alg, signs, verifies string }{{"HS256", secret, secret},
		{"EdDSA", private, public}} {
		b.Run(key.alg, func(b *testing.B) {
			text, err := parsed(b, "a "+key.alg+" "+key.signs).Sign(Token{Read, "tenant/cam", now})
			if err != nil {
				b.Fatal(err)
			}
			keys := parsed(b, "a "+key.alg+" "+key.verifies)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := keys.Verify(text, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
