package files

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/millrace-io/millrace/chunk"
)

// A goServer is one of the handlers, served by net/http. It is this program
// again, in a process of its own, so that CPU time and memory are its alone.
type goServer struct{ handler }

func (g goServer) Key() string  { return g.key }
func (g goServer) Name() string { return g.name }
func (g goServer) Check() error { return nil }

// childVar tells the program that it is a server: which, and of what.
const childVar = "MILLRACE_BENCH_FILES"

// An order is what is in childVar.
type order struct {
	Handler string `json:"handler"`
	Site    Site   `json:"site"`
}

// Start implements Contender.
func (g goServer) Start(ctx context.Context, _ string, s Site) (*Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(order{g.key, s})
	if err != nil {
		return nil, err
	}
	cmd := pinned(s.CPUs, self)
	cmd.Env = append(os.Environ(), childVar+"="+string(b))
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	srv, err := start(cmd)
	if err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		srv.Stop()
		return nil, fmt.Errorf("files: %s does not start: %w", g.name, err)
	}
	srv.URL = s.URL(strings.TrimSpace(addr))
	if err := srv.await(ctx); err != nil {
		srv.Stop()
		return nil, err
	}
	return srv, nil
}

// Main must be called before anything else by every program that measures. In
// a server it does not return: it serves until it is killed.
func Main() {
	var o order
	if json.Unmarshal([]byte(os.Getenv(childVar)), &o) != nil {
		return
	}
	if err := serve(o); err != nil {
		log.Fatal(err)
	}
}

func serve(o order) error {
	for _, h := range handlers {
		if h.key == o.Handler {
			return h.serve(o.Site)
		}
	}
	return fmt.Errorf("files: no handler %q", o.Handler)
}

// serve says on standard output where it listens, and serves.
func (h handler) serve(s Site) error {
	files, err := h.make(s.Dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// Clients that are gone at the end of a turn are no news.
	srv := &http.Server{Handler: files, ErrorLog: log.New(io.Discard, "", 0)}
	if h.tuned {
		l = chunk.Listener{Listener: l}
	}
	fmt.Println(l.Addr())
	if s.Cert == "" {
		return srv.Serve(l)
	}
	srv.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13}
	return srv.ServeTLS(l, s.Cert, s.Key)
}
