package soak

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// A server that has a value which broke off, so it says, is wrong. It may take some tries to say so in time.
func TestABrokenPutThatIsConfirmed(t *testing.T) {
	ln := listen()
	var serving sync.WaitGroup
	defer serving.Wait()
	defer ln.Close()
	serving.Go(func() { confirmAtOnce(ln) })
	var done tally
	s := &shift{server: newServer("hasty", &Config{}, "", &done, &faults{}), working: t.Context(), hard: t.Context()}
	defer s.hangUp()
	reg, r := &register{key: "k"}, rand.New(rand.NewPCG(1, 2))
	for range 200 {
		err := s.breakPut(reg, r, "http://"+ln.Addr().String())
		if isWrong(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("%d were taken for broken", done.BrokenPuts.Load())
}

// confirmAtOnce answers a request on each connection when its first line has come, until the listener is closed.
func confirmAtOnce(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		r := bufio.NewReader(conn)
		if _, err := r.ReadString('\n'); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			_, _ = io.Copy(io.Discard, r) // to the client's end
		}
		_ = conn.Close()
	}
}
