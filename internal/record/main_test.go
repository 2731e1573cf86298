package record

import (
	"os"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirectory); dir != "" {
		recordUntilKilled(dir)
	}
	leaktest.Main(m)
}
