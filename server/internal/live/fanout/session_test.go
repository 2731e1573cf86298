package fanout

import (
	"testing"
	"testing/synctest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// A peerSession is the Session of a peer, and counts the calls.
type peerSession struct {
	*fixture
	current, complete bool

	begun int // bytes of the batches passed to Begin
	sent  int
	ended []Reason
	total int64
}

func (p *peerSession) Owned() bool                         { return p.current }
func (p *peerSession) Complete() bool                      { return p.complete }
func (p *peerSession) Begin(batch *millrace.Chain, at int) { p.begun += batch.Len() - at }
func (p *peerSession) Sent(n int)                          { p.sent += n }
func (p *peerSession) Ended(why Reason, sent int64, _ broadcast.Missed) {
	p.ended, p.total = append(p.ended, why), sent
}

// A peer gets frames while its session is current, then the rest of the ring, and the end of the
// response if the session is complete. The session is told about the sent bytes, and once about the
// end.
func TestPeer(t *testing.T) {
	for _, complete := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(Config{Stall: testTimeout})
			p := &peerSession{fixture: f, current: true, complete: complete}
			f.publish(t, "key.", true)
			conn := newMemoryConn(pathWritev)
			v := f.NewViewer(ViewerConfig{Session: p, Conn: conn, Peer: true, Start: f.Restart()})
			v.Append([]byte("head."))
			var end millrace.Chain
			end.AppendCopy([]byte("end."))
			v.SetEnd(&end)
			f.Start(v, f.pause, func() { <-conn.gone })
			got := func(want string) {
				t.Helper()
				synctest.Wait()
				conn.mu.Lock()
				defer conn.mu.Unlock()
				if string(conn.got) != want {
					t.Errorf("it got %q, want %q", conn.got, want)
				}
			}
			got("head.key.")
			f.publish(t, "a.", false)
			got("head.key.a.")
			p.current = false
			f.publish(t, "b.", false)
			got("head.key.a.")
			p.current = true
			f.publish(t, "c.", false)
			got("head.key.a.b.c.")
			p.current = false
			f.publish(t, "d.", false)
			f.Close(StreamEnded)
			all := "head.key.a.b.c.d."
			if complete {
				all += "end."
			}
			got(all)
			if p.begun != len("key.") || p.sent != len(all) || p.total != int64(len(all)) ||
				len(p.ended) != 1 || p.ended[0] != StreamEnded {
				t.Errorf("the session is told of %d, %d and %d bytes, and of %v", p.begun, p.sent,
					p.total, p.ended)
			}
			if live := f.Lag().Live; live != 0 {
				t.Errorf("a peer is %v behind live", live)
			}
		})
	}
}
