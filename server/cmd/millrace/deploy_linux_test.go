package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/childproc"
	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// The image of deploy/Containerfile is built. Its command serves in the image without any other
// program and without privileges, and reports that it is healthy. The result of the first stage is
// supplied, because compiling needs downloads.
func TestImage(t *testing.T) {
	t.Parallel()
	buildah := need.Program(t, "buildah")
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	stage := filepath.Join(dir, "stage")
	if err := os.MkdirAll(filepath.Join(stage, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stage, "out", "ca-certificates.crt"), nil,
		0o644); err != nil {
		t.Fatal(err)
	}
	run := func(cmd *exec.Cmd) string {
		t.Helper()
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s in the image failed: %v\n%s%s", cmd, err, out, &problems)
		}
		return strings.TrimSpace(string(out))
	}
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(stage, "out", "millrace"),
		".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	run(build)
	// As in the first stage, independent of the umask.
	if err := os.Chmod(filepath.Join(stage, "out", "millrace"), 0o755); err != nil {
		t.Fatal(err)
	}
	store := []string{"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"),
		"--storage-driver", "vfs"}
	do := func(args ...string) string {
		t.Helper()
		return run(exec.Command(buildah, append(store, args...)...))
	}
	do("build", "--format", "docker", "--build-context", "build="+stage, "-f",
		"../../../deploy/Containerfile", "-t", "millrace", "../../../deploy")
	container := do("from", "millrace")
	root := do("mount", container)
	defer do("umount", container)
	if got := do("inspect", "--format",
		"{{.Docker.Config.Healthcheck.Test}} {{.Docker.Config.User}}",
		container); got != "[CMD /millrace healthcheck] 65534:65534" {
		t.Errorf("the image has %s", got)
	}

	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/millrace", args...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
			Credential: &syscall.Credential{Uid: 65534, Gid: 65534},
			Pdeathsig:  syscall.SIGKILL}
		return cmd
	}
	if got := run(inside("version")); !strings.HasPrefix(got, "millrace ") {
		t.Errorf("its version is %q", got)
	}
	addr := nettest.FreeAddr(t)
	server := inside("serve", "--listen", addr, "--rtmp=")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	eventually(t, "the server to be healthy",
		func() bool { return inside("healthcheck", "--url", "http://"+addr).Run() == nil })
}

// healthcheck fails if there is no server, and if the server does not serve. The server's
// certificate may be for another name.
func TestHealthcheck(t *testing.T) {
	status := http.StatusOK
	ts := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("it asks for %s", r.URL)
		}
		w.WriteHeader(status)
	}))
	check := func() error {
		return execute(t.Context(), io.Discard, io.Discard, "healthcheck", "--url", ts.URL)
	}
	for _, path := range []string{"", "/", "/healthz"} {
		if err := execute(t.Context(), io.Discard, io.Discard, "healthcheck", "--url",
			ts.URL+path); err != nil {
			t.Errorf("--url ADDRESS%s: %v", path, err)
		}
	}
	status = http.StatusServiceUnavailable
	if err := check(); err == nil || exitStatus(err) != 1 {
		t.Errorf("of a server that shuts down: %v", err)
	}
	ts.Close()
	if err := check(); err == nil || exitStatus(err) != 1 {
		t.Errorf("of none: %v", err)
	}
	if err := execute(t.Context(), io.Discard, io.Discard, "healthcheck", "--url",
		":"); err == nil || exitStatus(err) != 2 {
		t.Errorf("of no address: %v", err)
	}
}

// The server uses systemd's sockets for the listeners that their names identify, and ignores the
// addresses of its flags. An unknown name ends the command.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	program := need.Program(t, "systemd-socket-activate")
	activate := func(log io.Writer, name string) (main, second string) {
		t.Helper()
		main, second = nettest.FreeAddr(t), nettest.FreeAddr(t)
		cmd := exec.Command(program, "-l", main, "-l", second, "--fdname=main:"+name, "-E",
			asCommand,
			os.Args[0], "serve", "--demo", "--listen", "127.0.0.1:1", "--rtmp", "127.0.0.1:1")
		cmd.Env = append(os.Environ(), asCommand+"=1")
		cmd.Stdout, cmd.Stderr = log, log
		var guard childproc.Guard
		if err := guard.Start(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			guard.Release()
		})
		return main, second
	}
	var log output
	main, rtmp := activate(&log, "rtmp")
	eventually(t, "it to serve", func() bool { // systemd starts it at the first connection
		return status("http://"+main+"/healthz") == http.StatusOK
	})
	for _, line := range []string{`msg=listening address=` + main,
		`msg="RTMP listening" address=` + rtmp} {
		eventually(t, "the log to say "+line,
			func() bool { return strings.Contains(log.String(), line) })
	}
	for name, says := range map[string]string{"rtmps": "the listener rtmps needs --tls-cert",
		"http":  "the listener http needs --tls-cert",
		"other": `a listener is named "other", want main`} {
		var log output
		main, _ := activate(&log, name)
		eventually(t, "it to say "+says, func() bool {
			// A connection starts the server, which ends at once. The connection may therefore
			// fail.
			if conn, err := net.DialTimeout("tcp", main, time.Second); err == nil {
				_ = conn.Close()
			}
			return strings.Contains(log.String(), says)
		})
	}
}
