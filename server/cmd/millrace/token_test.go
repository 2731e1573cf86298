package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/token"
)

// The server and --inspect accept the tokens that the command prints.
func TestTokenCommand(t *testing.T) {
	dir := t.TempDir() // its path may contain spaces
	run := func(args string) (string, error) {
		var out strings.Builder
		list := append([]string{"token"}, strings.Fields(args)...)
		for i, arg := range list {
			list[i] = strings.ReplaceAll(arg, "DIR", dir)
		}
		err := execute(t.Context(), &out, io.Discard, list...)
		return out.String(), err
	}
	for _, name := range []string{"keys", "others"} {
		key, err := run("--new-key")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := token.ReadKeys(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for _, args := range []string{"--for 24h",
		"--until " + time.Now().Add(24*time.Hour).Format(time.RFC3339)} {
		out, err := run("--key DIR/keys --stream tenant/* --right publish " + args)
		if err != nil {
			t.Fatal(err)
		}
		text = strings.TrimSuffix(out, "\n")
		got, err := keys.Verify(text, time.Now())
		left := time.Until(got.Expires)
		if err != nil || got.Right != token.Publish || got.Stream != "tenant/*" ||
			left > 24*time.Hour || left < 23*time.Hour {
			t.Errorf("%v: %s is %v, %v, want a token for a day", args, out, got, err)
		}
	}
	out, err := run("--key DIR/keys --inspect " + text)
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) != 4 || !strings.HasPrefix(lines[0], `{"alg":"HS256","kid":"20`) ||
		!strings.HasSuffix(lines[1], `,"right":"publish","stream":"tenant/*"}`) ||
		!strings.HasPrefix(lines[2], "valid until 20") {
		t.Errorf("--inspect: %s, %v, want header, claims and time", out, err)
	}
	late, err := keys.Sign(token.Token{Right: token.Read, Stream: "cam",
		Expires: time.Now().Add(-time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if out, err = run("--key DIR/keys --inspect " + late); err != nil ||
		!strings.Contains(out, "and taken for 30s more") {
		t.Errorf("--inspect of a token that has just expired: %s, %v", out, err)
	}
	out, err = run("--key DIR/others --inspect " + text)
	if err == nil || !strings.Contains(err.Error(), "no key with the token's kid") ||
		!strings.Contains(out, "tenant/*") {
		t.Errorf("--inspect with another key: %s, %v", out, err)
	}

	for args, says := range map[string]string{
		"":               "--key is needed, and --stream or --inspect",
		"--key DIR/keys": "--key is needed, and --stream or --inspect",
		"--stream cam":   "--key is needed, and --stream or --inspect",
		"--key DIR/keys --stream cam --inspect " + text:                     "--key is needed, and --stream or --inspect",
		"--key DIR/keys --inspect mine":                                     "malformed",
		"--key DIR/keys --stream cam --right write":                         `want "publish" or "read"`,
		"--key DIR/keys --stream cam --for -1h":                             "would have expired",
		"--key DIR/keys --stream cam --until soon":                          "want a time such as",
		"--key DIR/keys --stream cam --for 1h --until 2030-01-31T20:00:00Z": "use either",
		"--key DIR/keys --stream c*m":                                       "* may only stand alone",
		"--key DIR/none --stream cam":                                       "no such file",
		"--key DIR/keys --stream cam more":                                  "takes no argument",
	} {
		if out, err := run(args); err == nil || !strings.Contains(err.Error(), says) || out != "" {
			t.Errorf("%s: %s, %v, want %q", args, out, err, says)
		}
	}
}
