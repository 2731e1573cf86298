package hls

import (
	"testing"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }
