// Package need is for tests that need a program or a feature of the kernel that this machine may
// not have. If the program or feature is missing, the test is skipped, and make test lists at its
// end what to install. If CI is "true", the test fails instead.
package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// packages maps programs to their Debian packages, if the names differ.
var packages = map[string]string{
	"Xvfb":            "xvfb",
	"ffprobe":         "ffmpeg",
	"gst-inspect-1.0": "gstreamer1.0-tools",
	"gst-launch-1.0":  "gstreamer1.0-tools",
	"nginx":           "nginx-light",
	"obs":             "obs-studio xvfb libgl1-mesa-dri",

	"pebble-challtestsrv": "pebble",

	"systemd-socket-activate": "systemd",
	"systemd-analyze":         "systemd",
	"valkey-server":           "valkey",
}

// Program returns the path of the first installed program of name and others. If none is installed,
// the test is skipped, or fails on CI.
func Program(t testing.TB, name string, others ...string) string {
	t.Helper()
	for _, n := range append([]string{name}, others...) {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
		// Debian installs nginx here, but the directory is only in root's PATH.
		if path, err := exec.LookPath("/usr/sbin/" + n); err == nil {
			return path
		}
	}
	pkg := packages[name]
	if pkg == "" {
		pkg = name
	}
	Missing(t, name+": apt-get install "+pkg)
	return ""
}

// Python returns a Python that runs the statement check, such as "import jwt". If there is none,
// the test is skipped, or fails on CI. packages are the names of the Debian packages that it needs.
func Python(t testing.TB, check, packages string) string {
	t.Helper()
	// Debian's Python has Debian's packages, and another one in the path perhaps not.
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", check).Run() == nil {
			return python
		}
	}
	Missing(t, "Python with "+check+": apt-get install "+packages)
	return ""
}

// NginxModule returns the line of nginx.conf that loads a module. path is the path of the nginx
// program, and module is "stream" or "rtmp". If the module is compiled in, the line is "". If the
// module is missing, the test is skipped, or fails on CI.
func NginxModule(t testing.TB, path, module string) (line string) {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "nginx.conf")
	lines := []string{""}
	for _, lib := range []string{"/usr/lib", "/usr/lib64", "/usr/share"} {
		lines = append(lines, "load_module "+lib+"/nginx/modules/ngx_"+module+"_module.so;")
	}
	for _, line := range lines {
		text := line + " pid pid; error_log stderr; events {} " + module + " {}"
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if exec.Command(path, "-t", "-p", dir, "-c", conf).Run() == nil {
			return line
		}
	}
	Missing(t, "nginx' "+module+" module: apt-get install libnginx-mod-"+module)
	return ""
}

// Missing skips the test because a program or feature is missing. On CI, it fails the test. desc is
// the name of the program or feature, a colon, and the remedy, such as "PyJWT: apt-get install
// python3-jwt".
func Missing(t testing.TB, desc string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("needs " + desc)
		return // in case the Fatal of a fake t returns
	}
	record(t.Name() + ": needs " + desc + "\n")
	t.Skip("needs " + desc)
}

// listEnv is the environment variable that names the list file. Each skipped test adds a line with
// its missing program or feature to the file, and scripts/needs prints the file at the end of a
// run. If the variable is not set, there is no list.
const listEnv = "MILLRACE_NEEDS"

// record appends a line to the list file, if any. It ignores errors, which must not fail the test.
func record(line string) {
	name := os.Getenv(listEnv)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(line)
}
