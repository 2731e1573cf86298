package server

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// A server that shuts down asks RTMP publishers that support it to reconnect, over TCP and TLS, and
// accepts their data until they do. Other publishers are disconnected.
func TestPublishersAreAskedToConnectAgain(t *testing.T) {
	t.Parallel()
	const request = "NetConnection.Connect.ReconnectRequest"
	cert, key := writeCertificate(t, t.TempDir(), 1)
	f := serveRTMP(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	sample := sampleTags()
	var clients sync.WaitGroup
	defer clients.Wait()
	for _, tt := range []struct {
		name  string
		tls   bool
		caps  float64
		stays bool
	}{{"plain", false, 1, false}, {"over-tls", true, 15, false}, {"stays", false, 1, true},
		{"old", false, 6, true}} {
		var conn net.Conn = dial(t, f.rtmp, 0)
		if tt.tls {
			conn = tls.Client(dial(t, f.rtmps, 0), &tls.Config{InsecureSkipVerify: true})
		}
		c := livetest.NewRTMP(t, conn)
		c.Connect("live", rtmp.Property{Name: "capsEx", Value: tt.caps})
		if s := c.Publish(tt.name); s.Level != "status" {
			t.Fatalf("publishing %s was refused: %+v", tt.name, s)
		}
		told := make(chan struct{})
		clients.Go(func() { // like an encoder, it continues to send up to a keyframe
			for {
				if c.SendTags(sample...) != nil {
					return
				}
				select {
				case <-told:
					c.Call(rtmp.Stream, "deleteStream", nil, 1)
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
		clients.Go(func() {
			asked := false
			for {
				m, err := c.Next()
				if err != nil {
					if asked != (tt.caps != 6) {
						t.Errorf("%s: asked to connect again: %v, want %v", tt.name, asked,
							tt.caps != 6)
					}
					return
				}
				s, _ := m.Status()
				if s.Code == request {
					asked = true
					if !tt.stays {
						close(told)
					}
				}
			}
		})
	}
	f.stop()
	for name, status := range map[string]string{"plain": "200", "over-tls": "200", "stays": "503",
		"old": "503"} {
		f.Logged("publisher ended", "stream="+name+" ", "status="+status)
	}
}
