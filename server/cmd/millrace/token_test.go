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

// What the command prints the server takes.
func TestTokenCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	var key strings.Builder
	if err := execute(t.Context(), &key, io.Discard, "token", "--new-key"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(key.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := token.ReadKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--for", "24h"}, {"--until", time.Now().Add(24 * time.Hour).Format(time.RFC3339)}} {
		var out strings.Builder
		if err := execute(t.Context(), &out, io.Discard, append([]string{"token", "--key", file, "--name", "tenant/*", "--right", "publish"}, args...)...); err != nil {
			t.Fatal(err)
		}
		got, err := keys.Verify(strings.TrimSuffix(out.String(), "\n"))
		if left := time.Until(got.Expires); err != nil || got.Right != token.Publish || got.Name != "tenant/*" || left > 24*time.Hour || left < 23*time.Hour {
			t.Errorf("%v: %s is %v, %v", args, &out, got, err)
		}
	}
	for args, says := range map[string]string{
		"":                                    "--key and --name are needed",
		"--key KEYS":                          "--key and --name are needed",
		"--key KEYS --name cam --right write": "want publish or read",
		"--key KEYS --name cam --for -1h":     "would have expired",
		"--key KEYS --name cam --until soon":  "want a time such as",
		"--key KEYS --name cam --for 1h --until 2030-01-31T20:00:00Z": "two ways",
		"--key KEYS --name c*m":      "* stands alone",
		"--key KEYS-none --name cam": "no such file",
		"--key KEYS --name cam more": "takes no argument",
	} {
		var out strings.Builder
		list := append([]string{"token"}, strings.Fields(args)...)
		for i, arg := range list {
			list[i] = strings.ReplaceAll(arg, "KEYS", file) // its path may have spaces
		}
		if err := execute(t.Context(), &out, io.Discard, list...); err == nil || !strings.Contains(err.Error(), says) || out.Len() > 0 {
			t.Errorf("%s: %s, %v, want %q", args, &out, err, says)
		}
	}
}
