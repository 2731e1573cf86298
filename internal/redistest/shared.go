package redistest

import (
	"os"
	"sync"
	"testing"
)

// shared is started by the first test that asks for it.
var shared struct {
	sync.Mutex
	server  *Server
	cluster *Cluster
}

// Shared returns the server that all tests of a package share: the first call starts it, and it dies with the test
// binary. It needs no goroutine and no file, so that [leaktest.Main] has nothing to say and nobody has to end it.
//
// Tests use keys of their own and leave its configuration alone. If t fails, it shows what the server wrote meanwhile.
//
// [leaktest.Main]: github.com/millrace-io/millrace/internal/leaktest.Main
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		path := program(t)
		dir, err := os.MkdirTemp("", "redistest")
		if err != nil {
			t.Fatal(err)
		}
		s, err := newServer(path, dir, configure(nil))
		if rmErr := os.RemoveAll(dir); err == nil {
			err = rmErr // the server has read its configuration, and will not write
		}
		if err != nil {
			t.Fatal(err)
		}
		shared.server = s
	}
	shared.server.show(t)
	return shared.server
}

// show logs what the server writes from now on if t fails.
func (s *Server) show(t testing.TB) {
	proc := s.proc.Load()
	from := proc.written()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log of %s:\n%s", s, proc.output(from))
		}
	})
}
