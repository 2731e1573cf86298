//go:build unix

package download

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// diskSize is how many bytes a file may have there.
const diskSize = 64 << 10

// fillDisk is what the process of smallDisk does. It prints the error.
func fillDisk() int {
	limit := syscall.Rlimit{Cur: diskSize, Max: diskSize}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println(err)
		return 2
	}
	cfg := Defaults()
	cfg.URL, cfg.Path, _ = strings.Cut(os.Getenv(smallDisk), " ")
	if _, err := Run(context.Background(), cfg); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A disk that takes no more ends the download with its own error, keeps what it has, and can be gone on with.
func TestTheDiskIsFull(t *testing.T) {
	content := noise(1, 200<<10)
	s := &site{content: content, etag: `"v1"`}
	f := newFetch(t, start(t, s))
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), smallDisk+"="+f.URL+" "+f.Path)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"the file cannot be written", "file too large", fmt.Sprintf("has %d bytes", diskSize), "goes on"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d tries", n)
	}
	f.holds(".part", content[:diskSize])
	f.succeeds(t.Context(), content)
}

func TestWhatIsThereStays(t *testing.T) {
	content := noise(1, 1000)
	url := start(t, &site{content: content, etag: `"v1"`})
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(elsewhere, "precious")
	for _, tt := range []struct {
		name    string
		prepare func(path string) error
		says    string // without --force
		force   string // with it; "": the file is downloaded
	}{
		{"a file", func(p string) error { write(p, "precious"); return nil }, "is there already: --force", ""},
		{"a link", func(p string) error { return os.Symlink(elsewhere, p) }, "is there already: --force", ""},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o755) }, "is a directory", "is a directory"},
		{"a pipe", func(p string) error { return syscall.Mkfifo(p, 0o644) }, "no regular file: use -", "no regular file: use -"},
		{"a part of unknown origin", func(p string) error {
			write(p+".part", "precious")
			return nil
		}, "does not say what it is: --force", ""},
		{"a part with a broken origin", func(p string) error {
			write(p+".part", "precious")
			write(p+".part.info", strings.Repeat("[", 100<<10))
			return nil
		}, "does not say what it is: --force", ""},
		{"a part longer than its origin says", func(p string) error {
			o := originAt(url)
			o.ETag, o.Length = `"v1"`, 3
			write(p+".part", "precious")
			return (&part{path: p}).remember(o)
		}, "does not say what it is: --force", ""},
		{"a linked part", func(p string) error { return os.Symlink(elsewhere, p+".part") }, "symbolic link", "symbolic link"},
		{"a pipe as part", func(p string) error { return syscall.Mkfifo(p+".part", 0o644) }, "no file that could be written", "no file"},
		{"no directory", func(p string) error { return os.Remove(filepath.Dir(p)) }, "no such file", "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFetch(t, url)
			if err := tt.prepare(f.Path); err != nil {
				t.Fatal(err)
			}
			if _, err := Run(t.Context(), f.Config); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
			f.Force = true
			if tt.force == "" {
				f.succeeds(t.Context(), content)
			} else if _, err := Run(t.Context(), f.Config); err == nil || !strings.Contains(err.Error(), tt.force) {
				t.Errorf("with --force: %v, want %q", err, tt.force)
			}
			if p, err := os.ReadFile(elsewhere); err != nil || string(p) != "precious" {
				t.Errorf("%q, %v", p, err)
			}
		})
	}
}

// A file that comes while the download runs is not replaced, and nothing is lost.
func TestAFileThatComesMeanwhile(t *testing.T) {
	content := noise(1, 1000)
	f := newFetch(t, start(t, &site{content: content, etag: `"v1"`}))
	f.Progress = func(have, _ int64) {
		if have == 1000 {
			_ = os.WriteFile(f.Path, []byte("precious"), 0o644)
		}
	}
	if _, err := Run(t.Context(), f.Config); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Error(err)
	}
	f.holds("", []byte("precious"))
	f.holds(".part", content)
	f.Force, f.Progress = true, nil
	f.succeeds(t.Context(), content)
}

// A pipe that comes while the download runs is not replaced either, and what was downloaded is kept.
func TestAPipeThatComesMeanwhile(t *testing.T) {
	content := noise(1, 1000)
	f := newFetch(t, start(t, &site{content: content, etag: `"v1"`}))
	f.Force = true
	f.Progress = func(have, _ int64) {
		if have == 1000 {
			_ = syscall.Mkfifo(f.Path, 0o644)
		}
	}
	if _, err := Run(t.Context(), f.Config); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Error(err)
	}
	if info, err := os.Lstat(f.Path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v, want a pipe", info, err)
	}
	f.holds(".part", content)
}

// Two downloads of one file do not write to the same part.
func TestTwoAtATime(t *testing.T) {
	f := newFetch(t, start(t, &site{content: noise(1, 1000), etag: `"v1"`}))
	p := &part{path: f.Path}
	if _, _, err := p.open(originAt(f.URL)); err != nil {
		t.Fatal(err)
	}
	f.fails(t.Context(), "another process")
	if err := p.close(); err != nil {
		t.Error(err)
	}
	f.succeeds(t.Context(), noise(1, 1000))
}
