package download

import (
	"os"
	"testing"

	"github.com/millrace-io/millrace/internal/leaktest"
)

// smallDisk names the address and the file that a process of its own, which may write few bytes, downloads.
const smallDisk = "MILLRACE_TEST_SMALL_DISK"

func TestMain(m *testing.M) {
	if os.Getenv(smallDisk) != "" {
		os.Exit(fillDisk())
	}
	leaktest.Main(m)
}
