package cluster

import (
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // as the command does
	leaktest.Main(m)
}
