package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// filmSize is enough for many breaks, and odd.
const filmSize = 3<<20 + 7

// shelf makes a directory with a file called film, a year old.
func shelf(t *testing.T) (dir string, content []byte) {
	t.Helper()
	dir, content = t.TempDir(), make([]byte, filmSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	name := filepath.Join(dir, "film")
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // nginx' workers may be another user
		t.Fatal(err)
	}
	old := time.Now().AddDate(-1, 0, 0)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	return dir, content
}

// startServe runs millrace serve, and returns its address.
func startServe(t *testing.T, args ...string) (addr string, log *output) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log = new(output)
	served := make(chan error, 1)
	go func() {
		served <- millrace(ctx, io.Discard, log, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	address := regexp.MustCompile(`address=(\S+)`)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if m := address.FindStringSubmatch(log.String()); m != nil {
			return m[1], log
		}
	}
	t.Fatalf("the server does not say where it listens:\n%s", log)
	return "", nil
}

// startNginx serves dir with nginx, and returns its address.
func startNginx(t *testing.T, dir string) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/nginx") // where Debian has it, and only root looks
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no nginx: apt-get install nginx-light")
		}
		t.Skip("no nginx: apt-get install nginx-light")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	home := t.TempDir()
	conf := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
  server { listen %[2]s; location /files/ { alias %[3]s/; } }
}
`, home, addr, dir)
	if err := os.WriteFile(home+"/nginx.conf", []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-p", home, "-e", home+"/error.log", "-c", home+"/nginx.conf")
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return addr
		}
	}
	t.Fatalf("nginx does not listen: %s", &out)
	return ""
}

// cuttingProxy passes connections on to addr, and breaks each after so many bytes of an answer; 0 for never.
func cuttingProxy(t *testing.T, addr string, after int64) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			passing.Go(func() {
				_, _ = io.Copy(server, client)
				_ = server.Close()
			})
			passing.Go(func() {
				if after > 0 {
					_, _ = io.CopyN(client, server, after)
				} else {
					_, _ = io.Copy(client, server)
				}
				_ = client.Close()
				_ = server.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		passing.Wait()
	})
	return ln.Addr().String()
}

// From each of three servers, through connections that break: in one run, and in one run after the other.
func TestGet(t *testing.T) {
	dir, content := shelf(t)
	for name, start := range map[string]func(t *testing.T) string{
		"millrace": func(t *testing.T) string { addr, _ := startServe(t, "--root", dir); return addr },
		"net/http": func(t *testing.T) string {
			s := httptest.NewServer(http.StripPrefix("/files/", http.FileServer(http.Dir(dir))))
			t.Cleanup(s.Close)
			return s.Listener.Addr().String()
		},
		"nginx": func(t *testing.T) string { return startNginx(t, dir) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := start(t)
			check := func(file string) {
				t.Helper()
				if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 1 {
					t.Errorf("left behind: %v", entries)
				}
			}
			t.Run("whole", func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "film")
				var errs output
				if err := millrace(t.Context(), io.Discard, &errs, "get", "http://"+addr+"/files/film", file); err != nil {
					t.Fatal(err)
				}
				check(file)
				if want := file + ": 3.1 MB\n"; errs.String() != want {
					t.Errorf("%q, want %q", errs.String(), want)
				}
			})
			t.Run("broken", func(t *testing.T) {
				url := "http://" + cuttingProxy(t, addr, 2<<20) + "/files/film"
				file := filepath.Join(t.TempDir(), "film")
				var errs output
				if err := millrace(t.Context(), io.Discard, &errs, "get", url, file); err != nil {
					t.Fatal(err)
				}
				check(file)
				if !strings.Contains(errs.String(), "trying again") || !strings.Contains(errs.String(), "in 2 tries") {
					t.Error(errs.String())
				}
			})
			t.Run("broken, run by run", func(t *testing.T) {
				url := "http://" + cuttingProxy(t, addr, 1<<20) + "/files/film"
				file := filepath.Join(t.TempDir(), "film")
				runs := 1
				for ; ; runs++ {
					err := millrace(t.Context(), io.Discard, io.Discard, "get", "--retries", "0", "--quiet", url, file)
					if err == nil {
						break
					}
					if !strings.Contains(err.Error(), "the same command goes on") {
						t.Fatal(err)
					}
				}
				check(file)
				if runs != 4 {
					t.Errorf("%d runs", runs)
				}
			})
			t.Run("standard output", func(t *testing.T) {
				var out, errs bytes.Buffer
				url := "http://" + cuttingProxy(t, addr, 2<<20) + "/files/film"
				if err := millrace(t.Context(), &out, &errs, "get", "-q", url, "-"); err != nil || !bytes.Equal(out.Bytes(), content) {
					t.Errorf("%d bytes, %v", out.Len(), err)
				}
				if errs.Len() > 0 {
					t.Errorf("in spite of --quiet: %s", &errs)
				}
			})
			t.Run("nothing", func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "film")
				err := millrace(t.Context(), io.Discard, io.Discard, "get", "http://"+addr+"/files/none", file)
				if err == nil || !strings.Contains(err.Error(), "404") {
					t.Error(err)
				}
			})
		})
	}
}

// Ctrl-C keeps what has come, and says how to go on; doing that fetches the rest only.
func TestGetInterrupted(t *testing.T) {
	dir, content := shelf(t)
	addr, log := startServe(t, "--root", dir, "--log-level", "debug")
	const first = 1 << 20
	hold := make(chan struct{})
	// Gives the first half of the file, and then nothing more.
	stalling := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, err := http.Get("http://" + addr + r.URL.Path)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		for _, h := range []string{"Etag", "Last-Modified", "Content-Length"} {
			w.Header().Set(h, res.Header.Get(h))
		}
		_, _ = io.CopyN(w, res.Body, first)
		_ = http.NewResponseController(w).Flush()
		<-hold
	}))
	defer stalling.Close()
	defer close(hold)
	defer http.DefaultClient.CloseIdleConnections()

	file := filepath.Join(t.TempDir(), "film")
	proxied := func(through string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "get", "http://films.example/files/film", file)
		cmd.Env = append(os.Environ(), asCommand+"=1", "http_proxy=http://"+through, "no_proxy=")
		return cmd
	}
	cmd := proxied(stalling.Listener.Addr().String())
	var errs output
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if info, err := os.Stat(file + ".part"); err == nil && info.Size() == first {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%v, %v: %s", info, err, &errs)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	want := fmt.Sprintf("millrace: interrupted; %s.part has %d bytes, and the same command goes on from there\n", file, first)
	if cmd.ProcessState.ExitCode() != 1 || errs.String() != want {
		t.Errorf("%v: %q, want %q", err, errs.String(), want)
	}
	out, err := proxied(addr).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "of which 1 MB were there") {
		t.Errorf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if !strings.Contains(log.String(), fmt.Sprintf("status=206 bytes=%d", filmSize-first)) {
		t.Errorf("the server's log:\n%s", log)
	}
}

// The length of what comes in chunks is not checked, which is said.
func TestGetOfUnknownLength(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "bytes")
	}))
	defer s.Close()
	var errs bytes.Buffer
	file := filepath.Join(t.TempDir(), "file")
	err := millrace(t.Context(), io.Discard, &errs, "get", s.URL, file)
	if err != nil || !strings.Contains(errs.String(), "could not be checked") {
		t.Errorf("%v: %s", err, &errs)
	}
	err = millrace(t.Context(), io.Discard, io.Discard, "get", s.URL, file)
	if err == nil || !strings.Contains(err.Error(), "--force replaces it") {
		t.Error(err)
	}
	if err := millrace(t.Context(), io.Discard, io.Discard, "get", "--force", s.URL, file); err != nil {
		t.Error(err)
	}
}

// A FILE that is empty, as that of a variable which is not set, is not standard output.
func TestGetToNowhere(t *testing.T) {
	var out bytes.Buffer
	err := millrace(t.Context(), &out, io.Discard, "get", "http://127.0.0.1:1/", "")
	if err == nil || !strings.Contains(err.Error(), "FILE is empty") || out.Len() > 0 {
		t.Errorf("%v: %q", err, &out)
	}
}

// What a server sends behind an answer is neither the file's nor shown, in the middle of the output.
func TestGetOfMoreThanTheAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var answering sync.WaitGroup
	answering.Go(func() {
		for _, answer := range []string{
			"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\nsurplus",
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbytessurplus",
		} {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 4<<10))
			_, _ = io.WriteString(conn, answer)
		}
	})
	defer answering.Wait()
	defer ln.Close()
	file := filepath.Join(t.TempDir(), "file")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "get", "http://"+ln.Addr().String(), file)
	cmd.Env = append(os.Environ(), asCommand+"=1", "no_proxy=*")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "surplus") || !strings.Contains(string(out), "503") {
		t.Errorf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "bytes" {
		t.Errorf("%q, %v", got, err)
	}
}

// The bar begins anew with the file, makes room for notes, and leaves nothing.
func TestByteBar(t *testing.T) {
	var out bytes.Buffer
	b := newByteBar(&out, true)
	for _, all := range []int64{1000, -1, 0} {
		for have := int64(0); have <= all; have += 100 {
			b.show(have, all)
		}
		b.show(max(all, 0), all)
		b.note("broken")
	}
	b.show(10, 1000)
	b.close()
	if n := strings.Count(out.String(), "millrace: broken\n"); n != 3 {
		t.Errorf("%d notes in %q", n, &out)
	}
	out.Reset()
	b = newByteBar(&out, false)
	b.show(10, 1000)
	b.close()
	if out.Len() > 0 {
		t.Errorf("drawn: %q", &out)
	}
}
