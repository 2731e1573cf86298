package ownership_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/millrace-io/millrace/with/millracevet/ownership"
)

func TestReports(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), ownership.Analyzer, "./...")
}
