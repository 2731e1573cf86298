package rtmp

import (
	"log/slog"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/server/internal/live"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// testConfig keeps few frames, so that the steady state is reached soon.
func testConfig() live.Config {
	return live.Config{MaxStreams: 1, MaxViewers: 1, MaxStreamViewers: 1,
		PublishTimeout: time.Minute, StallTimeout: time.Minute,
		KeepBytes: 16 << 20, KeepFrames: 64, MaxTagBytes: 4 << 20,
		Log: slog.New(slog.DiscardHandler)}
}
