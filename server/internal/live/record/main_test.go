package record

import (
	"os"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// The environment of a child process: its task and its directory.
const (
	childEnv     = "MILLRACE_TEST_RECORD"
	childDirEnv  = "MILLRACE_TEST_RECORD_DIR"
	childKilled  = "until killed"
	childLimited = "small files"
)

// children are the tasks of child processes. None of them returns.
var children = map[string]func(dir string){childKilled: recordUntilKilled}

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childEnv)]; child != nil {
		child(os.Getenv(childDirEnv))
	}
	leaktest.Main(m)
}
