package demo

import (
	"testing"

	"github.com/millrace-io/millrace/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
