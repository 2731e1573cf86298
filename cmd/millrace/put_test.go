package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/redistest"
)

// What put uploads is what get downloads, from a file or from standard input, whatever the server keeps it in.
func TestPutAndGet(t *testing.T) {
	dir, film := shelf(t)
	for name, args := range map[string][]string{
		"a directory": {"--blobs", t.TempDir()},
		"Redis":       {"--redis", "redis://" + redistest.Shared(t).Addr(), "--redis-prefix", t.Name()},
	} {
		t.Run(name, func(t *testing.T) {
			addr, _ := startServe(t, args...)
			base := "http://" + addr + "/blobs/"
			for _, tt := range []struct {
				args, stdin string
				url         string // where it is then
				says        string
				err         string
			}{
				{args: "put FILM URL", url: "film", says: "/blobs/film: 3.1 MB, created"},
				{args: "put FILM URL", url: "film", says: "replaced"},
				{args: "put FILM URLfilms/1 --ttl 1h", url: "films/1", says: "/blobs/films/1: 3.1 MB, created"},
				{args: "put - URLpiped", stdin: string(film), url: "piped", says: "3.1 MB, created"},
				{args: "put --if-absent FILM URLfilm", err: "--if-absent"},
				{args: "put - URL", err: "whole URL"},
				{args: "put FILMS URL", err: "no such file"},
				{args: "put FILM URLa//", err: "slashes"},
				{args: "put --ttl -1s FILM URL", err: "--ttl"},
				{args: "put --retries 0 FILM http://127.0.0.1:1/blobs/", err: "refused"},
				{args: "put --quiet FILM URLquiet", url: "quiet"},
			} {
				line := strings.NewReplacer("FILM", filepath.Join(dir, "film"), "URL", base).Replace(tt.args)
				var errs bytes.Buffer
				root := command()
				root.SetArgs(strings.Fields(line))
				root.SetIn(strings.NewReader(tt.stdin))
				root.SetOut(io.Discard)
				root.SetErr(&errs)
				err := root.ExecuteContext(t.Context())
				if tt.err != "" {
					if err == nil || !strings.Contains(err.Error(), tt.err) {
						t.Errorf("%s: %v, want %q", tt.args, err, tt.err)
					}
					continue
				}
				if err != nil || !strings.Contains(errs.String(), tt.says) || tt.says == "" && errs.Len() > 0 {
					t.Errorf("%s: %v, %q", tt.args, err, &errs)
				}
				to := filepath.Join(t.TempDir(), "back")
				if err := millrace(t.Context(), io.Discard, io.Discard, "get", base+tt.url, to); err != nil {
					t.Errorf("get: %v", err)
				}
				if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, film) {
					t.Errorf("%s: %d bytes came back, %v", tt.args, len(got), err)
				}
			}
		})
	}
}

// The token comes from the flag or from the environment.
func TestPutShowsTheToken(t *testing.T) {
	dir, _ := shelf(t)
	addr, _ := startServe(t, "--blobs", t.TempDir(), "--publish-token", "secret")
	put := []string{"put", filepath.Join(dir, "film"), "http://" + addr + "/blobs/"}
	if err := millrace(t.Context(), io.Discard, io.Discard, put...); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without: %v", err)
	}
	if err := millrace(t.Context(), io.Discard, io.Discard, append(put, "--token", "secret")...); err != nil {
		t.Error(err)
	}
	t.Setenv(tokenVar, "secret")
	if err := millrace(t.Context(), io.Discard, io.Discard, put...); err != nil {
		t.Error(err)
	}
}

func TestPutURL(t *testing.T) {
	for _, tt := range []struct{ file, to, want string }{
		{"dir/film.mp4", "", "http://127.0.0.1:8080/blobs/film.mp4"},
		{"dir/a b?.mp4", "", "http://127.0.0.1:8080/blobs/a%20b%3F.mp4"},
		{"film", "http://host/blobs/x/", "http://host/blobs/x/film"},
		{"film", "http://host/blobs/y", "http://host/blobs/y"},
		{"-", "http://host/blobs/y", "http://host/blobs/y"},
		{"-", "", ""},
	} {
		args := []string{tt.file, tt.to}
		if tt.to == "" {
			args = args[:1]
		}
		if got, err := putURL(args); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%q: %s, %v", args, got, err)
		}
	}
}
