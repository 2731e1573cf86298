package measure

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const nginxHead = `worker_processes 1;
error_log /dev/null crit;
pid nginx.pid;
`

// NginxModule returns the path of one of nginx's dynamic modules in this distribution, such as rtmp
// or stream. The error wraps [ErrMissing] if nginx or the module is not installed.
func NginxModule(name string) (string, error) {
	packages := "nginx libnginx-mod-" + name
	if _, err := Find("nginx", packages); err != nil {
		return "", err
	}
	for _, dir := range []string{"/usr/lib", "/usr/lib64", "/usr/share"} {
		module := dir + "/nginx/modules/ngx_" + name + "_module.so"
		if _, err := os.Stat(module); err == nil {
			return module, nil
		}
	}
	return "", Missing("nginx's "+name+" module", packages)
}

// StartNginx starts nginx with one worker, and writes the configuration file to dir. The function
// conf returns the part of the configuration that depends on the address. The caller must call
// Stop.
func StartNginx(ctx context.Context, dir string, conf func(addr string) string) (*Server, error) {
	path, err := Find("nginx", "nginx")
	if err != nil {
		return nil, err
	}
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(name, []byte(nginxHead+conf(addr)), 0o644); err != nil {
		return nil, err
	}
	srv, err := StartServer(ctx, addr, exec.Command(path, "-p", dir, "-c", name, "-e", "stderr",
		"-g", "daemon off;"))
	if err != nil {
		return nil, err
	}
	if srv.PIDs, err = worker(srv.PIDs[0]); err != nil {
		srv.Stop()
		return nil, err
	}
	return srv, nil
}

// worker waits for the worker process of nginx and returns its PID. The master process is not
// measured, because it does no work and shares its memory with the worker.
func worker(master int) ([]int, error) {
	for range 250 {
		pids := slices.DeleteFunc(childrenOf(master),
			func(pid int) bool { return !strings.Contains(title(pid), "worker process") })
		if len(pids) == 1 {
			return pids, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.New("measure: nginx does not have one worker")
}
