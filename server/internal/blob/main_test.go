package blob

import (
	"os"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDirectory); dir != "" {
		writeUntilKilled(dir)
	}
	leaktest.Main(m)
}
