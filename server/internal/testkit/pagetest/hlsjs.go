package pagetest

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
)

const (
	hlsPackage = "hls.js@1.7.4"
	hlsFile    = "package/dist/hls.min.js"
	// hlsSum is the SHA-256 of hlsFile.
	hlsSum = "cfc70cc9e9fc63d071919e087670abc760c8fd1bc889b88588026e4d22193bbe"
	hlsMax = 4 << 20
)

// HLSJS returns the script of hls.js, an HLS player for web pages. It downloads the script with
// npm, and stores it in the user's cache directory if there is one.
func HLSJS(t testing.TB) []byte {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	kept := filepath.Join(cache, "millrace", hlsPackage, filepath.Base(hlsFile))
	if script, err := os.ReadFile(kept); err == nil && sum(script) == hlsSum {
		return script
	}
	npm := need.Program(t, "npm")
	dir := t.TempDir()
	pack := exec.CommandContext(t.Context(), npm, "pack", "--silent", hlsPackage)
	pack.Dir = dir
	name, err := pack.Output()
	if err != nil {
		need.Missing(t, hlsPackage+": npm can fetch it where there is a network")
	}
	script, err := unpack(filepath.Join(dir, strings.TrimSpace(string(name))), hlsFile)
	if err != nil {
		t.Fatal(err)
	}
	if got := sum(script); got != hlsSum {
		t.Fatalf("%s of %s has the SHA-256 %s, want %s", hlsFile, hlsPackage, got, hlsSum)
	}
	// Use a rename to keep the file complete, because another test may write the file at the same
	// time.
	part := filepath.Join(dir, "script")
	if os.MkdirAll(filepath.Dir(kept), 0o755) == nil && os.WriteFile(part, script, 0o644) == nil {
		// If the cache is on another file system, the rename fails, and the next test downloads the
		// script again.
		_ = os.Rename(part, kept)
	}
	return script
}

func sum(p []byte) string {
	s := sha256.Sum256(p)
	return hex.EncodeToString(s[:])
}

// unpack returns the file called name in the npm package at path, which is a tar.gz file.
func unpack(path, name string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", name, filepath.Base(path), err)
		}
		if h.Name == name {
			return io.ReadAll(io.LimitReader(r, hlsMax))
		}
	}
}
