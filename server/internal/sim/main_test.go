package sim

import (
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/redis/go-redis/v9/logging"
)

func TestMain(m *testing.M) {
	logging.Disable() // Redis fails deliberately
	leaktest.Main(m)
}
