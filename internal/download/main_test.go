package download

import (
	"os"
	"testing"

	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(smallDisk) != "" {
		os.Exit(fillDisk())
	}
	leaktest.Main(m)
}
