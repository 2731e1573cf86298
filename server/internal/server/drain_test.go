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

// A reconnectingClient is an RTMP publisher of TestPublishersAreAskedToConnectAgain.
type reconnectingClient struct {
	name   string
	tls    bool
	caps   float64 // the property capsEx of the request to connect
	stays  bool    // it does not leave when it is asked
	status string  // how the server ends it
}

// A server that shuts down asks RTMP publishers that support it to reconnect, over TCP and TLS, and
// accepts their data until they do. Other publishers are disconnected.
func TestPublishersAreAskedToConnectAgain(t *testing.T) {
	t.Parallel()
	cert, key := writeCertificate(t, t.TempDir(), 1)
	f := serveRTMP(t, func(c *Config) {
		c.TLSCert, c.TLSKey, c.DrainTimeout = cert, key, testTimeout
	})
	f.reconnectWait = testTimeout // the clients leave as soon as a busy machine lets them
	f.askToReconnect([]reconnectingClient{{"plain", false, 1, false, "200"},
		{"over-tls", true, 15, false, "200"}, {"old", false, 6, true, "503"}})
}

// A publisher that does not reconnect is disconnected after a while.
func TestPublisherThatDoesNotReconnect(t *testing.T) {
	t.Parallel()
	f := serveRTMP(t, func(c *Config) { c.DrainTimeout = testTimeout })
	f.askToReconnect([]reconnectingClient{{"stays", false, 1, true, "503"}})
}

// askToReconnect stops the server while clients publish, and checks how they end.
func (f *rtmpFixture) askToReconnect(list []reconnectingClient) {
	t := f.T
	const request = "NetConnection.Connect.ReconnectRequest"
	sample := sampleTags()
	var clients sync.WaitGroup
	defer clients.Wait()
	for _, tt := range list {
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
	for _, tt := range list {
		f.Logged("publisher ended", "stream="+tt.name+" ", "status="+tt.status)
	}
}
