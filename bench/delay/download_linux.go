package delay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/chunk"
)

// A Contender is a server that sends the files of a directory.
type Contender struct {
	name  string
	check func() error
	start func(h *Host, dir string) (addr string, stop func(), err error)
}

// Name says who it is.
func (s Contender) Name() string { return s.name }

// Check returns an error if the server is not installed.
func (s Contender) Check() error { return s.check() }

// Contenders are those that are compared. Ours is the first.
var Contenders = []Contender{
	inGo("chunk.FileServer", func(root *os.Root) http.Handler { return chunk.FileServer(root) }),
	inGo("chunk.FileServer, SendBuffer(0)", func(root *os.Root) http.Handler {
		return chunk.FileServer(root, chunk.SendBuffer(0))
	}),
	inGo("http.FileServer", func(root *os.Root) http.Handler { return http.FileServerFS(root.FS()) }),
	{name: "nginx", check: findNginx, start: startNginx},
}

// inGo is a server in this process.
func inGo(name string, handler func(*os.Root) http.Handler) Contender {
	return Contender{name: name, check: func() error { return nil }, start: func(h *Host, dir string) (string, func(), error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return "", nil, err
		}
		l, err := h.Listen()
		if err != nil {
			return "", nil, err
		}
		s := &http.Server{Handler: handler(root)}
		go s.Serve(chunk.Listener{Listener: l})
		return l.Addr().String(), func() { _ = s.Close(); _ = root.Close() }, nil
	}}
}

const nginxConf = `worker_processes 1;
daemon off;
error_log stderr crit;
pid %[1]s/nginx.pid;
events { }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    server { listen %[2]s:8081; root %[3]s; }
}
`

func findNginx() error {
	_, err := measure.Find("nginx", "nginx")
	return err
}

func startNginx(h *Host, dir string) (addr string, stop func(), err error) {
	path, err := measure.Find("nginx", "nginx")
	if err != nil {
		return "", nil, err
	}
	own, err := os.MkdirTemp("", "nginx")
	if err != nil {
		return "", nil, err
	}
	conf := filepath.Join(own, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, own, h.IP, dir), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(path, "-c", conf, "-p", own)
	cmd.Stderr = os.Stderr
	h.Do(func() { err = cmd.Start() }) // which inherits the network
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = os.RemoveAll(own)
	}
	return h.IP + ":8081", stop, nil
}

// Download fetches a file on a connection of its own, and returns how long that took from the request on.
func (l *Line) Download(ctx context.Context, s Contender, dir, name string, size int64) (time.Duration, error) {
	addr, stop, err := s.start(l.Server, dir)
	if err != nil {
		return 0, err
	}
	defer stop()
	var conn net.Conn
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) { // nginx takes a moment
		if conn, err = l.Client.Dial(addr); err == nil {
			break
		}
		if time.Since(begun) > 5*time.Second {
			return 0, err
		}
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/"+name, nil)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size {
		return 0, fmt.Errorf("delay: %s sent %d bytes of %d: %w", s.name, n, size, err)
	}
	return time.Since(begun), nil
}
